"""When a job is stopped: tiny pure rules over a small state.

Budget, evidence, data and drift can only be judged where the ledger is; :func:`rules_for_wrapper` gives the others to
the wrapper beside the program, so that a job is stopped too while nobody watches it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pretrain_archive.compute.seen import Seen
from pretrain_archive.compute.spec import JobSpec, wall_limit_seconds
from pretrain_archive.compute.stops_signals import LossTrend, Reads
from pretrain_archive.domain.kinds import StopConditions, StopFired

MOST_NAMED = 10
"""So many fields are named; a machine of another kind differs in everything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobState:
    """What the rules look at. Seconds count from the start of the attempt.

    ``progress_at`` is when the highest step last rose (a chatty log is no progress), before the first one when the
    program was started. ``trains`` is whether it told a step of training since. ``worst_loss`` is the
    highest loss so far, or one that is not finite (step, value). ``evidence_failing_since`` is when writing
    evidence began to fail, None while it works. ``evidence_replaced`` names a file of the evidence in whose place
    lies something else. ``losses`` are by metric, ``reads`` what the program says of its reading. ``drift`` names the
    fields whose difference from the signed environment is graded as blocking.
    """

    seconds: float
    attempt: int
    last_step: int | None = None
    last_checkpoint_step: int | None = None
    progress_at: float = 0.0
    trains: bool = True
    worst_loss: tuple[int, float] | None = None
    evidence_failing_since: float | None = None
    evidence_replaced: str = ""
    losses: Mapping[str, LossTrend] = field(default_factory=dict)
    reads: Reads = field(default_factory=Reads)
    drift: str = ""

    def fired(self, rule: str, observed: str, limit: str) -> StopFired:
        """The record of a rule that ended the job."""
        return StopFired.model_validate(
            {
                "attempt": self.attempt,
                "rule": rule,
                "observed": observed,
                "limit": limit,
                "last_step": self.last_step,
                "last_checkpoint_step": self.last_checkpoint_step,
            }
        )


class StopRule(Protocol):
    """One reason to stop."""

    def check(self, state: JobState) -> StopFired | None:
        """The record to write if the job must stop now, else None."""


@dataclass(frozen=True, slots=True)
class WallTime:
    """The attempt lasts too long."""

    minutes: float

    def check(self, state: JobState) -> StopFired | None:
        """See :class:`StopRule`."""
        if state.seconds < self.minutes * 60:
            return None
        return state.fired("wall_time", f"{state.seconds:.1f} s", f"{self.minutes * 60:.1f} s")


@dataclass(frozen=True, slots=True)
class BudgetSpent:
    """The run's accelerator minutes are used up, earlier attempts included; without accelerators one counts."""

    minutes: float
    accelerators: int
    spent_seconds: float = 0.0

    def check(self, state: JobState) -> StopFired | None:
        """See :class:`StopRule`."""
        share = max(1, self.accelerators)
        used, limit = self.spent_seconds + state.seconds * share, self.minutes * 60 * share
        if used < limit:
            return None
        return state.fired("budget", f"{used:.1f} accelerator seconds", f"{limit:.1f} accelerator seconds")


@dataclass(frozen=True, slots=True)
class Deadline:
    """An exploration's share is used up; ``grace`` is the time that it takes to end the job."""

    seconds: float
    grace: float = 0.0

    def check(self, state: JobState) -> StopFired | None:
        """See :class:`StopRule`."""
        if state.seconds < self.seconds - 2 * self.grace:
            return None
        return state.fired("budget", f"{state.seconds:.1f} s", f"{self.seconds:.1f} s of an exploration")


@dataclass(frozen=True, slots=True)
class NanLoss:
    """The loss is not a finite number."""

    def check(self, state: JobState) -> StopFired | None:
        """See :class:`StopRule`."""
        if state.worst_loss is None or math.isfinite(state.worst_loss[1]):
            return None
        return state.fired(
            "nan_loss", f"{state.worst_loss[1]} at step {state.worst_loss[0]}", "a finite loss"
        )


@dataclass(frozen=True, slots=True)
class Divergence:
    """The loss went above a limit."""

    max_loss: float

    def check(self, state: JobState) -> StopFired | None:
        """See :class:`StopRule`."""
        if state.worst_loss is None or not state.worst_loss[1] > self.max_loss:
            return None
        return state.fired(
            "divergence", f"{state.worst_loss[1]:g} at step {state.worst_loss[0]}", f"{self.max_loss:g}"
        )


@dataclass(frozen=True, slots=True)
class RelativeDivergence:
    """A loss stayed above a multiple of its own best smoothed value."""

    factor: float
    points: int

    def check(self, state: JobState) -> StopFired | None:
        """See :class:`StopRule`."""
        for name, trend in state.losses.items():
            if (last := trend.above(self.factor, self.points)) is not None:
                observed = f"{name} {last[1]:g} at step {last[0]}, {self.points} points in a row"
                return state.fired("divergence", observed, f"{self.factor:g} × its best {trend.best:g}")
        return None


