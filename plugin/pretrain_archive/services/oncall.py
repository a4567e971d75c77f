"""What somebody on call needs of a run, in one answer: whom to call, why it waits, what ended how, where to read.

Logs, metrics and use of resources stand beside events and waits (R083). Nothing is asked of an administrator, a cluster
or a log (R231): ledger, policy and runbook have it all. What is not recorded is said to be unrecorded, a team without
a name among it.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.domain.governance_runbook import SYMPTOMS, sections, symptoms
from pretrain_archive.domain.governance_support import recorded_platform, supports
from pretrain_archive.domain.governance_texts import SYMPTOMS as WORDS
from pretrain_archive.domain.governance_texts import TEAMS, pair
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.timeline import timeline
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.incidents import Grounds, incidents
from pretrain_archive.services.platform_changing import changes
from pretrain_archive.services.timelines import diagnosis_of

LAST_EVENTS = 15


def bundle(ledger: Ledger, view: RunView, grounds: Grounds, *, today: date) -> dict[str, Any]:
    """The evidence for somebody on call, as plain JSON; texts for persons in both languages."""
    touched = [change for change in changes(ledger)
               if change.open and view.run_uid in {a.run_uid for a in change.proposed.affected}]  # fmt: skip
    named = [one for one in incidents(ledger) if one.state != "closed" and view.run_uid in one.opened.runs]
    supported = supports(recorded_platform(view), today)
    trust = untrusted(ledger)
    seen = (["ledger"] if trust else []) + symptoms(view)
    seen += ["change"] if touched else []
    seen += ["incident"] if named else []
    seen += ["support"] if any(s.state != "valid" for s in supported) else []
    diagnosis = diagnosis_of(view)
    return {
        "run_uid": view.run_uid, "state": view.state, "project": view.opened.project if view.opened else None,
        "contacts": contacts(view), "waiting": waiting(view), "exits": exits(view), "metrics": metrics(view),
        "events": [entry.to_dict() for entry in timeline(view)[-LAST_EVENTS:]],
        "inspection": diagnosis["inspection"], "hints": diagnosis["hints"],
        "support": [one.to_dict() for one in supported],
        "changes": [{"change_id": c.change_id, "state": c.state, "what": c.proposed.component,
                     "before": c.proposed.before, "after": c.proposed.after} for c in touched],
        "incidents": [{"incident_id": o.incident_id, "title": o.opened.title} for o in named],
        "ledger": trust,
        "read": [_section(grounds, symptom) for symptom in seen or ["nothing"]],
    }  # fmt: skip


def untrusted(ledger: Ledger) -> str | None:
    """Why the archive itself cannot be trusted as it stands, such as an anchor that is ahead of it. None if it can."""
    try:
        ledger.attest()
    except LedgerError as error:
        return error.message
    return None


def contacts(view: RunView) -> dict[str, Any]:
    """Whom to call for each team, the owners of the run, and who answers its next gate; None is unrecorded."""
    teams, gate = recorded_platform(view).teams.model_dump(), view.waiting_gate()
    asked = view.dossier(gate) if gate else None
    return {
        "teams": [{"team": team, "title": pair(TEAMS, team), "person": teams[team]} for team in TEAMS],
        "owners": dict(view.opened.people) if view.opened else {},
        "gate": {"gate": gate, "eligible": list(asked[1].eligible)} if asked else None,
    }


def waiting(view: RunView) -> dict[str, Any] | None:
    """Why the newest attempt waits right now, in the cluster's words; None where it does not."""
    found = view.last(kinds.WaitObserved)
    if found is None or found[1].ended or found[1].attempt != view.attempts:
        return None
    if any(ended.attempt == view.attempts for _, ended in view.all(kinds.AttemptEnded)):
        return None
    return {"reason": found[1].reason, "message": found[1].message, "object": found[1].object, "since": found[1].at,
            "record": found[0].record_id}  # fmt: skip


def exits(view: RunView) -> list[dict[str, Any]]:
    """How each attempt ended, and its members where they were seen; an attempt without an end is unrecorded."""
    ended = {end.attempt: (record, end) for record, end in view.all(kinds.AttemptEnded)}
    found = []
    for number in range(1, view.attempts + 1):
        record, end = ended.get(number, (None, None))
        members = {m.worker: m for _, m in view.all(kinds.MemberObserved) if m.attempt == number}
        found.append({
            "attempt": number, "state": end.state if end else "unrecorded", "reason": end.reason if end else "",
            "exit_code": end.exit_code if end else None, "exit_class": end.exit_class if end else None,
            "last_step": end.last_step if end else None, "log_uri": end.log_uri if end else None,
            "log_digest": end.log_digest if end else None, "resources": resources(end),
            "record": record.record_id if record else None,
            "members": [{"worker": m.worker, "node": m.node, "phase": m.phase, "exit_class": m.exit_class,
                         "exit_code": m.exit_code, "reason": m.reason} for m in members.values()],
        })  # fmt: skip
    return found


def resources(end: kinds.AttemptEnded | None) -> dict[str, Any]:
    """What an attempt used; None is unrecorded."""
    names = (
        "seconds",
        "accelerator_seconds",
        "cpu_seconds",
        "max_rss_bytes",
        "node_sent_bytes",
        "node_received_bytes",
    )
    return {name: getattr(end, name, None) for name in names}


def metrics(view: RunView) -> list[dict[str, Any]]:
    """The newest value of each metric that the program reported, by name."""
    newest: dict[str, dict[str, Any]] = {}
    for record, batch in view.all(kinds.MetricsRecorded):
        for point in batch.points:
            newest[point.name] = {
                "name": point.name, "step": point.step, "value": point.value, "not_finite": point.not_finite,
                "attempt": batch.attempt, "record": record.record_id,
            }  # fmt: skip
    return [newest[name] for name in sorted(newest)]


def _section(grounds: Grounds, symptom: str) -> dict[str, Any]:
    """Where to read about a symptom; ``there`` False says that this runbook has no such section."""
    heading, there = SYMPTOMS[symptom], grounds.sections() or {}
    page = "docs/kubernetes.md" if symptom == "waiting" else grounds.runbook
    if page != grounds.runbook:
        there = sections(grounds.read(page) or "")
    return {
        "symptom": symptom, "seen": pair(WORDS, symptom), "page": page, "section": heading, "there": heading in there
    }  # fmt: skip
