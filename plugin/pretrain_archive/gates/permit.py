"""Permission to launch, derived from the ledger alone and usable once.

The launch token names everything that the launch is bound to. Its signature is the log's: the token is made
only from a prepare decision that a signed checkpoint of the log includes, and the record that consumes it is
part of the log that the next checkpoint signs. Task states, XCom and DAG topology are not asked. A run that was
opened as an exploration needs no decision and gets no more than its ceiling: see :mod:`.exploration`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import (
    AlreadyRecordedError,
    RefusedError,
    StreamMovedError,
)
from pretrain_archive.domain.exploration import Scope, scope_of
from pretrain_archive.domain.identity import Ref, format_time, new_id
from pretrain_archive.domain.policy import Gates, LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.reviews import attempts_left
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.training import spent_minutes
from pretrain_archive.gates import exploration
from pretrain_archive.gates.permit_parts import (
    NOT_SIGNED_YET,
    PASSING,
    LaunchPermit,
    Observed,
    anchor_faults,
    bound_facts,
    bound_faults,
    identity_faults,
    open_attempt,
    rights_faults,
    signed_over,
)
from pretrain_archive.gates.permit_time import TOKEN_LIVES, Moment, moment_at, valid_until
from pretrain_archive.gates.review import review_faults
from pretrain_archive.gates.service import GateView, gate_view
from pretrain_archive.gates.sources import newest_of_sources, with_sources
from pretrain_archive.ledger.port import Ledger

__all__ = [
    "NOT_SIGNED_YET",
    "PASSING",
    "LaunchPermit",
    "Observed",
    "consume_permit",
    "derive_permit",
    "launch_faults",
    "open_attempt",
    "rights_faults",
    "signature_faults",
    "valid_until",
]

HINT = "Mend what is named and answer the prepare gate again; nothing was started."
HINT_EXPLORATION = "Mend what is named, or trigger a full run and have it signed; nothing was started."
MOST_TRIES = 5
"""How often a share of the day is asked for afresh because another exploration took one meanwhile."""


def signature_faults(gate: GateView, *, now: datetime, hours: float, policy: LoadedPolicy) -> list[str]:
    """Why the gate is not signed for what stands now; empty if an entitled person's fresh approval stands."""
    if gate.decision is None:
        return [f"the {gate.gate} gate has no decision in the ledger"]
    record, decision = gate.decision
    faults: list[str] = []
    if decision.decision != "approve":
        faults.append(f"the {gate.gate} gate was rejected by {decision.person_name}")
    if gate.lapsed:
        faults.append(f"the {gate.gate} gate was asked again and expired without an answer")
    faults += [f"stale approval, changed since {decision.person_name} signed: {part}" for part in gate.stale]
    if decision.person_name not in gate.eligible:
        faults.append(f"{decision.person_name} is not entitled to sign")
    faults += identity_faults(record, decision, policy.policy.gates)
    until = valid_until(record, hours=hours)
    if now > until:
        faults.append(f"the approval expired at {format_time(until)}")
    if gate.policy_changed:
        faults.append(f"the policy {policy.name} changed since the run was opened")
    return faults


def _ceiling_faults(view: RunView) -> list[str]:
    """Attempts and budget: what a run may still take."""
    config = view.latest(kinds.ConfigurationDeclared)
    if config is None:
        return []
    faults: list[str] = []
    if attempts_left(view) == 0:
        faults.append(f"all {config.stop.max_attempts} attempts are used")
    if spent_minutes(view) >= config.budget.minutes:
        faults.append(f"the budget of {config.budget.minutes:g} minutes is used up")
    return faults


def _hours(view: RunView, rules: Gates) -> float:
    """How long an approval holds for the next attempt."""
    resumed = rules.resume_valid_hours if view.attempts else None
    return resumed or rules.decision_valid_hours


def _moment(ledger: Ledger, view: RunView, now: datetime) -> Moment:
    """The time that counts: what the ledger has seen since the decision, for an exploration since the opening."""
    decision = view.decision("prepare") if scope_of(view.opened) == "full" else None
    return moment_at(ledger, now, after=decision[0].position if decision else view.records[0].position)


