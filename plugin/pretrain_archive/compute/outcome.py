"""What an attempt's end means: pure, the same for a launch that watched it and for one that found it later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pretrain_archive.compute.ingest import Seen
from pretrain_archive.domain.kinds import StopFired

State = Literal["completed", "failed", "stopped", "interrupted", "lost"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How an attempt ended and why."""

    state: State
    reason: str
    exit_code: int | None = None
    signal: int | None = None


def conclude(
    seen: Seen, *, target_steps: int | None, fired: StopFired | None = None, killed: str = "",
    drift: str = "", wrapper_code: int | None = None,
) -> Outcome:  # fmt: skip
    """Judge an attempt by its evidence.

    ``killed`` says who asked this process for the end, ``drift`` which forbidden difference stopped the job,
    ``wrapper_code`` is the wrapper's return code if it was seen. Only exit code 0 *and* the end marker (or the
    target step) are a completion.
    """
    ended = seen.ended or {}
    code, signal = _whole(ended.get("exit_code")), _whole(ended.get("signal"))

    def outcome(state: State, reason: str) -> Outcome:
        return Outcome(state=state, reason=reason, exit_code=code, signal=signal)

    if fired is not None:
        return outcome("stopped", f"stop rule {fired.rule}: {fired.observed}, limit {fired.limit}")
    if drift:
        return outcome("stopped", f"the environment is not the signed one: {drift}")
    if killed:
        return outcome("interrupted", killed)
    if not ended:
        if wrapper_code is None:
            return outcome("lost", "the worker vanished; its wrapper left no end")
        return outcome("failed", f"the wrapper ended without a report (return code {wrapper_code})")
    match ended.get("reason"):
        case "parent_lost":
            return outcome("lost", "the worker was killed; the job was ended with it")
        case "signal":
            return outcome("interrupted", "the job was asked to end by a signal")
        case "deadline":
            return outcome("stopped", "the time limit of the wrapper was reached")
        case "not_started":
            return outcome("failed", f"the program could not be started: {seen.problem or 'unknown reason'}")
    return _exited(seen, outcome=outcome, code=code, signal=signal, hidden=ended, target=target_steps)


def _exited(
    seen: Seen,
    *,
    outcome: Any,
    code: int | None,
    signal: int | None,
    hidden: Mapping[str, Any],
    target: int | None,
) -> Outcome:
    if signal is not None:
        state = "interrupted" if signal in {2, 15} else "failed"
        return outcome(state, f"the program was ended by signal {signal}")  # type: ignore[no-any-return]
    if code != 0:
        return outcome("failed", f"the program ended with exit code {code}")  # type: ignore[no-any-return]
    failures = hidden.get("hidden_failures") or []
    if failures:
        first = failures[0]
        how = f"signal {first['signal']}" if first.get("signal") else f"exit code {first.get('exit_code')}"
        name = first.get("name") or first.get("pid")
        return outcome(
            "failed", f"a child process ({name}) ended with {how} although the command ended with 0"
        )  # type: ignore[no-any-return]
    reached = target is not None and seen.last_step is not None and seen.last_step >= target
    if seen.complete or reached:
        return outcome(
            "completed", "exit code 0 and " + ("the end marker" if seen.complete else f"step {target}")
        )  # type: ignore[no-any-return]
    last = "no step" if seen.last_step is None else f"step {seen.last_step}"
    return outcome(  # type: ignore[no-any-return]
        "interrupted", f"exit code 0 without the end marker, {last} was the last one: not a completion"
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
