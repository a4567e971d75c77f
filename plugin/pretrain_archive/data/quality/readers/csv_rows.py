"""CSV with a header (RFC 4180): one document a row."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import BinaryIO

from pretrain_archive.data.quality.readers.base import LINE_LIMIT, Broken, Fields, Text, domain_of, lines


def read_csv_rows(path: str, stream: BinaryIO, fields: Fields) -> Iterator[Text | Broken]:
    """Yield the document of each row, and each row that is none, with the line where it begins."""
    csv.field_size_limit(min(LINE_LIMIT, sys.maxsize))
    source = _Lines(stream)
    rows = csv.reader(source, strict=True)
    try:
        header = next(rows, [])
    except csv.Error as error:
        yield Broken(path=path, line=0, reason=f"not CSV: its header is none: {error}")
        return
    if fault := source.begin()[1]:
        yield Broken(path=path, line=1, reason=fault)
    while True:
        begin = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield Broken(path=path, line=begin, reason=f"not CSV: {error}")
            source.begin()
            continue
        record, fault = source.begin()
        if not row and not fault:
            continue
        if fault := fault or _fault_of(row, header, fields):
            yield Broken(path=path, line=begin, reason=fault)
            continue
        values = dict(zip(header, row, strict=True))
        text = values[fields.text]
        yield Text(
            path=path,
            line=begin,
            raw=text.encode(),
            text=text,
            record=record,
            domain=values.get(fields.domain) or domain_of(path),
            language=values.get(fields.language) or None,
            label=values.get(fields.label) or None,
        )


def _fault_of(row: list[str], header: list[str], fields: Fields) -> str:
    """Why a row is no document; empty if it is one."""
    if len(row) != len(header):
        return f"{len(row)} columns, the header has {len(header)}"
    if fields.text not in header:
        return f"no text in field {fields.text!r}"
    # Which of two was meant, nobody can tell.
    named = (fields.text, fields.domain, fields.language, fields.label)
    return next((f"field {name!r} stands twice" for name in named if header.count(name) > 1), "")


class _Lines:
    """Lines as text for the parser; remembers the bytes and the fault of those since :meth:`begin`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines = lines(stream)
        self._taken: list[bytes] = []
        self._fault = ""

    def begin(self) -> tuple[bytes, str]:
        """The bytes of the row that was just read and what is wrong with them; the next row begins."""
        taken, fault = b"".join(self._taken), self._fault
        self._taken, self._fault = [], ""
        return taken, fault

    def __iter__(self) -> Iterator[str]:
        for number, line in self._lines:
            if line is None:
                self._fault = f"longer than {LINE_LIMIT} bytes"
                yield "\n"
                continue
            self._taken.append(line)
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                self._fault = "not UTF-8"
                yield line.decode("latin-1")