@dataclass(frozen=True, slots=True)
class DataAnomaly:
    """The program could not read its data, or read others than those that were signed."""

    bad_data: bool
    max_errors: float | None = None
    max_empty: float | None = None

    def check(self, state: JobState) -> StopFired | None:
        """See :class:`StopRule`."""
        reads = state.reads
        if self.bad_data and reads.problem:
            return state.fired("data_anomaly", reads.problem, "every shard as signed")
        for count, limit, what in (
            (reads.errors, self.max_errors, "read errors"), (reads.empty, self.max_empty, "empty reads"),
        ):  # fmt: skip
            share = reads.share(count)
            if limit is not None and share is not None and share > limit:
                return state.fired(
                    "data_anomaly", f"{count} {what} of {reads.reads}", f"{limit:g} of the reads"
                )
        return None


@dataclass(frozen=True, slots=True)
class Drift:
    """A worker's environment is not the signed one, in a field whose difference is graded as blocking."""

    def check(self, state: JobState) -> StopFired | None:
        """See :class:`StopRule`."""
        return state.fired("drift", state.drift, "the signed environment") if state.drift else None


@dataclass(frozen=True, slots=True)
class NoProgress:
    """No higher step for too long; what comes before the first one may take ``first`` minutes."""

    minutes: float
    first: float = 0.0

    def check(self, state: JobState) -> StopFired | None:
        """See :class:`StopRule`."""
        idle = state.seconds - state.progress_at
        limit = 60 * (self.minutes if state.trains else max(self.minutes, self.first))
        if idle < limit:
            return None
        where = "no step" if state.last_step is None else f"no step after {state.last_step}"
        return state.fired("no_progress", f"{where} for {idle:.1f} s", f"{limit:.1f} s")


@dataclass(frozen=True, slots=True)
class EvidenceLost:
    """What happens can no longer be written down; a run without evidence is worth nothing."""

    seconds: float = 120.0

    def check(self, state: JobState) -> StopFired | None:
        """See :class:`StopRule`."""
        if state.evidence_replaced:
            return state.fired("evidence", state.evidence_replaced, "a regular file")
        if state.evidence_failing_since is None:
            return None
        failing = state.seconds - state.evidence_failing_since
        if failing < self.seconds:
            return None
        return state.fired("evidence", f"no evidence written for {failing:.1f} s", f"{self.seconds:.1f} s")


def state_of(
    seen: Seen,
    *,
    seconds: float,
    attempt: int,
    progress_at: float,
    evidence_failing_since: float | None = None,
) -> JobState:
    """What the rules look at, from what an attempt reported so far; drift is that of any worker."""
    drifted = {
        str(difference["field"]): None
        for worker in seen.workers
        for difference in worker.differences
        if difference.get("grade") == "blocking"
    }
    return JobState(
        seconds=seconds, attempt=attempt, last_step=seen.last_step,
        last_checkpoint_step=seen.last_checkpoint_step, progress_at=progress_at, worst_loss=seen.worst_loss,
        evidence_failing_since=evidence_failing_since, evidence_replaced=seen.replaced, losses=seen.losses,
        reads=seen.reads, trains=seen.trains, drift=", ".join(list(drifted)[:MOST_NAMED]),
    )  # fmt: skip


def rules_for_wrapper(spec: JobSpec) -> dict[str, Any]:
    """The rules that need no ledger, as the wrapper's ``--stop`` takes them (plain JSON)."""
    return {
        "nan": spec.stop.stop_on_nan,
        "max_loss": spec.stop.max_loss,
        "no_progress_seconds": spec.stop.no_progress_minutes * 60,
        "first_step_seconds": spec.stop.first_step_minutes * 60,
        "wall_seconds": spec.stop.wall_minutes * 60,
    }


def rules_of(spec: JobSpec, *, evidence_seconds: float = 120.0) -> tuple[StopRule, ...]:
    """The rules of a job, the most telling first."""
    stop: StopConditions = spec.stop
    rules: list[StopRule] = []
    if stop.stop_on_nan:
        rules.append(NanLoss())
    if stop.max_loss is not None:
        rules.append(Divergence(stop.max_loss))
    if stop.loss_factor is not None:
        rules.append(RelativeDivergence(stop.loss_factor, stop.loss_points))
    rules.append(DataAnomaly(stop.stop_on_bad_data, stop.max_read_errors, stop.max_empty_reads))
    if spec.drift == "stop":
        rules.append(Drift())
    budget = BudgetSpent(spec.budget.minutes, spec.budget.accelerators, spec.spent_seconds)
    wall = WallTime(stop.wall_minutes)
    by_budget = wall_limit_seconds(spec) < stop.wall_minutes * 60
    rules += [budget, wall] if by_budget else [wall, budget]
    if spec.deadline_seconds is not None:
        rules.insert(0, Deadline(spec.deadline_seconds, spec.grace_seconds))
    progress = NoProgress(stop.no_progress_minutes, stop.first_step_minutes)
    return (*rules, progress, EvidenceLost(evidence_seconds))


def first_stop(rules: tuple[StopRule, ...], state: JobState) -> StopFired | None:
    """What the first rule that fires says, or None."""
    return next((fired for rule in rules if (fired := rule.check(state))), None)
