"""Incidents: opened, reviewed, closed. A major one leaves something behind, and it is looked up (R232)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.identity import Ref, new_id, parse_time, utc_now
from pretrain_archive.domain.records import Edge, Record, Relation
from pretrain_archive.domain.timeline import timeline
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.incident_follow_ups import follow_up
from pretrain_archive.services.incident_view import Grounds, IncidentView
from pretrain_archive.services.platform_said import Speaker, sentence, state

__all__ = [
    "Grounds", "IncidentView", "Report", "close", "evidence", "incident_of", "incidents", "open_incident", "review",
]  # fmt: skip

MOST_ENTRIES = 200
LANES = ("attempts", "stops", "waits", "members", "nodes", "network", "storage", "checkpoints", "operator")


def incidents(ledger: Ledger) -> list[IncidentView]:
    """Every incident, oldest first."""
    streams: dict[str, list[Record]] = {}
    for record in ledger.records(kinds=[name for name in kinds.KINDS if name.startswith("incident.")]):
        streams.setdefault(record.stream, []).append(record)
    return [view for records in streams.values() if (view := IncidentView.of(records))]


def incident_of(ledger: Ledger, name: str) -> IncidentView:
    """The incident with this id, or an unambiguous end of it; ``InputError`` otherwise."""
    found = IncidentView.of(ledger.records(streams=[f"incident/{name}"]))
    if found is not None:
        return found
    ends = [view for view in incidents(ledger) if len(name) >= 4 and view.incident_id.endswith(name)]
    if len(ends) == 1:
        return ends[0]
    problem = "names several incidents" if ends else "is not in the ledger"
    raise InputError("INCIDENT", name, problem, hint="List incidents with: pretrain-archive incident list")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What somebody noticed. ``attempts`` are ``RUN#N``."""

    severity: str
    title: str
    impact: str
    noticed_at: str = ""
    runs: tuple[str, ...] = ()
    attempts: tuple[str, ...] = ()


def open_incident(ledger: Ledger, grounds: Grounds, told: Report, who: Speaker) -> Record:
    """Record an incident with the runs that it touched and the runbook as it stood.

    ``InputError`` names what cannot be recorded.
    """
    if told.severity not in {"minor", "major"}:
        raise InputError("severity", told.severity, "is neither minor nor major")
    noticed = told.noticed_at or utc_now()
    try:
        parse_time(noticed)
    except ValueError as error:
        raise InputError("at", noticed, str(error), hint="Write 2026-11-30T10:00:00Z.") from error
    runs = list(dict.fromkeys([*told.runs, *(text.partition("#")[0] for text in told.attempts)]))
    views = {uid: load_run(ledger, uid) for uid in runs}
    for uid, view in views.items():
        if view.opened is None:
            raise InputError("run", uid, "is not in the ledger")
    for text in told.attempts:
        number = text.partition("#")[2]
        if (
            not number.isdecimal()
            or len(number) > 9
            or not 1 <= int(number) <= views[text.partition("#")[0]].attempts
        ):
            raise InputError("attempt", text, "is no attempt of that run", hint="Write RUN#1.")
    payload = kinds.IncidentOpened.model_validate({
        "incident_id": new_id("incident"), "severity": told.severity, "title": sentence("title", told.title, most=300),
        "impact": sentence("impact", told.impact), "noticed_at": noticed, "runs": runs,
        "attempts": list(told.attempts), "runbook": grounds.runbook, "sections": grounds.sections(), **who.said,
    })  # fmt: skip
    about = Ref(type="incident", id=payload.incident_id)
    edges = tuple(Edge(subject=about, relation=Relation.USED, object=Ref(type="run", id=uid)) for uid in runs)
    return state(ledger, who, f"incident/{payload.incident_id}", payload, about=about, edges=edges)


def review(
    ledger: Ledger, incident: IncidentView, who: Speaker, *, cause: str, contributing: tuple[str, ...] = ()
) -> Record:
    """Record the cause, beside what the linked runs' own timelines show; a later review replaces an earlier one."""
    _still_open(incident)
    payload = kinds.IncidentReviewed(
        incident_id=incident.incident_id, cause=sentence("cause", cause), timeline=evidence(ledger, incident),
        contributing=[sentence("contributing", text) for text in contributing], **who.said,
    )  # fmt: skip
    return _say(ledger, who, incident, payload)


def evidence(ledger: Ledger, incident: IncidentView) -> list[dict[str, Any]]:
    """What went wrong or changed in the linked runs (of linked attempts only, where some are linked)."""
    found = []
    for uid in incident.opened.runs:
        linked = {
            int(text.partition("#")[2])
            for text in incident.opened.attempts
            if text.startswith(f"{uid}#")
        }  # fmt: skip
        for entry in timeline(load_run(ledger, uid), lanes=LANES):
            if linked and entry.attempt not in linked:
                continue
            if (
                entry.tone == "bad"
                or entry.lane in {"stops", "waits", "operator"}
                or entry.kind == "attempt.ended"
            ):
                found.append({
                    "at": entry.at, "run": uid, "attempt": entry.attempt, "lane": entry.lane, "what": entry.what[:500],
                    "record": entry.record,
                })  # fmt: skip
    return sorted(found, key=lambda entry: str(entry["at"]))[-MOST_ENTRIES:]


def close(
    ledger: Ledger, grounds: Grounds, incident: IncidentView, who: Speaker, *, learnt: str,
    follow_ups: tuple[str, ...] = (),
) -> Record:  # fmt: skip
    """Close a reviewed incident; a major one names at least one follow-up, and every one named is looked up.

    Follow-ups are ``drill:FAULT``, ``test:PATH::NAME``, ``policy:PROJECT.FIELD`` and ``runbook:HEADING``. Raises
    ``RefusedError`` where the incident was not reviewed or nothing came of it, and ``InputError`` for a follow-up that
    is not there or is as old as the incident.
    """
    _still_open(incident)
    if incident.reviewed is None:
        raise RefusedError(
            f"incident {incident.incident_id} cannot be closed",
            reasons=("it was not reviewed: its cause is unrecorded",),
        )
    found = [follow_up(ledger, grounds, incident, text) for text in dict.fromkeys(follow_ups)]
    if incident.opened.severity == "major" and not found:
        raise RefusedError(
            f"incident {incident.incident_id} cannot be closed",
            reasons=(
                "a major incident leaves a fault sample, a stop rule or an entry of the runbook behind",
            ),
            hint="Name one with --follow-up drill:FAULT, test:PATH::NAME, policy:PROJECT.FIELD or runbook:HEADING.",
        )
    payload = kinds.IncidentClosed(
        incident_id=incident.incident_id, learnt=sentence("learnt", learnt), follow_ups=found, **who.said
    )
    return _say(ledger, who, incident, payload)


def _still_open(incident: IncidentView) -> None:
    if incident.closed is not None:
        raise RefusedError(
            f"incident {incident.incident_id} is closed", hint="Open another one for what happened since."
        )


def _say(ledger: Ledger, who: Speaker, incident: IncidentView, payload: kinds.Payload) -> Record:
    about, stream = Ref(type="incident", id=incident.incident_id), f"incident/{incident.incident_id}"
    return state(ledger, who, stream, payload, about=about, follows=incident.records[-1].sequence)
