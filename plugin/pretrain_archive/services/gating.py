"""Put a gate's question, take its answer, and act on it: approval goes on, rejection and expiry end the run."""

from __future__ import annotations

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import RunClosed
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Draft
from pretrain_archive.gates.answers import Answer, Ask, Outcome, ask, expire, take_answer
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.runs import run_of


def put_question(
    ledger: Ledger, caller: Caller, run_uid: str, gate: str, *, policy: LoadedPolicy, link: str
) -> Ask:
    """Ask ``gate`` of the caller's run; :class:`RefusedError` if it cannot be answered by anybody now."""
    run_of(ledger, caller, run_uid)
    return ask(
        ledger, run_uid=run_uid, gate=gate, policy=policy, link=link, actor=caller.actor, origin=caller.origin
    )


def take(
    ledger: Ledger, caller: Caller, run_uid: str, gate: str, *, policy: LoadedPolicy, answer: Answer
) -> Outcome:
    """Record the answer; a rejection closes the run."""
    run_of(ledger, caller, run_uid)
    outcome = take_answer(
        ledger,
        run_uid=run_uid,
        gate=gate,
        answer=answer,
        policy=policy,
        actor=caller.actor,
        origin=caller.origin,
    )
    if outcome.decision is not None and outcome.decision.decision == "reject":
        reason = f"{gate} gate rejected by {outcome.decision.person_name}: {outcome.decision.reason}"
        close_without_package(ledger, caller, run_uid, outcome="rejected", reason=reason)
    ledger.seal()
    return outcome


def let_expire(ledger: Ledger, caller: Caller, run_uid: str, gate: str) -> None:
    """The deadline passed: recorded as not approved, the run closes as expired."""
    run_of(ledger, caller, run_uid)
    expire(ledger, run_uid=run_uid, gate=gate, actor=caller.actor, origin=caller.origin)
    close_without_package(
        ledger, caller, run_uid, outcome="expired", reason=f"the {gate} gate was not answered in time"
    )
    ledger.seal()


def close_without_package(ledger: Ledger, caller: Caller, run_uid: str, *, outcome: str, reason: str) -> None:
    """Freeze a run that made no model."""
    view = load_run(ledger, run_uid)
    if view.state == "closed":
        raise RefusedError(f"run {run_uid} is closed already")
    closed = RunClosed.model_validate({"outcome": outcome, "reason": reason})
    ledger.append([
        Draft(stream=run_uid, kind="run.closed", payload=closed.to_json(), actor=caller.actor,
              origin=caller.origin, attempt=view.attempts, unique=f"close/{run_uid}")
    ])  # fmt: skip
