"""The drawing of a run's timeline: lanes of marks and spans at percentages, so that it fits any width.

Long stretches without an entry (a gate that waited for a weekend) are drawn shorter, as breaks that say how long they
are. A long run is thinned to some hundred marks; each mark says how many entries it stands for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from pretrain_archive.domain.cost_clock import moment
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.timeline import LANES, Entry, thinned, timeline

MOST = 300
"""Marks of a drawing, and rows of the list below it."""
LONG, SHORT = 0.25, 0.06
"""A stretch longer than this share of the whole is drawn as this share of what is left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """An entry at ``x`` percent, ``width`` percent wide (0: a moment)."""

    x: float
    width: float
    entry: Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class Break:
    """A stretch that is drawn shorter than it was."""

    x: float
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Lane:
    """One row of the drawing."""

    name: str
    count: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """Everything that the section shows."""

    lanes: tuple[Lane, ...]
    breaks: tuple[Break, ...]
    first: str
    last: str
    middle: str
    total: int
    is_thinned: bool
    entries: tuple[Entry, ...]


def course(view: RunView, *, most: int = MOST) -> Course | None:
    """The timeline as a drawing, or None where nothing happened."""
    every = timeline(view)
    if not every:
        return None
    shown = thinned(every, most)
    axis = Axis([edge for entry in shown for edge in _edges(entry)])
    lanes = []
    for name in LANES:
        mine = [entry for entry in shown if entry.lane == name]
        if mine:
            count = sum(entry.count for entry in mine)
            lanes.append(Lane(name=name, count=count, marks=tuple(_mark(axis, entry) for entry in mine)))
    return Course(
        lanes=tuple(lanes), breaks=tuple(axis.breaks), first=_text(axis.moments[0]), last=_text(axis.moments[-1]),
        middle=_text(axis.at(50.0)), total=len(every), is_thinned=len(shown) < len(every), entries=tuple(shown),
    )  # fmt: skip


def _edges(entry: Entry) -> list[int]:
    start = moment(entry.at) or 0
    return [start, max(start, moment(entry.until) or start)]


def _text(us: int) -> str:
    from pretrain_archive.domain.cost_clock import text_of  # noqa: PLC0415

    return text_of(us)


def _mark(axis: Axis, entry: Entry) -> Mark:
    start, end = _edges(entry)
    left, right = axis.x(start), axis.x(end)
    return Mark(x=left, width=round(max(0.0, right - left), 3), entry=entry)


class Axis:
    """From moments to percentages, with long empty stretches made short."""

    def __init__(self, moments: Sequence[int]) -> None:
        self.moments = sorted(set(moments))
        gaps = [b - a for a, b in zip(self.moments, self.moments[1:], strict=False)]
        whole = sum(gaps) or 1
        long = [gap > LONG * whole and len(gaps) > 2 for gap in gaps]
        rest = sum(gap for gap, is_long in zip(gaps, long, strict=True) if not is_long)
        weights = [
            max(rest, 1) * SHORT if is_long else float(gap) for gap, is_long in zip(gaps, long, strict=True)
        ]
        total = sum(weights) or 1.0
        self.places = [0.0]
        self.breaks: list[Break] = []
        for gap, weight, is_long in zip(gaps, weights, long, strict=True):
            before = self.places[-1]
            self.places.append(before + 100 * weight / total)
            if is_long:
                self.breaks.append(Break(x=round((before + self.places[-1]) / 2, 3), seconds=gap / 1e6))

    def x(self, us: int) -> float:
        """Where a moment lies, in percent from the left."""
        right = min(max(bisect_right(self.moments, us), 1), len(self.moments) - 1)
        if len(self.moments) == 1:
            return 0.0
        a, b = self.moments[right - 1], self.moments[right]
        share = (us - a) / (b - a)
        place = self.places[right - 1] + share * (self.places[right] - self.places[right - 1])
        return round(min(100.0, max(0.0, place)), 3)

    def at(self, percent: float) -> int:
        """Which moment lies at a percentage."""
        if len(self.moments) == 1:
            return self.moments[0]
        right = min(max(bisect_right(self.places, percent), 1), len(self.places) - 1)
        a, b = self.places[right - 1], self.places[right]
        share = (percent - a) / (b - a) if b > a else 0.0
        return round(self.moments[right - 1] + share * (self.moments[right] - self.moments[right - 1]))
