"""What a run's attempts cost, by how they ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from pretrain_archive.domain.kinds import AttemptEnded, AttemptStarted, ConfigurationDeclared
from pretrain_archive.domain.run_view import RunView


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptCost:
    """One attempt. ``None`` is unrecorded, never zero."""

    attempt: int
    state: str
    seconds: float | None
    accelerator_seconds: float | None
    steps_repeated: int | None
    steps_lost: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCost:
    """All attempts of a run; ``unrecorded`` names those whose time nobody wrote down."""

    attempts: tuple[AttemptCost, ...]

    @property
    def unrecorded(self) -> tuple[int, ...]:
        """Attempts without a recorded time."""
        return tuple(a.attempt for a in self.attempts if a.accelerator_seconds is None)

    @property
    def accelerator_seconds(self) -> float:
        """The recorded sum."""
        return sum(a.accelerator_seconds or 0.0 for a in self.attempts)

    def by_state(self) -> dict[str, float]:
        """Recorded accelerator seconds for each way to end."""
        total: dict[str, float] = defaultdict(float)
        for attempt in self.attempts:
            total[attempt.state] += attempt.accelerator_seconds or 0.0
        return dict(sorted(total.items()))


def cost_of(view: RunView) -> RunCost:
    """The cost of every attempt that began; one without an end is ``running``."""
    ends = {end.attempt: end for _, end in view.all(AttemptEnded)}
    begun = {record.attempt for record in view.records if record.kind == "launch.intended"}
    return RunCost(attempts=tuple(_cost(number, ends.get(number)) for number in sorted(begun | set(ends))))


def _cost(number: int, end: AttemptEnded | None) -> AttemptCost:
    return AttemptCost(
        attempt=number,
        state=end.state if end else "running",
        seconds=end.seconds if end else None,
        accelerator_seconds=end.accelerator_seconds if end else None,
        steps_repeated=end.steps_repeated if end else None,
        steps_lost=end.steps_lost if end else None,
    )


def spent_seconds(view: RunView) -> float:
    """What earlier attempts took from the budget, for ``JobSpec.spent_seconds``.

    Accelerators × seconds; without accelerators the machine counts as one. An attempt whose time is unrecorded
    cannot be charged here and stays visible in :attr:`RunCost.unrecorded`.
    """
    asked = {started.attempt: started.requested for _, started in view.all(AttemptStarted)}
    declared = view.latest(ConfigurationDeclared)
    default = declared.budget.accelerators if declared else 0
    total = 0.0
    for _, end in view.all(AttemptEnded):
        count = asked.get(end.attempt, {}).get("accelerators", default) or 0
        total += (end.seconds or 0.0) * max(1, int(count))
    return total
