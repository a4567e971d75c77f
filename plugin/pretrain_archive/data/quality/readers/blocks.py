"""Blocks of bytes as a stream that cannot seek."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from pretrain_archive.data.hashing import BLOCK


def stream_of(blocks: Iterator[bytes]) -> BinaryIO:
    """A buffered stream of ``blocks``, of any sizes, one after another; what they raise is raised by reading."""
    return cast("BinaryIO", io.BufferedReader(_Blocks(blocks), buffer_size=BLOCK))


class _Blocks(io.RawIOBase):
    """Blocks as a stream."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