def launch_faults(
    ledger: Ledger, view: RunView, *, dag_run_id: str, policy: LoadedPolicy, observed: Observed, now: datetime
) -> tuple[GateView, list[str]]:
    """The prepare gate, and everything that forbids this run to occupy anything now, ceilings aside.

    A view that was built by :func:`with_sources` is judged by what was seen then.
    """
    if view.opened is None or not view.opened.policy:
        raise RefusedError(f"no launch: run {view.run_uid} is not opened in the ledger")
    faults = anchor_faults(ledger)
    if view.state == "closed":
        faults.append("the run is closed")
    if view.opened.dag_run_id != dag_run_id:
        faults.append(f"the run belongs to DAG run {view.opened.dag_run_id!r}")
    moment = _moment(ledger, view, now)
    view = view if view.around else with_sources(ledger, view)
    gate = gate_view(ledger, view, "prepare", policy, launching=True)
    if scope_of(view.opened) == "full":
        faults += signature_faults(
            gate, now=moment.counts, hours=_hours(view, policy.policy.gates), policy=policy
        )
        faults += [f"{item.id} is {item.verdict.value}" for item in gate.dossier.blocked_by()]
    else:
        faults += (
            [f"the policy {policy.name} changed since the run was opened"] if gate.policy_changed else []
        )
        faults += exploration.ceiling_faults(view, policy)
    faults += review_faults(
        view, lambda: gate_view(ledger, view, "review", policy),
        lambda review: signature_faults(
            review, now=moment.counts, hours=policy.policy.gates.decision_valid_hours, policy=policy
        ),
    )  # fmt: skip
    faults += rights_faults(view, now=moment.counts)
    faults += bound_faults(view, observed, policy)
    if faults and (behind := moment.behind()):
        faults[-1] += behind
    return gate, faults


def derive_permit(
    ledger: Ledger, view: RunView, *, dag_run_id: str, policy: LoadedPolicy, observed: Observed, now: datetime,
    scope: Scope | None = None,
) -> LaunchPermit:  # fmt: skip
    """Derive the launch token of the next attempt; :class:`RefusedError` names everything that forbids it.

    ``scope`` is what the caller expects the run to be, None where it takes what the run was opened as.
    """
    view = with_sources(ledger, view)
    own = scope_of(view.opened)
    gate, faults = launch_faults(
        ledger, view, dag_run_id=dag_run_id, policy=policy, observed=observed, now=now
    )
    if scope is not None and scope != own:
        faults.append(
            f"the run was opened as {own}, a launch of scope {scope} is asked for: that is a new run"
        )
    faults += _ceiling_faults(view)
    if (running := open_attempt(view)) is not None:
        faults.append(f"attempt {running.attempt} has no recorded end")
    permit: LaunchPermit | None = None
    if not faults and own == "full":
        permit, faults = _derive_full(ledger, view, gate, policy=policy, observed=observed, now=now)
    elif not faults:
        moment = _moment(ledger, view, now).counts
        permit, faults = exploration.derive(
            ledger, view, policy=policy, observed=observed, now=now, moment=moment
        )
    if faults or permit is None:
        hint = HINT if own == "full" else HINT_EXPLORATION
        raise RefusedError("no launch", reasons=tuple(dict.fromkeys(faults)), hint=hint)
    return permit


def _derive_full(
    ledger: Ledger, view: RunView, gate: GateView, *, policy: LoadedPolicy, observed: Observed, now: datetime
) -> tuple[LaunchPermit | None, list[str]]:
    """The token that the prepare decision allows, or what the signed log says against it."""
    bound = bound_facts(view, view.attempts + 1, observed, policy)
    if gate.decision is None or bound is None:
        return None, ["snapshot, split or configuration is unrecorded"]
    record, decision = gate.decision
    checkpoint, faults = signed_over(ledger, view.records, rests_on=record.position, missing=NOT_SIGNED_YET)
    if checkpoint is None:
        return None, faults
    token = bound | {
        "prepare_decision": record.record_id,
        "dossier_digest": decision.dossier_digest,
        "expires": format_time(valid_until(record, hours=_hours(view, policy.policy.gates))),
        "nonce": new_id("nonce"),
    }
    permit = LaunchPermit(
        run_uid=view.run_uid, attempt=view.attempts + 1, checkpoint=checkpoint, follows=view.newest,
        sources=newest_of_sources(view), token=token, derived_at=now, rests_on=record.position,
    )  # fmt: skip
    return permit, []


