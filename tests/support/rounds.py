"""How often a measurement is repeated on a machine that others use too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

LEAST, MOST = 5, 40


def rounds(enough: Callable[[], bool], *, least: int = LEAST, most: int = MOST) -> Iterator[int]:
    """Yield at least ``least`` rounds, then more while ``enough()`` is false, at most ``most``.

    The best of several rounds only comes nearer to the undisturbed time, for both sides of a ratio: more rounds
    outlast a neighbour's load, and make no slow code fast.
    """
    for number in range(most):
        if number >= least and enough():
            return
        yield number
