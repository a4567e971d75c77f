"""An attempt's time from begin to end as stretches without gap or overlap, each in one bin.

The cursor only moves forward and never past the end: a moment that lies before it (a clock that was set back) makes
an empty stretch, so that no second is counted twice or below zero.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pretrain_archive.domain.cost_bins import MICRO, Bin
from pretrain_archive.domain.cost_evidence import AttemptEvidence
from pretrain_archive.domain.cost_legs import Leg, Still

STALL = 5
"""A step that takes so many times the usual one stood still for what is above one: a rule of thumb, said in docs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Time from ``start`` to ``end`` in one bin; see :class:`~pretrain_archive.domain.cost_bins.Slice`."""

    start: int
    end: int
    bin: Bin
    detail: str = ""
    cause: str = ""
    evidenced: bool = True


Piece = tuple[Bin, int, str, str]
"""Bin, microseconds, detail and cause of work that fills what saves and evaluations leave free."""


@dataclass(kw_only=True)
class Tiling:
    """The stretches of one attempt so far; ``behind`` counts moments that lay before the cursor."""

    cursor: int
    end: int
    still: Still
    stretches: list[Stretch] = field(default_factory=list)
    behind: int = 0

    def fill(
        self, until: int, name: Bin, detail: str = "", cause: str = "", *, evidenced: bool = True
    ) -> None:
        """Everything from the cursor to ``until`` is ``name``, as far as it lies before the end."""
        stop = min(until, self.end)
        if stop > self.cursor:
            self._add(stop, name, detail, cause, evidenced=evidenced)

    def _add(self, stop: int, name: Bin, detail: str, cause: str, *, evidenced: bool) -> None:
        before = self.stretches[-1] if self.stretches else None
        same = (name, detail, cause, evidenced)
        if before and (before.bin, before.detail, before.cause, before.evidenced) == same:
            self.stretches.pop()
            start = before.start
        else:
            start = self.cursor
        self.stretches.append(
            Stretch(start=start, end=stop, bin=name, detail=detail, cause=cause, evidenced=evidenced)
        )
        self.cursor = stop

    def free(self, until: int) -> int:
        """Microseconds up to ``until`` in which training did not stand still."""
        stop = min(until, self.end)
        windows = sum(w.end - w.start for w in self.still.within(self.cursor, stop))
        return max(0, stop - self.cursor - windows)

    def work(self, until: int, pieces: Iterable[Piece]) -> None:
        """Saves and evaluations where they lie; ``pieces`` fill the rest one after the other, the last to the end."""
        stop = min(until, self.end)
        if until < self.cursor:
            self.behind += 1
        if stop <= self.cursor:
            return
        todo = [piece for piece in pieces if piece[1] > 0]
        for window in (*self.still.within(self.cursor, stop), None):
            edge = window.start if window else stop
            while self.cursor < edge and todo:
                name, took, detail, cause = todo[0]
                until_here = min(edge, self.cursor + took) if len(todo) > 1 else edge
                used = until_here - self.cursor
                self.fill(until_here, name, detail, cause)
                todo[0] = (name, took - used, detail, cause)
                if todo[0][1] <= 0 and len(todo) > 1:
                    todo.pop(0)
            if window:
                self.fill(window.end, window.bin, window.detail)


def tile(attempt: AttemptEvidence, legs: Sequence[Leg], *, typical: int | None) -> Tiling:
    """Lay out an attempt. ``typical`` is the time of a step, the run's where the attempt itself shows none."""
    tiling = Tiling(cursor=attempt.begin, end=attempt.end, still=Still(attempt.windows))
    reported = [leg for leg in legs if leg.reports]
    if not reported:
        _silent(tiling, attempt)
        return tiling
    for number, leg in enumerate(reported):
        _leg(tiling, attempt, leg, typical, "start" if number == 0 else "restart")
    _tail(tiling, attempt, reported[-1], typical)
    tiling.fill(attempt.end, "idle_hold", "unknown", evidenced=False)
    return tiling


