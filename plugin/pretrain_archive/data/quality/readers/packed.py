"""Unpack gzip (RFC 1952) and zstd (RFC 8878) as they stream by, and notice every way in which they are damaged.

Several members or frames after another are one stream. What was unpacked before the damage is handed out first, then
:class:`DamagedError` is raised: who counts records has them, and knows that the file is not whole. Only of a stream
that contradicts itself (a wrong checksum) the last block is not handed out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.quality.readers.base import DamagedError
from pretrain_archive.data.quality.readers.blocks import stream_of

BOMB_RATIO = 250
"""A stream that grows by more is a bomb. Logs and tables reach 20 to 50; deflate can do 1030, zstd far more."""

BOMB_FROM = 64 << 20
"""Unpacked bytes below which no stream is called a bomb."""

PIECE = 1 << 16
# An RLE block of zstd makes 128 KiB out of four bytes: small pieces keep what one call returns under 32 MiB.
ZSTD_PIECE = 1 << 10
ZSTD_WINDOW = 128 << 20
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def unpacked(kind: str, stream: BinaryIO) -> BinaryIO:
    """The unpacked bytes of a ``gzip`` or ``zstd`` stream; reading raises :class:`DamagedError`."""
    blocks = _gzip(stream) if kind == "gzip" else _zstd(stream)
    return stream_of(blocks)


class _Source:
    """Packed bytes that can be looked at before they are taken; counts both sides for bombs."""

    def __init__(self, stream: BinaryIO, kind: str) -> None:
        self._stream, self._kind = stream, kind
        self._rest, self._at = b"", 0
        self._taken = 0
        self._given = 0

    def peek(self, count: int) -> bytes:
        while len(self._rest) - self._at < count and (block := self._stream.read(PIECE)):
            self._rest, self._at = self._rest[self._at :] + block, 0
        return self._rest[self._at : self._at + count]

    def take(self, count: int) -> bytes:
        piece = self.peek(count)
        self._at += len(piece)
        self._taken += len(piece)
        return piece

    def give_back(self, piece: bytes) -> None:
        self._rest, self._at = piece + self._rest[self._at :], 0
        self._taken -= len(piece)

    def count(self, block: bytes) -> bytes:
        self._given += len(block)
        if self._given > BOMB_FROM and self._given > BOMB_RATIO * self._taken:
            reason = f"{self._kind} bomb: grows to more than {BOMB_RATIO} times its size"
            raise DamagedError(f"{self._kind} bomb", reason)
        return block


def _gzip(stream: BinaryIO) -> Iterator[bytes]:
    source, members = _Source(stream, "gzip"), 0
    while head := source.peek(2):
        if head != GZIP_MAGIC:
            if not members:
                break
            yield from _after_gzip(source)
            return
        members += 1
        yield from _gzip_member(source)
    if not members:
        raise DamagedError("not gzip", "not a gzip file: it does not begin as one")


def _gzip_member(source: _Source) -> Iterator[bytes]:
    inflate = zlib.decompressobj(wbits=31)
    while not inflate.eof:
        piece = inflate.unconsumed_tail or source.take(PIECE)
        if not piece:
            reason = "truncated gzip: the file ends before the end marker and checksum of its stream"
            raise DamagedError("truncated gzip", reason)
        try:
            block = inflate.decompress(piece, BLOCK)
        except zlib.error as error:
            raise DamagedError("damaged gzip", f"damaged gzip: {_of_zlib(error)}") from error
        if block:
            yield source.count(block)
    source.give_back(inflate.unused_data)


def _of_zlib(error: zlib.error) -> str:
    """The words of zlib itself ("incorrect data check"), which hold none of the data."""
    return str(error).rpartition(": ")[2]


def _after_gzip(source: _Source) -> Iterator[bytes]:
    """Zero bytes fill a last block of a tape or a sparse file; gzip itself lets them pass. No text follows."""
    while block := source.take(PIECE):
        if block.strip(b"\0"):
            raise DamagedError("junk after gzip", "junk after the end of the gzip stream")
    yield from ()


def _zstd(stream: BinaryIO) -> Iterator[bytes]:
    source, frames = _Source(stream, "zstd"), 0
    while head := source.peek(18):
        if not _begins_frame(head):
            if frames:
                raise DamagedError("junk after zstd", "junk after the end of the zstd stream")
            break
        frames += 1
        yield from _zstd_frame(source, head)
    if not frames:
        raise DamagedError("not zstd", "not a zstd file: it does not begin as one")


def _begins_frame(head: bytes) -> bool:
    # 0x184D2A50 to 0x184D2A5F: frames that carry no data and are skipped.
    skipped = head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F
    return skipped or ZSTD_MAGIC.startswith(head[:4]) or head.startswith(ZSTD_MAGIC)


def _zstd_frame(source: _Source, head: bytes) -> Iterator[bytes]:
    import zstandard  # noqa: PLC0415

    _refuse_dictionary(zstandard.get_frame_parameters, zstandard.ZstdError, head)
    inflate = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
    while not inflate.eof:
        piece = source.take(ZSTD_PIECE)
        if not piece:
            raise DamagedError("truncated zstd", "truncated zstd: the file ends before the end of its frame")
        try:
            block = inflate.decompress(piece)
        except zstandard.ZstdError as error:
            reason = "wrong checksum" if "checksum" in str(error) else str(error).rpartition(": ")[2]
            raise DamagedError("damaged zstd", f"damaged zstd: {reason}") from error
        if block:
            yield source.count(block)
    source.give_back(inflate.unused_data)


def _refuse_dictionary(parameters: Callable[[bytes], Any], fault: type[Exception], head: bytes) -> None:
    if not head.startswith(ZSTD_MAGIC):
        return
    try:
        dictionary = parameters(head).dict_id
    except fault:
        return  # a header that is cut is told by the one who unpacks
    if dictionary:
        raise DamagedError("zstd dictionary", f"needs the zstd dictionary {dictionary}, which is not there")
