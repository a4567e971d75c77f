"""The nine bins of device time and the pieces that lie in them, in whole microseconds so that sums are exact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Bin = Literal[
    "waiting", "start_up", "productive", "evaluation", "checkpoint_io", "lost", "recomputed", "idle_hold",
    "exploration",
]  # fmt: skip
"""Where a device-second goes; ``exploration`` takes all of a run of that scope."""

BINS: tuple[Bin, ...] = get_args(Bin)

Device = Literal["accelerator", "machine"]
"""What is counted: an accelerator, or the machine itself where a launch asked for none."""

MICRO = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """Device time of one member in one bin: ``device_us`` are devices × microseconds.

    ``attempt`` 0 is the evaluation after training. ``detail`` says which part of the bin it is, ``cause`` the record
    that brought it about (empty where nothing did). ``evidenced`` False means that nobody wrote down what happened.
    """

    attempt: int
    worker: int
    device: Device
    bin: Bin
    device_us: int
    detail: str = ""
    cause: str = ""
    evidenced: bool = True


def summed(slices: Iterable[Slice]) -> dict[Bin, int]:
    """Device-microseconds by bin; every bin is there."""
    bins: dict[Bin, int] = dict.fromkeys(BINS, 0)
    for piece in slices:
        bins[piece.bin] += piece.device_us
    return bins


def micros(seconds: float) -> int:
    """Seconds as whole microseconds, never negative."""
    return max(0, round(seconds * MICRO))


def as_seconds(us: int) -> float:
    """Microseconds as seconds with six digits."""
    return round(us / MICRO, 6)
