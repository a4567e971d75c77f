"""Put a gate's question, take its answer or let it expire; every decision is sealed at once."""

from __future__ import annotations

from pretrain_archive.domain.exploration import scope_of
from pretrain_archive.domain.kinds import GateDecision, RunClosed
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.reviews import CLOSING, cause_of
from pretrain_archive.gates.answers import Outcome, expire, take_answer
from pretrain_archive.gates.asking import Ask, ask
from pretrain_archive.gates.judging import Answer
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.known_run import knowing_runs
from pretrain_archive.services.runs import run_of


def put_question(
    ledger: Ledger, caller: Caller, run_uid: str, gate: str, *, policy: LoadedPolicy, link: str
) -> Ask:
    """Ask ``gate`` of the caller's run; ``RefusedError`` if it cannot be answered by anybody now."""
    ledger = knowing_runs(ledger)
    run_of(ledger, caller, run_uid)
    return ask(
        ledger,
        run_uid=run_uid,
        gate=gate,
        policy=policy,
        link=link,
        actor=caller.actor,
        origin=caller.origin,
    )


def take(
    ledger: Ledger, caller: Caller, run_uid: str, gate: str, *, policy: LoadedPolicy, answer: Answer
) -> Outcome:
    """Record the answer; a rejection closes the run in the same transaction."""
    ledger = knowing_runs(ledger)
    run_of(ledger, caller, run_uid, open_only=False)
    outcome = take_answer(
        ledger,
        run_uid=run_uid,
        gate=gate,
        answer=answer,
        policy=policy,
        actor=caller.actor,
        origin=caller.origin,
    )
    ledger.seal()
    return outcome


def let_expire(ledger: Ledger, caller: Caller, run_uid: str, gate: str) -> None:
    """The deadline passed: recorded as not approved, the run closes as expired."""
    ledger = knowing_runs(ledger)
    run_of(ledger, caller, run_uid)
    expire(ledger, run_uid=run_uid, gate=gate, actor=caller.actor, origin=caller.origin)
    ledger.seal()


def answered_by_scope(ledger: Ledger, caller: Caller, run_uid: str, gate: str) -> bool:
    """Whether ``gate`` asks nobody: an exploration is launched without a prepare decision, under its ceiling."""
    view = run_of(ledger, caller, run_uid, open_only=False)
    return gate == "prepare" and scope_of(view.opened) == "exploration"


def review_due(ledger: Ledger, caller: Caller, run_uid: str) -> bool:
    """Whether an attempt of the open run ended without completing, so that a review can be asked about it."""
    view = run_of(ledger, caller, run_uid, open_only=False)
    return view.state != "closed" and cause_of(view) is not None


def closed_by_review(ledger: Ledger, caller: Caller, run_uid: str) -> GateDecision | None:
    """The review's decision that closed the run as stopped or replaced; None for every other run."""
    view = run_of(ledger, caller, run_uid, open_only=False)
    closed, found = view.latest(RunClosed), view.decision("review")
    return found[1] if closed and found and closed.outcome in CLOSING.values() else None
