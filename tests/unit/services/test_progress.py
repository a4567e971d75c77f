"""Progress as figures: rate over the last seconds, time left where the total is known."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest
from tests.support.terminal import read_terminal

from pretrain_archive.services.progress import Figures, Meter, duration, every


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time now."""
        return self.now


def meter(seconds: float = 5.0) -> tuple[Meter, Clock, list[Figures]]:
    """A meter with a clock of its own, and what it shows."""
    clock, shown = Clock(), []
    return Meter(shown.append, seconds=seconds, clock=clock), clock, shown


def run_for(
    progress: Callable[[int, int], None], clock: Clock, seconds: int, rate: int, start: int = 0
) -> int:
    """Do ``rate`` files of 1000 bytes a second; return the files done."""
    done = start
    for _ in range(seconds):
        clock.now += 1.0
        done += rate
        progress(done, done * 1000)
    return done


def test_a_log_line_at_most_every_few_seconds() -> None:
    """A hundred seconds of work at a line per five are twenty lines, not one per file."""
    progress, clock, shown = meter()
    run_for(progress, clock, 100, rate=10)

    assert 20 == len(shown)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    """After a fast beginning the rate follows the slow present within the window."""
    progress, clock, shown = meter()
    done = run_for(progress, clock, 60, rate=1000)
    run_for(progress, clock, 40, rate=10, start=done)

    assert 10.0 == pytest.approx(shown[-1].files_rate, rel=0.2)
    assert 10_000.0 == pytest.approx(shown[-1].size_rate, rel=0.2)


def test_time_left_is_told_only_with_a_total() -> None:
    """Without a listing nobody knows how much is left, and nothing is made up."""
    progress, clock, shown = meter()
    run_for(progress, clock, 5, rate=10)
    progress.expect(1000, 1_000_000)
    run_for(progress, clock, 10, rate=10)

    assert [None, 95.0, 90.0] == [figures.seconds_left for figures in shown]
    assert (1000, 1_000_000) == (shown[-1].files_total, shown[-1].size_total)


def test_the_slower_of_files_and_bytes_decides() -> None:
    """A hundred small files may take longer than one large one."""
    figures = Figures(files=0, size=0, files_total=100, size_total=1000, files_rate=1.0, size_rate=1000.0)

    assert 100.0 == figures.seconds_left


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, "3 files, 2.5 MB", id="nothing known"),
        pytest.param(
            {"files_total": 2000, "size_total": 5_000_000_000, "files_rate": 1.0, "size_rate": 1e6},
            "3 of 2,000 files, 0.0 of 5.0 GB, 1.0 MB/s, 1 files/s, 83 min left",
            id="all known",
        ),
        pytest.param({"files_total": 9, "size_total": 0}, "3 of 9 files, 2.5 of 0.0 MB", id="no rate yet"),
    ],
)
def test_the_line_for_a_person(fields: Mapping[str, float], expected: str) -> None:
    """Only what is known is in the line."""
    assert expected == Figures(files=3, size=2_500_000, **fields).text()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (9000, "2.5 h")],
)
def test_durations(seconds: float, expected: str) -> None:
    """Seconds, then minutes, then hours."""
    assert expected == duration(seconds)


def test_lines_of_a_task_log() -> None:
    """The verb stands first, then the same figures as beside a bar."""
    lines: list[str] = []
    every(lines.append, "hashed", seconds=0.0)(3, 2_000_000)

    assert ["hashed 3 files, 2.0 MB"] == [line.partition(", 9")[0] for line in lines]


BAR = """
import time
from pretrain_archive.commands.output import hashing_progress
with hashing_progress("hashing") as progress:
    if progress is None:
        raise SystemExit("no progress")
    progress.expect(2, 4_000_000)
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        progress(1, 2_000_000)
"""


@pytest.mark.parametrize("no_colour", [False, True])
def test_a_bar_on_a_terminal(no_colour: bool) -> None:
    """A terminal sees a bar with the figures; under NO_COLOR nothing in it is coloured."""
    seen = read_terminal([sys.executable, "-c", BAR], env={"NO_COLOR": "1"} if no_colour else {})

    assert "1 of 2 files, 2.0 of 4.0 MB" in seen
    assert "hashing" in seen
    assert ("\x1b[3" in seen or "\x1b[9" in seen) is not no_colour


def test_no_bar_where_nobody_looks() -> None:
    """Standard error that is no terminal gets nothing at all, whatever standard output is."""
    end, terminal = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", BAR], stdout=terminal, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(end)
    os.close(terminal)

    assert "no progress\n" == done.stderr
