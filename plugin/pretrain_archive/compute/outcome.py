"""What an attempt's end means: pure, the same for a launch that watched it and for one that found it later.

What cannot be seen from outside a program, and is not claimed:

- A child that the program itself waited for: its exit code went to the program. The wrapper sees the failure of
  an orphan only (a child whose parent ended before it), and such a failure outweighs marker and step.
- A failure that the program caught, and work that it left out: the end marker and the steps are its own word.
  What they are worth is decided by the checkpoints, which are read and hashed elsewhere.
- Exit codes of processes that were ended together with a stopped or killed wrapper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pretrain_archive.compute.seen import Seen, WorkerSeen
from pretrain_archive.domain.kinds import StopFired

State = Literal["completed", "failed", "stopped", "interrupted", "lost"]
ASKED = frozenset({2, 15})  # SIGINT and SIGTERM: somebody wanted the end, nothing was wrong with the program


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How an attempt ended and why."""

    state: State
    reason: str
    exit_code: int | None = None
    signal: int | None = None


def conclude(
    seen: Seen, *, target_steps: int | None, fired: StopFired | None = None, killed: str = "",
    drift: str = "", wrapper_code: int | None = None, checkpoint_every: int | None = None,
) -> Outcome:  # fmt: skip
    """Judge an attempt by its evidence.

    With several workers all must have ended well; the reason names the one that did not.
    ``killed`` says who asked this process for the end, ``drift`` which forbidden difference stopped the job,
    ``wrapper_code`` is the wrapper's return code if it was seen, ``checkpoint_every`` how often the configuration
    wants a checkpoint (a completion without any says so; whether it counts is decided where checkpoints are
    registered). Only exit code 0 *and* the end marker (or the
    target step) are a completion.
    """
    worker = _cause(seen)
    ended = worker.ended or {}
    how = Ended(exit_code=_whole(ended.get("exit_code")), signal=_whole(ended.get("signal")))
    if asked := _asked(seen, how, fired=fired or seen.fired, killed=killed, drift=drift):
        return asked
    outcome = _judged(seen, worker, how, wrapper_code=wrapper_code, target=target_steps)
    if outcome.state == "completed" and checkpoint_every and not seen.checkpoints:
        missing = (
            f"no verified checkpoint was reported, although one every {checkpoint_every} steps is configured"
        )
        return replace(outcome, reason=f"{outcome.reason}; {missing}")
    return outcome


def _judged(
    seen: Seen, worker: WorkerSeen, how: Ended, *, wrapper_code: int | None, target: int | None
) -> Outcome:
    ended = worker.ended or {}
    if not ended:
        if wrapper_code is None:
            return how.outcome("lost", f"{_who(seen, worker)}its wrapper left no end")
        return how.outcome("failed", f"the wrapper ended without a report (return code {wrapper_code})")
    outcome = _broken_off(worker, how, ended.get("reason")) or _exited(
        seen, how, hidden=ended.get("hidden_failures") or [], target=target
    )
    if len(seen.workers) > 1 and outcome.state != "completed":
        return replace(outcome, reason=f"worker {worker.worker} of {len(seen.workers)}: {outcome.reason}")
    return outcome


def _who(seen: Seen, lost: WorkerSeen) -> str:
    """Which workers vanished: in a group the others only failed for want of them."""
    if len(seen.workers) == 1:
        return "the worker vanished; "
    gone = [str(w.worker) for w in seen.workers if not w.ended]
    named = ", ".join(gone[:20]) + (f" and {len(gone) - 20} more" if len(gone) > 20 else "")
    verb = "never wrote a line" if lost.first_at is None and lost.starts == 0 else "vanished"
    word = "worker" if len(gone) == 1 else "workers"
    return f"{word} {named} of {len(seen.workers)} {verb}; "


def _cause(seen: Seen) -> WorkerSeen:
    """The worker by which the attempt is judged: all must have ended well, and the gravest end counts.

    A vanished worker outweighs a failed one: whoever waits for a message from it fails too. A failure outweighs
    the signal by which a cluster ends the others. Among equals the first in time counts.
    """
    return min(seen.workers, key=_rank)


def _rank(worker: WorkerSeen) -> tuple[int, float, int]:
    ended = worker.ended
    at = worker.last_at.timestamp() if worker.last_at else 0.0
    if not ended:
        return 0, at, worker.worker
    reason = ended.get("reason")
    bad = ended.get("exit_code") != 0 or bool(ended.get("hidden_failures"))
    asked = _whole(ended.get("signal")) in ASKED
    ranks = {"not_started": 1, "parent_lost": 1, "stop_rule": 1, "deadline": 2, "signal": 3}
    rank = ranks.get(str(reason), 3 if asked else 1 if bad else 4)
    return rank, at if rank < 4 else 0.0, worker.worker


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The program's exit status as the wrapper saw it."""

    exit_code: int | None
    signal: int | None

    def outcome(self, state: State, reason: str) -> Outcome:
        """An outcome with this exit status."""
        return Outcome(state=state, reason=reason, exit_code=self.exit_code, signal=self.signal)


def _asked(seen: Seen, how: Ended, *, fired: StopFired | None, killed: str, drift: str) -> Outcome | None:
    """The end that this side wanted, or that the evidence itself forbids to be believed."""
    if fired is not None:
        return how.outcome("stopped", f"stop rule {fired.rule}: {fired.observed}, limit {fired.limit}")
    if drift:
        return how.outcome("stopped", f"the environment is not the signed one: {drift}")
    if killed:
        return how.outcome("interrupted", killed)
    if seen.replaced:
        return how.outcome(
            "failed", f"the program destroyed its evidence: {seen.replaced}, not a regular file"
        )
    return None


def _broken_off(worker: WorkerSeen, how: Ended, reason: object) -> Outcome | None:
    """The end that the wrapper brought about, None if the program ended by itself."""
    match reason:
        case "parent_lost":
            return how.outcome("lost", "the worker was killed; the job was ended with it")
        case "signal":
            return how.outcome("interrupted", "the job was asked to end by a signal")
        case "deadline":
            return how.outcome("stopped", "the time limit of the wrapper was reached")
        case "stop_rule":
            return how.outcome("stopped", "a stop rule inside the wrapper ended the job")
        case "not_started":
            why = worker.problem or "no reason given"
            return how.outcome("failed", f"the program could not be started: {why}")
    return None


def _exited(seen: Seen, how: Ended, *, hidden: Sequence[Mapping[str, Any]], target: int | None) -> Outcome:
    if how.signal is not None:
        state: State = "interrupted" if how.signal in ASKED else "failed"
        return how.outcome(state, f"the program was ended by signal {how.signal}")
    if how.exit_code != 0:
        return how.outcome("failed", f"the program ended with exit code {how.exit_code}")
    if hidden:
        return how.outcome("failed", f"{_child(hidden[0])} although the command ended with exit code 0")
    if seen.complete:
        return how.outcome("completed", "exit code 0 and the end marker")
    if target is not None and seen.last_step is not None and seen.last_step >= target:
        return how.outcome("completed", f"exit code 0 and the configured step {target}")
    last = "no step" if seen.last_step is None else f"step {seen.last_step}"
    return how.outcome("interrupted", f"exit code 0 without the end marker, last was {last}: no completion")


def _child(failure: Mapping[str, Any]) -> str:
    name = f"{failure.get('name') or 'process'} ({failure.get('pid')})"
    how = f"signal {failure['signal']}" if failure.get("signal") else f"exit code {failure.get('exit_code')}"
    return f"a child process, {name}, ended with {how}"


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
