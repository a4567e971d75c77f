"""Incidents: opened, reviewed, closed. A major one leaves something behind, and it is looked up (R232)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.governance_observed import value_at
from pretrain_archive.domain.governance_runbook import RUNBOOK, sections, since
from pretrain_archive.domain.identity import Ref, new_id, parse_time, utc_now
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Edge, Record, Relation
from pretrain_archive.domain.timeline import timeline
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.platform_said import Speaker, sentence, state

FAULTS: tuple[str, ...] = get_args(kinds.DrillFiled.model_fields["injected"].annotation)
MOST_ENTRIES = 200
LANES = ("attempts", "stops", "waits", "members", "nodes", "network", "storage", "checkpoints", "operator")


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """Where follow-ups are looked up: ``root`` is the folder of the project's files, ``runbook`` a path below it."""

    root: Path
    policies: Callable[[str], LoadedPolicy]
    runbook: str = RUNBOOK

    def read(self, path: str) -> str | None:
        """The text of a file below the root, None where there is none; ``InputError`` for a path that leads outside."""
        whole = (self.root / path).resolve()
        if not whole.is_relative_to(self.root.resolve()):
            raise InputError("path", path, f"leads outside of {self.root}")
        return whole.read_text(encoding="utf-8", errors="replace") if whole.is_file() else None

    def sections(self) -> dict[str, str] | None:
        """The runbook's sections, None where it is not there."""
        text = self.read(self.runbook)
        return None if text is None else sections(text)


@dataclass(frozen=True, kw_only=True)
class IncidentView:
    """An incident as its records tell it."""

    records: tuple[Record, ...]
    opened: kinds.IncidentOpened
    reviewed: kinds.IncidentReviewed | None
    closed: kinds.IncidentClosed | None

    @classmethod
    def of(cls, records: Iterable[Record]) -> IncidentView | None:
        """The incident of a stream's records; None where nothing was opened."""
        told = tuple(records)
        read = [
            kinds.read_payload(r, kinds.KINDS[r.kind].model) for r in told if r.kind.startswith("incident.")
        ]
        opened = next((p for p in read if isinstance(p, kinds.IncidentOpened)), None)
        if opened is None:
            return None
        return cls(
            records=told, opened=opened,
            reviewed=next((p for p in reversed(read) if isinstance(p, kinds.IncidentReviewed)), None),
            closed=next((p for p in read if isinstance(p, kinds.IncidentClosed)), None),
        )  # fmt: skip

    @property
    def incident_id(self) -> str:
        """The incident's id."""
        return self.opened.incident_id

    @property
    def state(self) -> str:
        """One of open, reviewed, closed."""
        return "closed" if self.closed else "reviewed" if self.reviewed else "open"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "incident_id": self.incident_id, "state": self.state, "opened": self.opened.to_json(),
            "reviewed": self.reviewed.to_json() if self.reviewed else None,
            "closed": self.closed.to_json() if self.closed else None,
        }  # fmt: skip


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
        if not number.isdecimal() or not 1 <= int(number) <= views[text.partition("#")[0]].attempts:
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
    found = [_look_up(ledger, grounds, incident, text) for text in dict.fromkeys(follow_ups)]
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


def _look_up(ledger: Ledger, grounds: Grounds, incident: IncidentView, text: str) -> kinds.FollowUp:
    kind, _, ref = text.partition(":")
    finders: Mapping[str, Callable[[], kinds.FollowUp | str]] = {
        "drill": lambda: _drill(ledger, incident, ref),
        "test": lambda: _test(grounds, ref),
        "policy": lambda: _policy(ledger, grounds, incident, ref),
        "runbook": lambda: _section(grounds, incident, ref),
    }
    found = finders[kind]() if kind in finders and ref else f"is none of {', '.join(finders)} with a name"
    if isinstance(found, str):
        raise InputError("follow-up", text, found, hint="Make it first, then close the incident.")
    return found


def _drill(ledger: Ledger, incident: IncidentView, fault: str) -> kinds.FollowUp | str:
    """A fault that a drill injects, and that a drill did inject since."""
    if fault not in FAULTS:
        return f"is no fault that a drill injects ({', '.join(FAULTS)})"
    begin = incident.records[0].position
    for record in ledger.records(kinds=["drill.filed"], after=begin):
        if record.payload.get("injected") == fault:
            passed = "passed" if record.payload.get("passed") else "found a gap"
            found = f"drilled since in run {record.stream} ({record.record_id}), which {passed}"
            return kinds.FollowUp(kind="drill", ref=fault, found=found)
    return "was not drilled since the incident was opened"


def _test(grounds: Grounds, ref: str) -> kinds.FollowUp | str:
    """A test that stands in a file."""
    path, _, name = ref.partition("::")
    source = grounds.read(path)
    if source is None:
        return f"there is no file {path} below {grounds.root}"
    if not re.search(rf"^\s*(?:async\s+)?def {re.escape(name)}\(", source, re.MULTILINE) or not name:
        return f"no test {name!r} stands in {path}"
    digest = "sha256:" + hashlib.sha256(source.encode()).hexdigest()
    return kinds.FollowUp(kind="test", ref=ref, found=f"defined in {path}", digest=digest)


def _policy(ledger: Ledger, grounds: Grounds, incident: IncidentView, ref: str) -> kinds.FollowUp | str:
    """A value of a policy that is not the one under which the linked runs of the project ran."""
    project, _, path = ref.partition(".")
    loaded = grounds.policies(project)
    value = value_at(loaded.policy.model_dump(mode="json"), path) if path else None
    if value is None:
        return f"the policy of {project} sets no {path or 'field'}"
    for uid in incident.opened.runs:
        opened = load_run(ledger, uid).opened
        if opened and opened.project == project and value == value_at(opened.policy, path):
            return f"is {value}, as it was when run {uid} was opened"
    return kinds.FollowUp(kind="policy", ref=ref, found=f"{path} is {value}", digest=loaded.digest)


def _section(grounds: Grounds, incident: IncidentView, heading: str) -> kinds.FollowUp | str:
    """A section of the runbook that is new or was changed since the incident was opened."""
    now = grounds.sections()
    if now is None:
        return f"there is no runbook at {grounds.root / grounds.runbook}"
    before = incident.opened.sections if incident.opened.runbook == grounds.runbook else None
    how = since(before, now, heading)
    if how in {"missing", "as before"}:
        return (
            f"is {how} in {grounds.runbook}" if how == "missing" else f"stands as before in {grounds.runbook}"
        )
    return kinds.FollowUp(
        kind="runbook", ref=heading, found=f"the section is {how} in {grounds.runbook}", digest=now[heading]
    )
