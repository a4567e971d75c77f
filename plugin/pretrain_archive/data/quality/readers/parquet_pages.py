"""How large the pages of a Parquet file say that they are, before anybody makes room for them.

A page's header names its size on disk and when decompressed. Readers set the latter aside before they look at the
page, so that a few wrong bytes ask for gigabytes. Here only headers are read, a few bytes a page. They are Thrift
structs in the compact protocol: https://github.com/apache/parquet-format (PageHeader: field 2 is the size when
decompressed, field 3 the size on disk) and https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, BinaryIO

LARGEST_PAGE = 256 * 1024 * 1024
"""Bytes of a page when decompressed; writers make pages of about 1 MiB."""

_LENGTHS = (256, 16 * 1024, 16 * 1024 * 1024)
"""How much is read to find a whole header, if less is not enough: it holds the page's lowest and highest value, which may be long."""

_UNCOUNTED = 100
"""Old writers left the header of a dictionary out of a column's size."""

_DEEPEST = 16
_INTEGERS = (4, 5, 6)
_BINARY, _LIST, _SET, _STRUCT = 8, 9, 10, 12


def oversized(source: BinaryIO, group: Any, columns: Collection[str]) -> str:
    """Why a row group's pages are too large to be read, empty if they are not.

    ``group`` is pyarrow's RowGroupMetaData. A header that cannot be parsed ends the look at its column: the reader
    parses it too and tells what is wrong with it.
    """
    for number in range(group.num_columns):
        chunk = group.column(number)
        if chunk.path_in_schema.partition(".")[0] not in columns:
            continue
        start = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
            start = chunk.dictionary_page_offset
        if fault := _fault(source, start, start + chunk.total_compressed_size):
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
        fields = thrift.struct()
    except (IndexError, ValueError):
        return None
    if not isinstance(fields.get(2), int) or not isinstance(fields.get(3), int):
        return None
    return thrift.at, _int32(fields[2]), _int32(fields[3])


def _int32(value: int) -> int:
    """A number as a field of 32 bits holds it: the reader cuts off what is beyond."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


class _Thrift:
    """The compact protocol, as far as a page header needs it: integers are kept, the rest is stepped over."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, int]:
        """The integer fields of the struct that begins here; ``IndexError`` where it is cut."""
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        fields: dict[int, int] = {}
        name = 0
        while head := self._byte():
            name = name + (head >> 4) if head >> 4 else self._zigzag()
            value = self._value(head & 15, depth)
            if value is not None:
                fields[name] = value
        return fields

    def _value(self, kind: int, depth: int) -> int | None:
        if kind in _INTEGERS:
            return self._zigzag()
        if kind in {1, 2}:  # a truth value stands in the field's own head
            return None
        if kind in {3, 7}:
            self._skip(1 if kind == 3 else 8)  # a byte, a double
        elif kind == _BINARY:
            self._skip(self._varint())
        elif kind == _STRUCT:
            self.struct(depth + 1)
        elif kind in {_LIST, _SET}:
            self._list(depth + 1)
        else:
            raise ValueError("not a kind that a page header has")
        return None

    def _list(self, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()  # 15: the count follows
        for _ in range(min(count, len(self._raw) + 1)):
            if head & 15 in {1, 2}:
                self._skip(1)
            else:
                self._value(head & 15, depth)

    def _byte(self) -> int:
        self.at += 1
        return self._raw[self.at - 1]

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self._raw):
            raise IndexError

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