def _late(ledger: Ledger, permit: LaunchPermit, now: datetime) -> None:
    """Refuse a token that was kept: what was checked when it was derived may no longer hold."""
    moment = moment_at(ledger, now, after=permit.rests_on)
    faults: list[str] = []
    named = (permit.token["run_uid"], permit.token["attempt"])
    if named != (permit.run_uid, permit.attempt):
        faults.append(f"the token is of run {named[0]} attempt {named[1]}")
    if format_time(moment.counts) > str(permit.token["expires"]):
        faults.append(f"the token expired at {permit.token['expires']}{moment.behind()}")
    if abs(moment.clock - permit.derived_at) > TOKEN_LIVES:
        faults.append(f"the token was derived at {format_time(permit.derived_at)} and kept since")
    if faults:
        raise RefusedError(
            "no launch", reasons=tuple(faults), hint="Run the task again: it derives another token."
        )


def consume_permit(
    ledger: Ledger,
    permit: LaunchPermit,
    *,
    target: str,
    actor: Actor,
    origin: Origin,
    now: datetime | None = None,
) -> Record:
    """Record the launch intent; the token's use is unique in the whole ledger.

    Raises ``AlreadyRecordedError`` if this attempt's token was used before, also by the same task try (whose
    repeated write the ledger would find again), and ``StreamMovedError`` if the run got any record since the
    token was derived (a rejection, a close, another launch), or one of its sources did (a withdrawal, a right that
    was revoked), and :class:`RefusedError` if the token is too old or its share of the day is gone: then nothing
    may start.
    """
    for used in ledger.records(streams=[permit.run_uid], kinds=["launch.intended"]):
        if used.attempt == permit.attempt:
            raise AlreadyRecordedError(
                f"The launch token of attempt {permit.attempt} of run {permit.run_uid} was used by record "
                f"{used.record_id}.",
                record_id=used.record_id,
                hint="Run the task again: it derives the token of the next attempt.",
            )
    _late(ledger, permit, now or datetime.now(UTC))
    intent = _intent(permit, target, actor, origin)
    if permit.share is None:
        return ledger.append([intent])[0]
    for tries in range(MOST_TRIES):
        try:
            return ledger.append(
                [intent, exploration.reservation(ledger, permit, actor=actor, origin=origin)]
            )[0]
        except StreamMovedError:
            if tries + 1 == MOST_TRIES:
                raise
    raise AssertionError("unreachable")


def _intent(permit: LaunchPermit, target: str, actor: Actor, origin: Origin) -> Draft:
    payload = kinds.LaunchIntended(
        token_digest=permit.digest,
        token=permit.token,
        target=target,
        checkpoint_size=permit.checkpoint.size,
        checkpoint_root=permit.checkpoint.root,
        signer=permit.checkpoint.signer,
        scope=permit.scope,
    )
    run = Ref(type="run", id=permit.run_uid)
    bound = [
        Ref(type="configuration", id=permit.token["configuration_digest"]),
        Ref(type="environment", id=permit.token["environment_digest"]),
    ]
    if (signed := permit.token.get("dossier_digest")) is not None:
        bound.append(Ref(type="decision", id=f"{permit.run_uid}/prepare", version=str(signed)[7:]))
    return Draft(
        stream=permit.run_uid, kind="launch.intended", payload=payload.to_json(), actor=actor, origin=origin,
        attempt=permit.attempt, unique=f"launch/{permit.run_uid}/{permit.attempt}", follows=permit.follows,
        beside=permit.sources,
        edges=tuple(Edge(subject=run, relation=Relation.USED, object=ref) for ref in bound),
    )  # fmt: skip
