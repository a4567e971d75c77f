"""Platform changes: propose, verify, widen, accept, roll back (R228–R230). Each step reads first and appends once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError, PolicyError, RefusedError
from pretrain_archive.domain.governance_changes import DEFAULT_WHERE, ChangeView, proposal_gaps
from pretrain_archive.domain.governance_drill import FAULTS
from pretrain_archive.domain.governance_support import supports
from pretrain_archive.domain.identity import Ref, new_id
from pretrain_archive.domain.kinds.governance import Component
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.platform_affected import affected_by, seen_since, since_of
from pretrain_archive.services.platform_evidence import acceptance, verification
from pretrain_archive.services.platform_said import Speaker, optional, sentence, state

Policies = Callable[[str], LoadedPolicy]

COMPONENTS: tuple[str, ...] = get_args(Component)
ACCEPTING = ("model_owner", "acceptance")
"""The roles that accept a change for a project's tasks; the platform owner is none of them."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What somebody wants to change. ``regression`` is ``drill:FAULT`` or ``run:UID``."""

    component: str
    before: str
    after: str
    reason: str
    regression: str
    stages: tuple[float, ...]
    where: str = ""
    key: bool = False
    projects: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    rollback: str = ""
    limits: tuple[str, ...] = ()
    recent_days: float = 30


def propose(ledger: Ledger, policies: Policies, told: Proposal, who: Speaker) -> Record:
    """Record a proposal together with whom it touches; the ledger says that, not the proposer.

    Raises ``InputError`` for a word that means nothing, ``RefusedError`` naming everything that the proposal lacks,
    a change of the same value that is still under way among them.
    """
    if told.component not in COMPONENTS:
        raise InputError("component", told.component, f"is none of {', '.join(COMPONENTS)}")
    where = told.where or DEFAULT_WHERE.get(told.component, "")
    if not where:
        raise InputError(
            "where", "", f"the place of a {told.component}'s value is not known by itself",
            hint="Name it: packages.torch, stack.nccl, policy.compute.kubernetes.queue and the like.",
        )  # fmt: skip
    since = since_of(told.recent_days)
    touched, unrecorded, count = affected_by(ledger, where, told.before, since)
    payload = kinds.PlatformProposed.model_validate({
        "change_id": new_id("change"), "component": told.component, "where": where, "key": told.key,
        "before": sentence("before", told.before), "after": sentence("after", told.after),
        "reason": sentence("reason", told.reason), "regression": _regression(ledger, told.regression),
        "scope_projects": list(told.projects), "scope_nodes": list(told.nodes), "stages": list(told.stages),
        "rollback": optional("rollback", told.rollback), "known_limits": [sentence("limit", t) for t in told.limits],
        "affected": touched, "unrecorded_runs": unrecorded, "looked_at": count, "since": since,
        "support": _support(policies, told.component, {t.project for t in touched} | set(told.projects)), **who.said,
    })  # fmt: skip
    gaps = list(proposal_gaps(payload))
    gaps += [f"change {other.change_id} of {where} is under way" for other in changes(ledger)
             if other.open and other.proposed.where == where]  # fmt: skip
    if gaps:
        raise RefusedError(
            "the change cannot be proposed", reasons=tuple(gaps), hint="Complete it and propose it again."
        )
    stream = f"change/{payload.change_id}"
    return state(ledger, who, stream, payload, about=Ref(type="change", id=payload.change_id))


def _regression(ledger: Ledger, text: str) -> kinds.Regression:
    """The scenario, which exists: a fault that a drill injects, or a run that came through itself."""
    kind, _, name = text.partition(":")
    if kind == "drill" and name in FAULTS:
        return kinds.Regression(kind="drill", name=name)
    if kind == "run" and name:
        view = load_run(ledger, name)
        ended = view.latest(kinds.AttemptEnded)
        if view.opened is not None and ended is not None and ended.state == "completed":
            return kinds.Regression(kind="run", name=name)
        problem = "is not in the ledger" if view.opened is None else "did not complete itself"
        raise InputError("regression", text, f"the reference run {problem}")
    raise InputError(
        "regression",
        text,
        f"is neither drill:FAULT ({', '.join(FAULTS)}) nor run:UID",
        hint="Name the scenario.",
    )


def _support(policies: Policies, component: str, projects: set[str]) -> list[dict[str, Any]]:
    """Who supports the component, by the policies of the projects; a project without a word has none recorded."""
    found: list[dict[str, Any]] = []
    for project in sorted(projects):
        try:
            platform = policies(project).policy.platform
        except PolicyError as error:
            found.append({"project": project, "state": "unrecorded", "problem": error.message})
            continue
        mine = [s for s in supports(platform, datetime.now(UTC).date()) if s.component == component]
        found.append({"project": project, **(mine[0].to_dict() if mine else {"state": "unrecorded"})})
    return found


def changes(ledger: Ledger) -> list[ChangeView]:
    """Every change, oldest first."""
    names = [name for name in kinds.KINDS if name.startswith("platform.")]
    streams: dict[str, list[Record]] = {}
    for record in ledger.records(kinds=names):
        streams.setdefault(record.stream, []).append(record)
    return [view for records in streams.values() if (view := ChangeView.of(records))]


def change_of(ledger: Ledger, name: str) -> ChangeView:
    """The change with this id, or an unambiguous end of it; ``InputError`` otherwise."""
    found = ChangeView.of(ledger.records(streams=[f"change/{name}"]))
    if found is not None:
        return found
    ends = [view for view in changes(ledger) if len(name) >= 4 and view.change_id.endswith(name)]
    if len(ends) == 1:
        return ends[0]
    problem = "names several changes" if ends else "is not in the ledger"
    raise InputError("CHANGE", name, problem, hint="List changes with: pretrain-archive platform change list")


