"""Permission to launch, derived from the ledger alone and usable once.

The launch token names everything that the launch is bound to. Its signature is the log's: the token is made
only from a prepare decision that a signed checkpoint of the log includes, and the record that consumes it is
part of the log that the next checkpoint signs. Task states, XCom and DAG topology are not asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import AlreadyRecordedError, RefusedError
from pretrain_archive.domain.identity import Ref, format_time, new_id, parse_time
from pretrain_archive.domain.merkle import root_from_inclusion
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import GateView, gate_view
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger, SignedCheckpoint


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What stands at the moment of launch, measured afresh: digests of code and environment."""

    code_digest: str
    environment_digest: str


@dataclass(frozen=True, kw_only=True)
class LaunchPermit:
    """A token that was derived and not yet consumed."""

    run_uid: str
    attempt: int
    token: dict[str, Any]
    checkpoint: SignedCheckpoint

    @property
    def digest(self) -> str:
        """The token's digest."""
        return digest_of(self.token)


def minutes_used(view: RunView) -> float:
    """Minutes that earlier attempts of the run took."""
    return sum((ended.seconds or 0.0) for _, ended in view.all(kinds.AttemptEnded)) / 60


def _decision_faults(gate: GateView, now: datetime, *, first: bool, policy: LoadedPolicy) -> list[str]:
    if gate.decision is None:
        return ["the prepare gate has no decision in the ledger"]
    decision = gate.decision[1]
    faults: list[str] = []
    if decision.decision != "approve":
        faults.append(f"the prepare gate was rejected by {decision.person_name}")
    faults += [f"stale approval, changed since {decision.person_name} signed: {part}" for part in gate.stale]
    if decision.person_name not in gate.eligible:
        faults.append(f"{decision.person_name} is not entitled to sign")
    until = parse_time(decision.responded_at) + timedelta(hours=policy.policy.gates.decision_valid_hours)
    if first and now > until:
        faults.append(f"the approval expired at {format_time(until)}")
    if gate.policy_changed:
        faults.append(f"the policy {policy.name} changed since the run was opened")
    return faults


def _bound_faults(view: RunView, observed: Observed, policy: LoadedPolicy) -> list[str]:
    faults: list[str] = []
    config, env = view.latest(kinds.ConfigurationDeclared), view.latest(kinds.EnvironmentDeclared)
    if config is None or env is None or view.latest(kinds.SnapshotCreated) is None:
        return ["snapshot, configuration or environment is unrecorded"]
    if config.code_digest != observed.code_digest:
        faults.append("the training code changed after it was signed")
    if env.environment_digest != observed.environment_digest and policy.policy.environment.drift == "stop":
        faults.append("the environment changed after it was signed")
    if view.attempts >= config.stop.max_attempts:
        faults.append(f"all {config.stop.max_attempts} attempts are used")
    if minutes_used(view) >= config.budget.minutes:
        faults.append(f"the budget of {config.budget.minutes:g} minutes is used up")
    if any(
        record.attempt == view.attempts for record in view.records if record.kind == "launch.intended"
    ) and not any(
        record.attempt == view.attempts for record in view.records if record.kind == "attempt.ended"
    ):
        faults.append(f"attempt {view.attempts} has no recorded end")
    return faults


def _signed(ledger: Ledger, decision: Record) -> tuple[SignedCheckpoint | None, list[str]]:
    """A signed checkpoint that includes ``decision``, proven by its inclusion proof."""
    checkpoint = ledger.seal()
    if checkpoint.size <= decision.position:
        return None, ["no signed checkpoint covers the prepare decision yet"]
    path = [
        bytes.fromhex(h) for h in ledger.proofs([decision.position], size=checkpoint.size)[decision.position]
    ]
    root = root_from_inclusion(bytes.fromhex(decision.leaf), decision.position, checkpoint.size, path)
    if root.hex() != checkpoint.root:
        return None, ["the prepare decision is not in the signed log"]
    return checkpoint, []


def derive_permit(
    ledger: Ledger, view: RunView, *, dag_run_id: str, policy: LoadedPolicy, observed: Observed, now: datetime
) -> LaunchPermit:
    """Derive the launch token of the next attempt; :class:`RefusedError` names everything that forbids it."""
    faults: list[str] = []
    if view.opened is None or not view.opened.policy:
        raise RefusedError(f"no launch: run {view.run_uid} is not opened in the ledger")
    if view.state == "closed":
        faults.append("the run is closed")
    if view.opened.dag_run_id != dag_run_id:
        faults.append(f"the run belongs to DAG run {view.opened.dag_run_id!r}")
    attempt = view.attempts + 1
    gate = gate_view(ledger, view, "prepare", policy)
    faults += _decision_faults(gate, now, first=attempt == 1, policy=policy)
    faults += [f"{item.id} is {item.verdict.value}" for item in gate.dossier.blocked_by()]
    faults += _bound_faults(view, observed, policy)
    checkpoint: SignedCheckpoint | None = None
    if gate.decision is not None and not faults:
        checkpoint, faults = _signed(ledger, gate.decision[0])
    if faults or checkpoint is None or gate.decision is None:
        raise RefusedError(
            "no launch",
            reasons=tuple(dict.fromkeys(faults)),
            hint="Mend what is named and answer the prepare gate again; nothing was started.",
        )
    return LaunchPermit(
        run_uid=view.run_uid,
        attempt=attempt,
        checkpoint=checkpoint,
        token=_token(view, gate, attempt, observed, policy),
    )


def _token(
    view: RunView, gate: GateView, attempt: int, observed: Observed, policy: LoadedPolicy
) -> dict[str, Any]:
    config = view.latest(kinds.ConfigurationDeclared)
    snapshot, split = view.latest(kinds.SnapshotCreated), view.latest(kinds.SplitCreated)
    if config is None or snapshot is None or split is None or gate.decision is None:
        raise RefusedError("no launch", reasons=("snapshot, split or configuration is unrecorded",))
    record, decision = gate.decision
    expires = parse_time(decision.responded_at) + timedelta(hours=policy.policy.gates.decision_valid_hours)
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
        "minutes_left": round(config.budget.minutes - minutes_used(view), 3),
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
    repeated write the ledger would find again): then nothing may start.
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
              attempt=permit.attempt, unique=f"launch/{permit.run_uid}/{permit.attempt}",
              edges=tuple(Edge(subject=run, relation=Relation.USED, object=ref) for ref in bound))
    ])  # fmt: skip
    return record
