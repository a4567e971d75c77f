"""Find the documents that say again what an earlier one said, in bounded memory.

Keys are 128 bits of a SHA-256, spread over unnamed files by their first bits; one file at a time is looked at. What
stays in memory is one bit a document: 100 million documents are 12.5 MB, and a bucket of them about 150 MB.
"""

from __future__ import annotations

import struct
import tempfile
from contextlib import ExitStack
from typing import BinaryIO, cast

BUCKETS = 64
_ROW = struct.Struct("<16sQ")


class Marks:
    """One bit for each of ``count`` documents."""

    def __init__(self, count: int) -> None:
        self._bits = bytearray(count // 8 + 1)

    def set(self, number: int) -> None:
        """Mark a document."""
        self._bits[number // 8] |= 1 << number % 8

    def has(self, number: int) -> bool:
        """Whether a document is marked."""
        return bool(self._bits[number // 8] >> number % 8 & 1)


class Repeats:
    """Add keys in order; then ask which numbers repeat an earlier key."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._files = [
            cast("BinaryIO", self._stack.enter_context(tempfile.TemporaryFile()))  # noqa: SIM115 - in the stack
            for _ in range(BUCKETS)
        ]
        self._count = 0
        self._marks = Marks(0)

    def add(self, key: bytes) -> None:
        """The next document's key: at least 16 bytes of a hash."""
        self._files[key[0] % BUCKETS].write(_ROW.pack(key[:16], self._count))
        self._count += 1

    def settle(self) -> None:
        """Look through the buckets."""
        self._marks = Marks(self._count)
        for file in self._files:
            file.seek(0)
            seen: set[bytes] = set()
            # Rows of a bucket stand in the order of reading: the first one of a key is the one that is kept.
            while block := file.read(_ROW.size * 4096):
                for key, number in _ROW.iter_unpack(block):
                    if key in seen:
                        self._marks.set(number)
                    else:
                        seen.add(key)
        self._stack.close()

    def is_repeat(self, number: int) -> bool:
        """Whether an earlier document has the same key."""
        return self._marks.has(number)
