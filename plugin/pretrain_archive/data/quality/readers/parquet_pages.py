"""How large the pages of a Parquet file say that they are, before anybody makes room for them.

A page's header names its size on disk and when decompressed. Readers set the latter aside before they look at the
page, so that a few wrong bytes ask for gigabytes. Here only headers are read, a few bytes a page. They are Thrift
structs in the compact protocol: https://github.com/apache/parquet-format (PageHeader: field 2 is the size when
decompressed, field 3 the size on disk) and https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO

LARGEST_PAGE = 256 * 1024 * 1024
"""Bytes of a page when decompressed; writers make pages of about 1 MiB."""

_LENGTHS = (256, 16 * 1024, 16 * 1024 * 1024)
"""How much is read to find a whole header, if less is not enough: it may hold long values."""

_UNCOUNTED = 100
"""Old writers left the header of a dictionary out of a column's size."""

_DEEPEST = 16
_DIRECTORY: Mapping[int, Any] = {4: {1: {3: {3: None, 7: None, 9: None, 11: None}}}}
"""What is kept of FileMetaData: row groups (4), their columns (1), of ColumnMetaData (3) path, size and offsets."""

_INTEGERS = (4, 5, 6)
_FIXED = {1: 1, 2: 1, 3: 1, 7: 8}
"""Bytes of a truth value in a list, a byte, a double."""

_BINARY, _LIST, _SET, _STRUCT = 8, 9, 10, 12


class Pages:
    """Where each row group's columns lie, as the file's directory says, and what their pages ask for.

    The directory is read here and not through pyarrow's column metadata: what that throws about a damaged one cannot
    be caught and ends the process.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        size = source.seek(0, io.SEEK_END)
        source.seek(size - 8)
        length = int.from_bytes(source.read(4), "little")
        source.seek(max(0, size - 8 - length))
        try:
            self._groups = _Thrift(source.read(length)).struct(_DIRECTORY).get(4, [])
        except (IndexError, ValueError):  # the reader parses it too and tells what is wrong
            self._groups = []

    def oversized(self, group: int, columns: Collection[str]) -> str:
        """Why the pages of a row group's ``columns`` cannot be read, empty if nothing speaks against it."""
        try:
            return self._look(group, columns)
        except (
            AttributeError,
            KeyError,
            IndexError,
            TypeError,
        ):  # numbers where structs belong: told by the reader
            return ""

    def _look(self, group: int, columns: Collection[str]) -> str:
        for chunk in (one.get(3, {}) for one in self._groups[group].get(1, [])):
            name = next(iter(chunk.get(3, ())), b"").decode("utf-8", "replace")
            size, start, dictionary = chunk.get(7), chunk.get(9), chunk.get(11, 0)
            if name not in columns or size is None or start is None:
                continue
            start = dictionary if 0 < dictionary < start else start
            if fault := _fault(self._source, start, start + size):
                return fault
        return ""


def _fault(source: BinaryIO, position: int, end: int) -> str:
    """What a page header from ``position`` to ``end`` asks for that no page has."""
    while 0 <= position < end:
        found = next((sizes for most in _LENGTHS if (sizes := _sizes(source, position, most))), None)
        if found is None:
            break
        header, decompressed, compressed = found
        if decompressed > LARGEST_PAGE:
            return f"a page says that it holds {decompressed} bytes, at most {LARGEST_PAGE} are read"
        if not 0 <= compressed <= end - position - header + _UNCOUNTED:
            return f"a page says that it takes {compressed} bytes, which its column has not"
        position += header + compressed
    return ""


def _sizes(source: BinaryIO, position: int, most: int) -> tuple[int, int, int] | None:
    """Bytes of the header, of the page when decompressed, and on disk; None if there is no whole header."""
    source.seek(position)
    thrift = _Thrift(source.read(most))
    try:
        fields = thrift.struct({2: None, 3: None})
    except (IndexError, ValueError):
        return None
    if not isinstance(fields.get(2), int) or not isinstance(fields.get(3), int):
        return None
    return thrift.at, _int32(fields[2]), _int32(fields[3])


def _int32(value: int) -> int:
    """A number as a field of 32 bits holds it: the reader cuts off what is beyond."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


class _Thrift:
    """The compact protocol, as far as directory and page headers need it: what is wanted is kept, the rest passed."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.at = 0

    def struct(self, wanted: Mapping[int, Any], depth: int = 0) -> dict[int, Any]:
        """The ``wanted`` fields of the struct that begins here, by number, each with what is wanted of it in turn.

        Raises ``IndexError`` where it is cut and ``ValueError`` where it is no such struct.
        """
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        fields: dict[int, Any] = {}
        name = 0
        while head := self._byte():
            name = name + (head >> 4) if head >> 4 else self._zigzag()
            if head & 15 in {1, 2}:  # a truth value stands in the field's own head
                continue
            value = self._value(head & 15, wanted.get(name) or {}, depth)
            if name in wanted:
                fields[name] = value
        return fields

    def _value(self, kind: int, wanted: Mapping[int, Any], depth: int) -> Any:
        if kind in _INTEGERS:
            return self._zigzag()
        if kind in _FIXED:
            return self._take(_FIXED[kind])
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct(wanted, depth + 1)
        if kind in {_LIST, _SET}:
            return self._list(wanted, depth + 1)
        raise ValueError("not a kind that these structs have")

    def _list(self, wanted: Mapping[int, Any], depth: int) -> list[Any]:
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()  # 15: the count follows
        if count > len(self._raw) - self.at:
            raise ValueError("more entries than bytes")
        return [self._value(head & 15, wanted, depth) for _ in range(count)]

    def _byte(self) -> int:
        self.at += 1
        return self._raw[self.at - 1]

    def _take(self, size: int) -> bytes:
        taken = self._raw[self.at : self.at + size]
        if len(taken) < size:
            raise IndexError
        self.at += size
        return taken

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:  # the highest bit says that more follows
                return value
        raise ValueError("a number of more than ten bytes")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
