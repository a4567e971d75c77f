"""Choose by a seeded hash of content, exactly to the document, in bounded memory.

The hash of a document follows from the seed and the digest of its text alone: the order of reading has no say, equal
documents stand or fall together, and a document keeps its place when others come or go.
"""

from __future__ import annotations

import hashlib
import struct
import tempfile
from collections import defaultdict
from collections.abc import Callable
from typing import BinaryIO, cast

BINS = 1 << 16
_SHIFT = 64 - 16
_ROW = struct.Struct("<QQI")
EVERYTHING = 1 << 64
"""Above every hash: the bound of a group that is kept whole."""


def seeded_hash(purpose: str, seed: int, digest: str) -> int:
    """A number from 0 below 2^64, spread evenly; first eight bytes of a SHA-256."""
    raw = hashlib.sha256(f"pretrain-archive/{purpose}/1\n{seed}\n{digest}".encode()).digest()
    return int.from_bytes(raw[:8], "big")


class Survey:
    """Sizes by group and hash; then the bound below which a group has at most a wanted size.

    Memory holds at most 65,536 counts a group and the rows of one bin; the rows are in an unnamed file.
    """

    def __init__(self) -> None:
        self._rows = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed by close()
        self._groups: dict[str, int] = {}
        self._names: list[str] = []
        self._bins: dict[tuple[int, int], int] = defaultdict(int)
        self.sizes: dict[str, int] = defaultdict(int)

    def add(self, group: str, value: int, size: int) -> None:
        """Count a document with hash ``value`` and ``size`` (bytes, or 1)."""
        number = self._groups.get(group)
        if number is None:
            number = self._groups[group] = len(self._names)
            self._names.append(group)
        self._rows.write(_ROW.pack(value, size, number))
        self._bins[number, value >> _SHIFT] += size
        self.sizes[group] += size

    def bounds(self, wanted: dict[str, int]) -> dict[str, int]:
        """The exclusive bound of each group of ``wanted``: hashes below it sum up to at most the wanted size."""
        found: dict[str, int] = {}
        open_bins: dict[tuple[int, int], int] = {}
        for group, limit in wanted.items():
            if self.sizes.get(group, 0) <= limit:
                found[group] = EVERYTHING
                continue
            number, taken = self._groups[group], 0
            for bucket in range(BINS):
                size = self._bins.get((number, bucket), 0)
                if taken + size > limit:
                    open_bins[number, bucket] = limit - taken
                    break
                taken += size
        for (number, bucket), room in open_bins.items():
            found[self._names[number]] = self._inside(number, bucket, room)
        return found

    def _inside(self, number: int, bucket: int, room: int) -> int:
        by_hash: dict[int, int] = defaultdict(int)
        self._each(
            lambda value, size, group: _put(
                by_hash, value, size, group == number and value >> _SHIFT == bucket
            )
        )
        for value in sorted(by_hash):
            if by_hash[value] > room:
                return value
            room -= by_hash[value]
        return (bucket + 1) << _SHIFT

    def _each(self, look: Callable[[int, int, int], None]) -> None:
        self._rows.seek(0)
        while block := self._rows.read(_ROW.size * 4096):
            for row in _ROW.iter_unpack(block):
                look(*row)

    def close(self) -> None:
        """Give the file back."""
        self._rows.close()


def _put(into: dict[int, int], value: int, size: int, belongs: bool) -> None:
    if belongs:
        into[value] += size
