"""Permission to launch, derived from the ledger alone and usable once.

The launch token names everything that the launch is bound to. Its signature is the log's: the token is made
only from a prepare decision that a signed checkpoint of the log includes, and the record that consumes it is
part of the log that the next checkpoint signs. Task states, XCom and DAG topology are not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import (
    AlreadyRecordedError,
    RefusedError,
)
from pretrain_archive.domain.identity import Ref, format_time, new_id, parse_time
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.source_rights import standings
from pretrain_archive.domain.training import spent_minutes
from pretrain_archive.gates.service import GateView, gate_view
from pretrain_archive.gates.sources import newest_of_sources, with_sources
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger, SignedCheckpoint
from pretrain_archive.ledger.proving import sealed_faults

NOT_SIGNED_YET = "no signed checkpoint covers the prepare decision yet"
"""The one reason that passes by itself: the signer of the log has still to come round."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What stands at the moment of launch, measured afresh: digests of code and environment."""

    code_digest: str
    environment_digest: str


@dataclass(frozen=True, kw_only=True)
class LaunchPermit:
    """A token that was derived and not yet consumed; ``follows`` is the newest record that was looked at.

    ``sources`` are the streams of the run's sources, each with the newest record in it that was looked at.
    """

    run_uid: str
    attempt: int
    token: dict[str, Any]
    checkpoint: SignedCheckpoint
    follows: int
    sources: Mapping[str, int]

    @property
    def digest(self) -> str:
        """The token's digest."""
        return digest_of(self.token)


def valid_until(decision: Record, *, hours: float) -> datetime:
    """When an approval ends: counted from its moment, or from its record where that is earlier."""
    moments = (str(decision.payload["responded_at"]), decision.recorded_at)
    return min(parse_time(moment) for moment in moments) + timedelta(hours=hours)


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
    until = valid_until(record, hours=hours)
    if now > until:
        faults.append(f"the approval expired at {format_time(until)}")
    if gate.policy_changed:
        faults.append(f"the policy {policy.name} changed since the run was opened")
    return faults


def _bound_faults(view: RunView, observed: Observed, policy: LoadedPolicy) -> list[str]:
    config, env = view.latest(kinds.ConfigurationDeclared), view.latest(kinds.EnvironmentDeclared)
    snapshot, split = view.latest(kinds.SnapshotCreated), view.latest(kinds.SplitCreated)
    if config is None or env is None or snapshot is None or split is None:
        return ["snapshot, split, configuration or environment is unrecorded"]
    faults: list[str] = []
    if config.code_digest is None or config.code_digest != observed.code_digest:
        faults.append("the training code changed after it was signed")
    if env.environment_digest != observed.environment_digest and policy.policy.environment.drift == "stop":
        faults.append("the environment changed after it was signed")
    launched = view.latest(kinds.LaunchIntended)
    used = (
        launched.token.get("snapshot_digest", snapshot.manifest_digest)
        if launched
        else snapshot.manifest_digest
    )
    if used != snapshot.manifest_digest:
        faults.append("an earlier attempt of this run had another snapshot: changed inputs are a new run")
    return faults


def _ceiling_faults(view: RunView) -> list[str]:
    """Attempts and budget: what a run may still take."""
    config = view.latest(kinds.ConfigurationDeclared)
    if config is None:
        return []
    faults: list[str] = []
    if view.attempts >= config.stop.max_attempts:
        faults.append(f"all {config.stop.max_attempts} attempts are used")
    if spent_minutes(view) >= config.budget.minutes:
        faults.append(f"the budget of {config.budget.minutes:g} minutes is used up")
    return faults


def rights_faults(view: RunView, *, now: datetime) -> list[str]:
    """Which sources of the run may not be read now: withdrawn, or the right to read them revoked or ended."""
    faults: list[str] = []
    for source in standings(view):
        if source.withdrawal is not None:
            fact = source.withdrawal[1]
            faults.append(f"source {source.name} was withdrawn at {fact.at} by {fact.by}: {fact.reason}")
        faults += [
            f"source {source.name}: {fault}" for fault in (source.revoked(), source.ended(now)) if fault
        ]
    return faults


def open_attempt(view: RunView) -> Record | None:
    """The launch intent of an attempt without a recorded end, or None."""
    ended = {fact.attempt for _, fact in view.all(kinds.AttemptEnded)}
    intents = [record for record, _ in view.all(kinds.LaunchIntended) if record.attempt not in ended]
    return intents[-1] if intents else None


def launch_faults(
    ledger: Ledger, view: RunView, *, dag_run_id: str, policy: LoadedPolicy, observed: Observed, now: datetime
) -> tuple[GateView, list[str]]:
    """The prepare gate, and everything that forbids this run to occupy anything now, ceilings aside.

    A view that was built by :func:`with_sources` is judged by what was seen then.
    """
    if view.opened is None or not view.opened.policy:
        raise RefusedError(f"no launch: run {view.run_uid} is not opened in the ledger")
    faults: list[str] = []
    if view.state == "closed":
        faults.append("the run is closed")
    if view.opened.dag_run_id != dag_run_id:
        faults.append(f"the run belongs to DAG run {view.opened.dag_run_id!r}")
    gate = gate_view(ledger, view, "prepare", policy)
    rules = policy.policy.gates
    hours = (
        rules.decision_valid_hours
        if view.attempts == 0
        else rules.resume_valid_hours or rules.decision_valid_hours
    )
    faults += signature_faults(gate, now=now, hours=hours, policy=policy)
    faults += [f"{item.id} is {item.verdict.value}" for item in gate.dossier.blocked_by()]
    faults += rights_faults(view if view.around else with_sources(ledger, view), now=now)
    return gate, faults + _bound_faults(view, observed, policy)


