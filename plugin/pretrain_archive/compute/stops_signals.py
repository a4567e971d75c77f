"""What a job's own reports add up to for the stop rules: how its losses move and how its reading goes. Bounded."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

LOSSES = 16
"""So many metrics that are called a loss are followed; a program may report any number of names."""

WINDOW = 1000
"""So many points of a loss are kept: the most that a rule may ask for."""

SPAN = 20
"""Points over which a loss is smoothed, exponentially with weight 2 / (SPAN + 1), before its best value counts."""

ENOUGH_READS = 20
"""A share of reads means something from here on."""


@dataclass(kw_only=True, slots=True)
class LossTrend:
    """One loss: its last points, and the best (lowest) smoothed value so far; None before :data:`SPAN` points."""

    recent: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    best: float | None = None
    smooth: float | None = None
    points: int = 0

    def add(self, step: int, value: float) -> None:
        """Take a point; what is not finite is another rule's affair."""
        if not math.isfinite(value):
            return
        self.recent.append((step, value))
        self.points += 1
        weight = 2 / (SPAN + 1)
        self.smooth = value if self.smooth is None else self.smooth + weight * (value - self.smooth)
        if self.points >= SPAN:
            self.best = self.smooth if self.best is None else min(self.best, self.smooth)

    def above(self, factor: float, points: int) -> tuple[int, float] | None:
        """The last point, if all of the last ``points`` lie above ``factor`` times the best smoothed value.

        A best value of zero or below says nothing about multiples, and the rule is silent.
        """
        if self.best is None or self.best <= 0 or len(self.recent) < points:
            return None
        last = list(self.recent)[-points:]
        return last[-1] if min(value for _, value in last) > factor * self.best else None


@dataclass(kw_only=True, slots=True)
class Reads:
    """How the program's reading of data goes: counts, and the first problem of the data themselves in words.

    ``told`` is how many anomalies were put on the timeline.
    """

    reads: int = 0
    errors: int = 0
    empty: int = 0
    problem: str = ""
    told: int = 0

    def share(self, count: int) -> float | None:
        """``count`` as a share of all reads; None while there are too few."""
        return count / self.reads if self.reads >= ENOUGH_READS else None
