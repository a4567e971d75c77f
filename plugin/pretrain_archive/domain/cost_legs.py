"""Which steps were done for the first time, again, or for nothing.

A *leg* is a stretch of rising steps: an attempt is one, or several where its program went back by itself. A later
leg begins at its *base* (the step of the checkpoint that it went on from). Of a leg's steps

- those above what survived (the lowest base of all later legs, or the last verified checkpoint where none followed)
  are **lost**;
- of the others, those that an earlier leg had already done are **recomputed**;
- the rest is **productive**.

While an attempt runs, all of its steps count as surviving so far.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pretrain_archive.domain.cost_evidence import AttemptEvidence, Report, Window


@dataclass(frozen=True, kw_only=True, slots=True)
class Leg:
    """Rising steps from ``base``; ``keep`` None: all survive so far. ``before`` is what earlier legs had reached."""

    attempt: int
    base: int
    reports: tuple[Report, ...]
    keep: int | None = None
    before: int = 0
    lost_by: str = ""
    again_by: str = ""

    @property
    def last(self) -> int:
        """The highest step that was reported, or the base."""
        return self.reports[-1].step if self.reports else self.base

    def split(self, first: int, last: int) -> tuple[int, int, int]:
        """How many of the steps ``first + 1 … last`` are recomputed, productive and lost, in this order."""
        keep = last if self.keep is None else min(max(self.keep, first), last)
        before = min(max(self.before, first), keep)
        return before - first, keep - before, last - keep


def legs_of(attempts: Sequence[AttemptEvidence]) -> list[Leg]:
    """All legs of a run in order, each with what survived and what was done before."""
    raw = [leg for attempt in attempts for leg in _raw(attempt)]
    by_number = {attempt.attempt: attempt for attempt in attempts}
    lowest: list[int | None] = [None]  # the lowest base of all later legs, from the back
    for leg in reversed(raw[1:]):
        lowest.append(leg.base if lowest[-1] is None else min(lowest[-1], leg.base))
    legs: list[Leg] = []
    for leg, later in zip(raw, reversed(lowest[: len(raw)]), strict=True):
        mine = by_number[leg.attempt]
        alone = None if mine.state is None else max(mine.saved or 0, leg.base)
        earlier = next((other for other in reversed(legs) if other.last > leg.base), None)
        legs.append(
            replace(
                leg, keep=alone if later is None else later, lost_by=mine.cause,
                before=max((legs[-1].before, legs[-1].last)) if legs else 0,
                again_by=by_number[earlier.attempt].cause if earlier else "",
            )
        )  # fmt: skip
    return legs


def _raw(attempt: AttemptEvidence) -> list[Leg]:
    parts: list[list[Report]] = []
    for report in attempt.reports:
        if not parts or report.step < parts[-1][-1].step:
            parts.append([report])
        elif report.step > parts[-1][-1].step:
            parts[-1].append(report)
    if not parts:
        known = [Leg(attempt=attempt.attempt, base=attempt.base or 0, reports=())]
        return known if attempt.started else []
    stride = _stride(parts)
    legs = []
    for number, part in enumerate(parts):
        base = attempt.base or 0 if number == 0 else part[0].step - stride
        legs.append(
            Leg(
                attempt=attempt.attempt,
                base=max(0, min(base, part[0].step)),
                reports=tuple(part),
            )
        )
    return legs


def _stride(parts: Sequence[Sequence[Report]]) -> int:
    """Steps between two reports."""
    gaps = [b.step - a.step for part in parts for a, b in pairwise(part)]
    return max(1, round(statistics.median(gaps))) if gaps else 1


def typical_step(attempt: AttemptEvidence, legs: Sequence[Leg]) -> int | None:
    """Microseconds of a step: the median over the stretches between reports in which nothing else happened."""
    still, costs = Still(attempt.windows), []
    for leg in legs:
        for a, b in pairwise(leg.reports):
            first = bisect_right(attempt.unpriced, a.at)
            aside = first < len(attempt.unpriced) and attempt.unpriced[first] <= b.at
            took = b.at - a.at - sum(w.end - w.start for w in still.within(a.at, b.at))
            if not aside and took > 0:
                costs.append(took // (b.step - a.step))
    return round(statistics.median(costs)) if costs else None


class Still:
    """The stretches in which training stood still, apart from each other and in order."""

    def __init__(self, windows: Iterable[Window]) -> None:
        self.windows: list[Window] = []
        for window in sorted(windows, key=lambda w: (w.start, w.end)):
            start = max(window.start, self.windows[-1].end) if self.windows else window.start
            if window.end > start:
                self.windows.append(replace(window, start=start))
        self._ends = [window.end for window in self.windows]

    def within(self, start: int, end: int) -> Iterator[Window]:
        """The parts of windows between two moments."""
        for place in range(bisect_right(self._ends, start), len(self.windows)):
            window = self.windows[place]
            if window.start >= end:
                return
            yield replace(window, start=max(window.start, start), end=min(window.end, end))