def _in_order(change: ChangeView, act: str) -> None:
    if reasons := change.refusals(act):
        raise RefusedError(f"change {change.change_id} cannot be {_DONE[act]}", reasons=reasons)


_DONE = {"verify": "verified", "widen": "widened", "accept": "accepted", "roll back": "rolled back"}


def _say(ledger: Ledger, who: Speaker, change: ChangeView, payload: kinds.Payload) -> Record:
    """Append the next statement about a change, unless the change moved on since it was read."""
    about = Ref(type="change", id=change.change_id)
    return state(ledger, who, f"change/{change.change_id}", payload, about=about, follows=change.newest)


def verify(ledger: Ledger, change: ChangeView, view: RunView, who: Speaker) -> Record:
    """Record that the scenario came through on the new value; ``RefusedError`` names everything that did not hold."""
    _in_order(change, "verify")
    named = change.proposed.regression
    look = verification(change, view, load_run(ledger, named.name) if named.kind == "run" else None)
    if look.against:
        raise RefusedError(
            f"run {view.run_uid} does not verify change {change.change_id}", reasons=tuple(look.against),
            hint=f"Run {change.scenario} on {change.proposed.after} inside the scope, and name that run.",
        )  # fmt: skip
    payload = kinds.PlatformVerified(
        change_id=change.change_id, run_uid=view.run_uid, attempt=look.attempt, found=look.found,
        evidence=list(dict.fromkeys(look.evidence)), **who.said,
    )  # fmt: skip
    return _say(ledger, who, change, payload)


def widen(ledger: Ledger, change: ChangeView, who: Speaker, *, share: float, despite: str = "") -> Record:
    """Record that the next stage is reached; attempts that broke off on the new value need a reason (``despite``)."""
    _in_order(change, "widen")
    if share != change.next_share:
        raise RefusedError(
            f"change {change.change_id} cannot be widened to {share:g}",
            reasons=(f"the next stage is {change.next_share:g}",), hint="Stages come one after the other.",
        )  # fmt: skip
    seen = _seen(ledger, change)
    broken = [s for s in seen if s.state not in {None, "completed"}]
    reason = optional("despite", despite)
    if broken and reason is None:
        told = [f"attempt {s.attempt} of {s.run_uid} on {change.proposed.after} {s.state}" for s in broken]
        raise RefusedError(
            f"change {change.change_id} cannot be widened to {share:g}", reasons=tuple(told[:10]),
            hint="Find out why; go on with --despite REASON if the change is not the cause, or roll it back.",
        )  # fmt: skip
    payload = kinds.PlatformWidened(
        change_id=change.change_id, stage=len(change.widened) + 1, share=share, seen=seen,
        despite=reason if broken else None, **who.said,
    )  # fmt: skip
    return _say(ledger, who, change, payload)


def _seen(ledger: Ledger, change: ChangeView) -> list[kinds.SeenAttempt]:
    """Attempts on the new value since the proposal, without those whose end an earlier stage told already."""
    told = {(s.run_uid, s.attempt, s.state) for stage in change.widened for s in stage.seen if s.state}
    seen = seen_since(ledger, change.proposed.where, change.proposed.after, position=change.begin)
    return [s for s in seen if (s.run_uid, s.attempt, s.state) not in told]


def accept(
    ledger: Ledger, policies: Policies, change: ChangeView, view: RunView, who: Speaker, *, project: str
) -> Record:
    """Record that the owner of a project's tasks accepts the change, on a run of the project that came through."""
    _in_order(change, "accept")
    people = policies(project).policy.people
    role = next((name for name in ACCEPTING if getattr(people, name) == who.person), None)
    look = acceptance(change, view, project)
    reasons = list(look.against)
    if role is None:
        reasons.insert(0, f"{who.person} is neither {' nor '.join(ACCEPTING)} of project {project}")
    if project in {a.project for a in change.accepted}:
        reasons.insert(0, f"project {project} has accepted it already")
    if role is None or reasons:
        raise RefusedError(
            f"change {change.change_id} is not accepted for project {project}", reasons=tuple(reasons),
            hint="That the platform is upgraded is no acceptance: name a run of the project that came through on it.",
        )  # fmt: skip
    payload = kinds.PlatformAccepted(
        change_id=change.change_id, project=project, role=role, run_uid=view.run_uid, attempt=look.attempt,
        found=look.found, evidence=list(dict.fromkeys(look.evidence)), **who.said,
    )  # fmt: skip
    return _say(ledger, who, change, payload)


def roll_back(ledger: Ledger, change: ChangeView, who: Speaker, *, reason: str, way: str = "") -> Record:
    """Record that a change was taken back, how, and which attempts had run on the new value."""
    _in_order(change, "roll back")
    taken = optional("way", way) or change.proposed.rollback
    if taken is None:
        raise InputError("way", way, "the proposal names no way back", hint="Say how it was taken back.")
    told = change.proposed
    seen = seen_since(ledger, told.where, told.after, position=change.begin)
    payload = kinds.PlatformRolledBack(
        change_id=change.change_id, reason=sentence("reason", reason), way=taken, seen=seen, **who.said
    )
    return _say(ledger, who, change, payload)


def change_document(change: ChangeView) -> dict[str, Any]:
    """A change as plain JSON: its state, its next stage, and apart from both who accepted it."""
    return {
        "change_id": change.change_id, "state": change.state, "next_share": change.next_share,
        "not_accepted": list(change.not_accepted), "accepted": [a.to_json() for a in change.accepted],
        "proposed": change.proposed.to_json(),
        "verified": change.verified.to_json() if change.verified else None,
        "widened": [w.to_json() for w in change.widened],
        "rolled_back": change.rolled_back.to_json() if change.rolled_back else None,
    }  # fmt: skip