def _signed(ledger: Ledger, view: RunView, decision: Record) -> tuple[SignedCheckpoint | None, list[str]]:
    """A signed checkpoint that includes ``decision``, by which every record of the run it covers is proved."""
    checkpoint, faults = sealed_faults(ledger, view.records)
    if faults:
        return None, faults
    if checkpoint is None or checkpoint.size <= decision.position:
        return None, [NOT_SIGNED_YET]
    return checkpoint, []


def derive_permit(
    ledger: Ledger, view: RunView, *, dag_run_id: str, policy: LoadedPolicy, observed: Observed, now: datetime
) -> LaunchPermit:
    """Derive the launch token of the next attempt; :class:`RefusedError` names everything that forbids it."""
    view = with_sources(ledger, view)
    gate, faults = launch_faults(
        ledger, view, dag_run_id=dag_run_id, policy=policy, observed=observed, now=now
    )
    faults += _ceiling_faults(view)
    if (running := open_attempt(view)) is not None:
        faults.append(f"attempt {running.attempt} has no recorded end")
    checkpoint: SignedCheckpoint | None = None
    if gate.decision is not None and not faults:
        checkpoint, faults = _signed(ledger, view, gate.decision[0])
    if faults or checkpoint is None or gate.decision is None:
        raise RefusedError(
            "no launch",
            reasons=tuple(dict.fromkeys(faults)),
            hint="Mend what is named and answer the prepare gate again; nothing was started.",
        )
    return LaunchPermit(
        run_uid=view.run_uid,
        attempt=view.attempts + 1,
        checkpoint=checkpoint,
        follows=view.newest,
        sources=newest_of_sources(view),
        token=_token(view, gate, view.attempts + 1, observed, policy),
    )


def _token(
    view: RunView, gate: GateView, attempt: int, observed: Observed, policy: LoadedPolicy
) -> dict[str, Any]:
    config = view.latest(kinds.ConfigurationDeclared)
    snapshot, split = view.latest(kinds.SnapshotCreated), view.latest(kinds.SplitCreated)
    if config is None or snapshot is None or split is None or gate.decision is None:
        raise RefusedError("no launch", reasons=("snapshot, split or configuration is unrecorded",))
    record, decision = gate.decision
    rules = policy.policy.gates
    hours = (
        rules.decision_valid_hours if attempt == 1 else rules.resume_valid_hours or rules.decision_valid_hours
    )
    expires = valid_until(record, hours=hours)
    return {
        "format": "pretrain-archive/launch-token/1",
        "run_uid": view.run_uid,
        "attempt": attempt,
        "snapshot": f"{snapshot.name}@{snapshot.version}",
        "snapshot_digest": snapshot.manifest_digest,
        "split_digest": split.split_digest,
        "configuration_digest": config.configuration_digest,
        "code_digest": observed.code_digest,
        "environment_digest": observed.environment_digest,
        "budget": config.budget.to_json(),
        "minutes_left": round(config.budget.minutes - spent_minutes(view), 3),
        "stop": config.stop.to_json(),
        "policy_digest": policy.digest,
        "prepare_decision": record.record_id,
        "dossier_digest": decision.dossier_digest,
        "expires": format_time(expires),
        "nonce": new_id("nonce"),
    }


def consume_permit(
    ledger: Ledger, permit: LaunchPermit, *, target: str, actor: Actor, origin: Origin
) -> Record:
    """Record the launch intent; the token's use is unique in the whole ledger.

    Raises ``AlreadyRecordedError`` if this attempt's token was used before, also by the same task try (whose
    repeated write the ledger would find again), and ``StreamMovedError`` if the run got any record since the
    token was derived (a rejection, a close, another launch), or one of its sources did (a withdrawal, a right that
    was revoked): then nothing may start.
    """
    for used in ledger.records(streams=[permit.run_uid], kinds=["launch.intended"]):
        if used.attempt == permit.attempt:
            raise AlreadyRecordedError(
                f"The launch token of attempt {permit.attempt} of run {permit.run_uid} was used by record "
                f"{used.record_id}.",
                record_id=used.record_id,
                hint="Run the task again: it derives the token of the next attempt.",
            )
    payload = kinds.LaunchIntended(
        token_digest=permit.digest,
        token=permit.token,
        target=target,
        checkpoint_size=permit.checkpoint.size,
        checkpoint_root=permit.checkpoint.root,
        signer=permit.checkpoint.signer,
    )
    run = Ref(type="run", id=permit.run_uid)
    bound = (
        Ref(type="configuration", id=permit.token["configuration_digest"]),
        Ref(type="environment", id=permit.token["environment_digest"]),
        Ref(type="decision", id=f"{permit.run_uid}/prepare", version=permit.token["dossier_digest"][7:]),
    )
    [record] = ledger.append([
        Draft(stream=permit.run_uid, kind="launch.intended", payload=payload.to_json(), actor=actor, origin=origin,
              attempt=permit.attempt, unique=f"launch/{permit.run_uid}/{permit.attempt}", follows=permit.follows,
              beside=permit.sources,
              edges=tuple(Edge(subject=run, relation=Relation.USED, object=ref) for ref in bound))
    ])  # fmt: skip
    return record
