"""Sort more numbers than fit in memory: sorted runs on disk, merged block by block."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEAST = 1 << 10
"""Numbers that a buffer holds at the least, however little memory there is."""


class Sorter:
    """Takes numbers (uint64) in any order and gives them back ascending, in blocks.

    Holds at most about ``memory`` bytes; the runs lie in a file of ``folder`` without a name, which nothing is left
    of when the process ends.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        self._folder = folder
        self._limit = max(LEAST, memory // 32)  # the buffer, its joined form and the sorted copy, with room
        self._buffered: list[NDArray[np.uint64]] = []
        self._held = 0
        self._file: BinaryIO | None = None
        self._runs: list[tuple[int, int]] = []
        self.total = 0

    def add(self, numbers: NDArray[np.uint64]) -> None:
        """Take numbers."""
        self.total += len(numbers)
        for begin in range(0, len(numbers), self._limit):
            part = numbers[begin : begin + self._limit]
            self._buffered.append(part.copy() if len(part) < len(numbers) else part)
            self._held += len(part)
            if self._held >= self._limit:
                self._spill()

    def blocks(self, *, unique: bool = False) -> Iterator[NDArray[np.uint64]]:
        """Yield everything in ascending order, each number once if ``unique``; the sorter is then empty."""
        if not self._runs:
            numbers = self._sorted()
            source = iter([numbers] if len(numbers) else [])
        else:
            self._spill()
            source = self._merged()
        last: np.uint64 | None = None
        for block in source:
            found = block
            if unique:
                keep = np.ones(len(block), bool)
                np.not_equal(block[1:], block[:-1], out=keep[1:])
                keep[0] = last is None or block[0] != last
                last = block[-1]
                found = block[keep]
            yield found
        self.close()

    def close(self) -> None:
        """Give up what is held."""
        if self._file is not None:
            self._file.close()
        self._file, self._runs, self._buffered, self._held = None, [], [], 0

    def _sorted(self) -> NDArray[np.uint64]:
        numbers = np.concatenate(self._buffered) if self._buffered else np.empty(0, np.uint64)
        self._buffered, self._held = [], 0
        numbers.sort()
        return numbers

    def _spill(self) -> None:
        numbers = self._sorted()
        if not len(numbers):
            return
        if self._file is None:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(dir=self._folder))  # noqa: SIM115 - closed by close()
        self._runs.append((self._file.seek(0, 2), len(numbers)))
        self._file.write(numbers.data)

    def _merged(self) -> Iterator[NDArray[np.uint64]]:
        file = cast("BinaryIO", self._file)
        size = max(LEAST // 8, self._limit // len(self._runs))
        runs = [_Run(file, place, count, size) for place, count in self._runs]
        while runs := [run for run in runs if len(run.head)]:
            # Up to here every run is in memory: what the shortest look ahead ends with.
            ahead = [run.head[-1] for run in runs if run.left]
            taken = [run.take(min(ahead) if ahead else None) for run in runs]
            block = np.concatenate(taken)
            block.sort()
            yield block


class _Run:
    """A sorted run of a file, a block of it in memory."""

    def __init__(self, file: BinaryIO, place: int, count: int, size: int) -> None:
        self._file, self._place, self.left, self._size = file, place, count, size
        self.head: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._fill()

    def take(self, bound: np.uint64 | None) -> NDArray[np.uint64]:
        """Everything in memory up to and with ``bound``."""
        count = len(self.head) if bound is None else int(np.searchsorted(self.head, bound, side="right"))
        taken, self.head = self.head[:count], self.head[count:]
        if not len(self.head):
            self._fill()
        return taken

    def _fill(self) -> None:
        count = min(self._size, self.left)
        if count:
            self._file.seek(self._place)
            self.head = np.frombuffer(self._file.read(8 * count), np.uint64)
            self._place += 8 * count
            self.left -= count
