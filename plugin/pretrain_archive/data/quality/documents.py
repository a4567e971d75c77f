"""Read documents out of files of any format that a corpus has.

JSON Lines, CSV and Parquet hold one document a line or row; any other text is one document a file. gzip and zstd
around them are unpacked as they stream by. What cannot be read as a document is a :class:`Broken` unit with file,
line and reason; reading goes on with the next one. Reasons never hold text of the data.

A file without a document (:func:`kind_not_read`) is no document of a split: quality and split look at data through
these functions alone.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from pretrain_archive.data.containers import HEAD, bare_name, is_list, kind_of, looks_like_json_lines
from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.quality.readers.base import (
    LINE_LIMIT,
    TEXT_LIMIT,
    Broken,
    DamagedError,
    Fields,
    Oversized,
    Shard,
    Text,
    domain_of,
)
from pretrain_archive.data.quality.readers.csv_rows import read_csv_rows
from pretrain_archive.data.quality.readers.json_lines import read_json_lines
from pretrain_archive.data.quality.readers.packed import unpacked
from pretrain_archive.data.quality.readers.parquet import read_parquet
from pretrain_archive.data.quality.readers.plain import read_plain
from pretrain_archive.data.quality.statistics import Statistics, of_text

__all__ = [
    "LINE_LIMIT", "NO_DATA", "TEXT_LIMIT", "Broken", "Document", "Fields", "Oversized", "Shard", "Text", "Unit",
    "beginning", "domain_of", "kind_not_read", "read_stream", "read_texts", "read_units",
]  # fmt: skip

NO_DATA = "no data"
"""The kind of a file without a document and without a fault: empty, blank, a header and no row."""

PACKED = ("gzip", "zstd")


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document without its text; ``line`` is where it begins in its file (from 1), 0 if it is the whole file."""

    path: str
    line: int
    statistics: Statistics


Unit = Document | Broken


def read_texts(shard: Shard, *, fields: Fields = Fields()) -> Iterator[Text | Broken]:  # noqa: B008 - frozen
    """Yield the documents and broken units of a file, in order.

    Blank lines are nothing; a text without a character is a document that is empty. A packed file that is cut
    gives the documents before the cut and then one broken unit with line 0. A plain text above
    :data:`TEXT_LIMIT` is an :class:`Oversized` unit, which has its numbers and no text.
    """
    with closing(shard.open()) as opened:
        yield from read_stream(shard.path, opened, fields=fields)


def read_stream(path: str, opened: BinaryIO, *, fields: Fields) -> Iterator[Text | Broken]:
    """As :func:`read_texts`, of a stream that the caller opened and closes."""
    head, stream = beginning(opened)
    kind = kind_of(path, head)
    if kind not in PACKED:
        yield from _of_kind(path, kind, stream, fields, name=path)
        return
    try:
        inner, stream = beginning(unpacked(kind, stream))
        name = bare_name(path)
        inner_kind = kind_of(name, inner)
        if inner_kind in PACKED:
            yield _not_read(path, f"{inner_kind} inside {kind}")
            return
        if not inner_kind and looks_like_json_lines(name, inner):
            name += ".jsonl"
        yield from _of_kind(path, inner_kind, stream, fields, name=name)
    except DamagedError as error:
        yield Broken(path=path, line=0, reason=str(error), kind=error.kind)


def read_units(shard: Shard, *, text_field: str) -> Iterator[Unit]:
    """Yield the documents of a file with their numbers, and its broken units, in order."""
    for unit in read_texts(shard, fields=Fields(text=text_field)):
        if isinstance(unit, Text):
            yield Document(path=unit.path, line=unit.line, statistics=of_text(unit.raw, unit.text))
        elif isinstance(unit, Oversized):
            yield Document(path=unit.path, line=unit.line, statistics=unit.statistics)
        else:
            yield unit


def kind_not_read(shard: Shard, *, text_field: str = "text") -> str:
    """Why no document can be read from a file, in a word (``no data``, ``not gzip`` …); empty if there is one.

    Reads no further than the first document.
    """
    kind = NO_DATA
    for unit in read_texts(shard, fields=Fields(text=text_field)):
        if isinstance(unit, Oversized) or (isinstance(unit, Text) and unit.raw):
            return ""
        if isinstance(unit, Broken):
            kind = unit.kind
    return kind


def _of_kind(path: str, kind: str, stream: BinaryIO, fields: Fields, *, name: str) -> Iterator[Text | Broken]:
    """Read a stream that is not packed; ``name`` is the file's without its packing."""
    if kind == "parquet":
        yield from read_parquet(path, stream, fields)
    elif kind:
        yield _not_read(path, kind)
    elif not is_list(name):
        yield read_plain(path, stream)
    elif name.lower().endswith(".csv"):
        yield from read_csv_rows(path, stream, fields)
    else:
        yield from read_json_lines(path, stream, fields)


def _not_read(path: str, kind: str) -> Broken:
    reason = "has a NUL byte" if kind == "binary" else "is not read"
    return Broken(path=path, line=0, reason=f"{kind}: {reason}", kind=kind)


def beginning(opened: BinaryIO) -> tuple[bytes, BinaryIO]:
    """The first :data:`HEAD` bytes of a stream, and a stream that has them too."""
    head = b""
    try:
        while len(head) < HEAD and (block := opened.read(HEAD - len(head))):
            head += block
    except DamagedError as error:
        return head, cast("BinaryIO", io.BufferedReader(_Again(head, opened, error), buffer_size=BLOCK))
    if getattr(opened, "seekable", bool)():  # bodies of network answers may not have the method
        opened.seek(0)
        return head, opened
    return head, cast("BinaryIO", io.BufferedReader(_Again(head, opened), buffer_size=BLOCK))


class _Again(io.RawIOBase):
    """A stream whose first bytes were read before, and perhaps the damage after them."""

    def __init__(self, head: bytes, rest: BinaryIO, error: DamagedError | None = None) -> None:
        self._head, self._error = head, error
        # One read of what is below: reading on until the buffer is full would lose what precedes a damage.
        self._read = getattr(rest, "read1", rest.read)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._head and self._error is not None:
            raise self._error
        block = self._head or self._read(len(buffer))
        taken, self._head = block[: len(buffer)], self._head[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