def _silent(tiling: Tiling, attempt: AttemptEvidence) -> None:
    """No step was ever reported: what the program said of itself is its start, the rest is unknown."""
    if attempt.spoke is not None:
        tiling.work(attempt.spoke, [("start_up", attempt.spoke - attempt.begin, "start", "")])
    tiling.fill(attempt.end, "idle_hold", "unknown", evidenced=False)


def _leg(tiling: Tiling, attempt: AttemptEvidence, leg: Leg, typical: int | None, start: str) -> None:
    first = leg.reports[0]
    steps, free = first.step - leg.base, tiling.free(first.at)
    took = min(free, steps * typical) if typical is not None else 0
    opening: Piece = ("start_up", free - took, start, "")
    tiling.work(first.at, [opening, *_shares(leg, leg.base, first.step, took)])
    for before, after in pairwise(leg.reports):
        place = bisect_right(attempt.unpriced, before.at)
        saving = typical is not None and place < len(attempt.unpriced) and attempt.unpriced[place] <= after.at
        steps, free = after.step - before.step, tiling.free(after.at)
        least = free if typical is None else min(free, steps * typical)
        stalled = typical is not None and free > _stalled_from(least)
        took = least if stalled or saving else free
        rest: Piece = ("checkpoint_io", free - took, "estimated", "") if saving else (
            "idle_hold", free - took, "stall", ""
        )  # fmt: skip
        tiling.work(after.at, [*_shares(leg, before.step, after.step, took), rest])


def _shares(leg: Leg, first: int, last: int, took: int) -> list[Piece]:
    """``took`` microseconds of the steps after ``first`` up to ``last``, by what became of them; sums exactly."""
    again, new, lost = leg.split(first, last)
    count = max(1, last - first)
    one, two = took * again // count, took * (again + new) // count
    shares: list[Piece] = [
        ("recomputed", one, "", leg.again_by),
        ("productive", two - one, "", ""),
        ("lost", took - two, "", leg.lost_by),
    ]
    return shares if again + new + lost else []


def _tail(tiling: Tiling, attempt: AttemptEvidence, leg: Leg, typical: int | None) -> None:
    """After the last reported step: a step in the making is lost, what follows holds devices for nothing."""
    save = next((at for at in attempt.unpriced if at > leg.reports[-1].at), None)
    if save is not None:
        tiling.work(save, [("checkpoint_io", max(0, save - tiling.cursor), "estimated", "")])
    if attempt.state == "completed":
        tiling.work(attempt.end, [("idle_hold", tiling.free(attempt.end), "wind_down", "")])
        return
    if attempt.state is None:
        tiling.work(attempt.end, [("productive", tiling.free(attempt.end), "in_progress", "")])
        return
    until = attempt.end if attempt.gone is None else min(attempt.gone, attempt.end)
    if until > tiling.cursor:
        free, took = tiling.free(until), _in_the_making(tiling, attempt, leg, typical)
        rest: Piece = ("idle_hold", free - took, "no_progress", attempt.cause)
        tiling.work(until, [("lost", took, "partial", leg.lost_by), rest])
    tiling.fill(attempt.end, "idle_hold", "wind_down", attempt.cause)


def _in_the_making(tiling: Tiling, attempt: AttemptEvidence, leg: Leg, typical: int | None) -> int:
    """Microseconds of the step that the program was in when it ended, or was asked to end.

    Where the program's own end is not on record, it is half a step: it died somewhere in it.
    """
    stride = max(1, leg.reports[-1].step - (leg.reports[-2].step if len(leg.reports) > 1 else leg.base))
    whole = stride * typical if typical is not None else 0
    if attempt.gone is None:
        free = tiling.free(attempt.end)
        return free if free < whole else whole // 2
    asked = (
        attempt.asked if attempt.asked is not None and attempt.asked > leg.reports[-1].at else attempt.gone
    )
    free = tiling.free(min(asked, attempt.gone))
    return whole if free > _stalled_from(whole) else free


def _stalled_from(usual: int) -> int:
    """From how many microseconds on what usually takes ``usual`` stood still."""
    return max(STALL * usual, usual + MICRO)
