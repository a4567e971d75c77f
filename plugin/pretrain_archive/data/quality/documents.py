"""Read documents out of files: plain text is one document a file, JSON Lines and CSV one a line or row.

What cannot be read as a document is a :class:`Broken` unit with file, line and reason; reading goes on with
the next one. Reasons never hold text of the data. A container (gzip, parquet, binary …) is one broken unit.

A file without a document (:func:`kind_not_read`) is no document of a split: quality and split look at data through
these functions alone.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO

from pretrain_archive.data.containers import HEAD, is_list, kind_of
from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.quality.statistics import Counter, Statistics, of_text

NO_DATA = "no data"
"""The kind of a file without a document and without a fault: empty, blank, a header and no row."""

LINE_LIMIT = 64 << 20
"""Bytes of a JSON line or CSV row that is still read; a longer one is broken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """A file of the data: name as text, size in bytes and how to open it."""

    path: str
    size: int
    open: Callable[[], BinaryIO]


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document; ``line`` is where it begins in its file (from 1), 0 if it is the whole file."""

    path: str
    line: int
    statistics: Statistics


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken:
    """A unit that is no document, and why; ``kind`` is one word for it (damaged, gzip …)."""

    path: str
    line: int
    reason: str
    kind: str = "damaged"


Unit = Document | Broken


def read_units(shard: Shard, *, text_field: str) -> Iterator[Unit]:
    """Yield the documents and broken units of a file, in order. A blank file is an empty document, or none."""
    name = shard.path.lower()
    with closing(shard.open()) as opened:
        head, stream = _beginning(opened)
        if kind := kind_of(shard.path, head):
            reason = "has a NUL byte" if kind == "binary" else "is not read yet"
            yield Broken(path=shard.path, line=0, reason=f"{kind}: {reason}", kind=kind)
        elif name.endswith((".jsonl", ".ndjson")):
            yield from _json_lines(shard.path, stream, text_field)
        elif name.endswith(".csv"):
            yield from _csv_rows(shard.path, stream, text_field)
        else:
            yield _plain(shard.path, stream)


def kind_not_read(shard: Shard, *, text_field: str = "text") -> str:
    """Why no document can be read from a file, in a word (``no data``, ``gzip`` …); empty if there is one.

    Reads a text file once without counting anything, of a list of documents only up to the first.
    """
    if not is_list(shard.path):
        with closing(shard.open()) as opened:
            head, stream = _beginning(opened)
            return kind_of(shard.path, head) or _kind_of_text(stream)
    kind = NO_DATA
    for unit in read_units(shard, text_field=text_field):
        if isinstance(unit, Broken):
            kind = unit.kind
        elif unit.statistics.bytes:
            return ""
    return kind


def _kind_of_text(stream: BinaryIO) -> str:
    decoder, blank = codecs.getincrementaldecoder("utf-8")(), True
    try:
        while block := stream.read(BLOCK):
            decoder.decode(block)
            blank = blank and not block.strip()
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "encoding"
    return NO_DATA if blank else ""


def _beginning(opened: BinaryIO) -> tuple[bytes, BinaryIO]:
    """The first :data:`HEAD` bytes of a stream, and a stream that has them too."""
    head = b""
    while len(head) < HEAD and (block := opened.read(HEAD - len(head))):
        head += block
    return head, io.BufferedReader(_Again(head, opened), buffer_size=BLOCK)


class _Again(io.RawIOBase):
    """A stream whose first bytes were read before."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._head or self._rest.read(len(buffer))
        taken, self._head = block[: len(buffer)], self._head[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


def _plain(path: str, stream: BinaryIO) -> Unit:
    counter, blank = Counter(), True
    while block := stream.read(BLOCK):
        counter.feed(block)
        blank = blank and not block.strip()
    statistics = counter.statistics()
    if not statistics.encoding_valid:
        return Broken(path=path, line=0, reason="not UTF-8", kind="encoding")
    return Document(path=path, line=0, statistics=of_text(b"") if blank else statistics)


def _json_lines(path: str, stream: BinaryIO, text_field: str) -> Iterator[Unit]:
    for number, line in _lines(stream):
        if line is None:
            yield Broken(path=path, line=number, reason=f"longer than {LINE_LIMIT} bytes")
        elif line.strip():
            text, reason = _text_of_json(line, text_field)
            yield _unit(path, number, text, reason)


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Number and bytes of each line; None for one above the limit."""
    number = 0
    while line := stream.readline(LINE_LIMIT):
        number += 1
        if len(line) < LINE_LIMIT or line.endswith(b"\n"):
            yield number, line
            continue
        while (rest := stream.readline(LINE_LIMIT)) and not rest.endswith(b"\n"):
            pass
        yield number, None


def _text_of_json(line: bytes, text_field: str) -> tuple[str, str]:
    """The text of a JSON line, or the reason why it has none."""
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        return "", "not UTF-8"
    except RecursionError:
        return "", "nested too deeply"
    except ValueError as error:
        # The parser's own words ("Expecting ',' delimiter") tell the fault; its position, but no text, is added.
        where = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        return "", f"not JSON{where}: cut off or malformed"
    if not isinstance(value, dict):
        return "", "not an object"
    return _text_of(value.get(text_field), text_field)


def _text_of(value: object, text_field: str) -> tuple[str, str]:
    if not isinstance(value, str):
        return "", f"no text in field {text_field!r}"
    if any(0xD800 <= ord(char) <= 0xDFFF for char in value):
        return "", "a lone surrogate, which has no UTF-8 form"
    return value, ""


def _no_constant(_: str) -> None:
    raise ValueError("NaN and Infinity are no JSON")


def _unit(path: str, number: int, text: str, reason: str) -> Unit:
    if reason:
        return Broken(path=path, line=number, reason=reason)
    return Document(path=path, line=number, statistics=of_text(text.encode()))


def _csv_rows(path: str, stream: BinaryIO, text_field: str) -> Iterator[Unit]:
    csv.field_size_limit(min(LINE_LIMIT, sys.maxsize))
    broken: list[int] = []
    rows = csv.reader(_decoded(stream, broken), strict=True)
    header = next(rows, [])
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield Broken(path=path, line=rows.line_num, reason=f"not CSV: {error}")
            continue
        if not row:
            continue
        if rows.line_num in broken:
            yield Broken(path=path, line=rows.line_num, reason="not UTF-8")
        elif len(row) != len(header):
            reason = f"{len(row)} columns, the header has {len(header)}"
            yield Broken(path=path, line=rows.line_num, reason=reason)
        else:
            fields = dict(zip(header, row, strict=True))
            yield _unit(path, rows.line_num, *_text_of(fields.get(text_field), text_field))


def _decoded(stream: Iterable[bytes], broken: list[int]) -> Iterator[str]:
    """Lines as text; the number of a line that is not UTF-8 is put into ``broken``."""
    for number, line in enumerate(stream, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            broken.append(number)
            yield line.decode("latin-1")
