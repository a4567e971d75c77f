"""Progress of long work: files, bytes, rate and time left, for a task log and for a bar on a terminal.

The rate is that of the last seconds (a sliding window), so that it follows a slow disk or a run of small files.
Time left is told only where the total is known: the slower of files and bytes decides.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

SECONDS = 5.0
"""A task log gets at most one line in so many seconds."""

WINDOW = 30.0
"""The rate is measured over so many seconds."""

TICK = 0.2
"""Samples are at least so many seconds apart: a call for each of a million files must cost nothing."""

LONG = 90 * 60
UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6))

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """How far work is. Totals and ``seconds_left`` are None where they are not known; rates are per second."""

    files: int
    size: int
    files_total: int | None = None
    size_total: int | None = None
    files_rate: float = 0.0
    size_rate: float = 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all is done at the present rate; None where the total, or any rate, is not known."""
        if self.files_total is None or self.size_total is None:
            return None
        rests = (
            (self.files_total - self.files, self.files_rate),
            (self.size_total - self.size, self.size_rate),
        )
        if any(rest > 0 and rate <= 0 for rest, rate in rests):
            return None
        return max((rest / rate for rest, rate in rests if rest > 0), default=0.0)

    @property
    def share(self) -> float | None:
        """The part that is done, 0 to 1, by bytes (by files where there are none); None without a total."""
        done, total = (self.size, self.size_total) if self.size_total else (self.files, self.files_total)
        return None if total is None else min(1.0, done / total) if total else 1.0

    def text(self) -> str:
        """One line for a person, the same in a log and beside a bar."""
        if self.files_total is None or self.size_total is None:
            parts = [f"{self.files:,} files", _scaled(self.size)]
        else:
            done = _scaled(self.size, unit_of=self.size_total).partition(" ")[0]
            parts = [f"{self.files:,} of {self.files_total:,} files", f"{done} of {_scaled(self.size_total)}"]
        if self.files_rate:
            parts += [f"{_scaled(self.size_rate)}/s", f"{self.files_rate:,.0f} files/s"]
        if (left := self.seconds_left) is not None:
            parts.append(f"{duration(left)} left")
        return ", ".join(parts)


class Meter:
    """Takes ``(files, bytes)`` done so far and hands on :class:`Figures`, at most every ``seconds``.

    It is what the data track calls a progress; :meth:`expect` takes the total once a listing knows it.
    """

    def __init__(
        self, show: Callable[[Figures], None], *, seconds: float = SECONDS, clock: Clock = time.monotonic
    ) -> None:
        self._show = show
        self._seconds = seconds
        self._clock = clock
        self._shown = self._sampled = clock()
        self._samples: deque[tuple[float, int, int]] = deque([(self._shown, 0, 0)])
        self._totals: tuple[int | None, int | None] = (None, None)

    def expect(self, files: int, size: int) -> None:
        """Tell how many files and bytes there are in all; what follows counts from nothing, and is timed anew."""
        self._totals = (files, size)
        self._sampled = self._clock()
        self._samples = deque([(self._sampled, 0, 0)])

    def __call__(self, files: int, size: int) -> None:
        """Tell how many files and bytes are done."""
        now = self._clock()
        if now - self._sampled >= min(TICK, self._seconds):
            self._sampled = now
            self._samples.append((now, files, size))
            while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW:
                self._samples.popleft()
        if now - self._shown >= self._seconds:
            self._shown = now
            self._show(self.figures(files, size))

    def figures(self, files: int, size: int) -> Figures:
        """The figures for so many files and bytes done now."""
        begin, files_before, size_before = self._samples[0]
        passed = self._clock() - begin
        rated = passed >= TICK
        return Figures(
            files=files,
            size=size,
            files_total=self._totals[0],
            size_total=self._totals[1],
            files_rate=(files - files_before) / passed if rated else 0.0,
            size_rate=(size - size_before) / passed if rated else 0.0,
        )


def every(
    say: Callable[[str], None], verb: str, *, seconds: float = SECONDS, clock: Clock = time.monotonic
) -> Meter:
    """A progress ``(files, bytes)`` that says a line at most every ``seconds``."""
    return Meter(lambda figures: say(f"{verb} {figures.text()}"), seconds=seconds, clock=clock)


def duration(seconds: float) -> str:
    """Seconds for a person: ``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < LONG else f"{seconds / 3600:.1f} h"


def _scaled(size: float, *, unit_of: float | None = None) -> str:
    """Bytes in the unit that fits ``unit_of`` (by default the bytes themselves)."""
    measure = size if unit_of is None else unit_of
    name, factor = next((unit for unit in UNITS if measure >= unit[1]), UNITS[-1])
    return f"{size / factor:,.1f} {name}"
