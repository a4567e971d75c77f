"""Reading very many records without building them: bodies as plain JSON, and the edges that end at a type of thing.

A body is compared with the leaf beside it, as everywhere: what was edited is not believed. That takes a fifth of what
building all values of a body takes, so what is saved is saved there: of a kind whose ``fields`` are named only those
are built.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from pydantic_core import SchemaValidator, core_schema, from_json

from pretrain_archive.domain.merkle import leaf_hash
from pretrain_archive.ledger import beside
from pretrain_archive.ledger.engine import Database
from pretrain_archive.ledger.rows import UNREADABLE, checked_record
from pretrain_archive.ledger.tables import from_column

PAGE = 2000
"""Rows per read; a page is one short transaction, and some megabytes."""
WINDOW = 20_000
"""Positions per read of edges."""


Body = Mapping[str, Any]
Parse = Callable[[bytes], Any]


def read_bodies(
    database: Database,
    *,
    kinds: Collection[str],
    after: int,
    fields: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[tuple[int, Body]]:
    """See ``Ledger.bodies``; ``LedgerError`` names a row that is not what was appended.

    Each kind is read along its index and the streams are merged: one read of many kinds would sort whole bodies.
    """
    wanted = fields or {}
    streams = [_of_kind(database, kind, after, tuple(wanted.get(kind, ()))) for kind in dict.fromkeys(kinds)]
    return heapq.merge(*streams, key=_position) if len(streams) != 1 else streams[0]


def _of_kind(
    database: Database, kind: str, after: int, fields: tuple[str, ...]
) -> Iterator[tuple[int, Body]]:
    """All behind a position, in pages; of a long log with the help of other processes, if only some fields count."""
    [(newest,)] = _rows(database, _NEWEST, []) if fields else [(after,)]
    if newest - after >= beside.FROM:
        yield from beside.read_beside(database, kind, (after, newest), fields, read_window)
        after = newest
    parse = parser(fields)
    while True:
        rows = _rows(database, f"{_BODIES} ORDER BY position LIMIT ?", [kind, after, PAGE])
        for position, stored, leaf in rows:
            yield int(position), _body(int(position), stored, leaf, kind, parse)
        if len(rows) < PAGE:
            return
        after = int(rows[-1][0])


def read_window(
    database: Database, kind: str, window: tuple[int, int], fields: Sequence[str]
) -> list[tuple[int, Body]]:
    """Position and body of what lies behind one position and not behind another, oldest first."""
    parse = parser(tuple(fields))
    rows = _rows(database, f"{_BODIES} AND position <= ? ORDER BY position", [kind, *window])
    return [
        (int(position), _body(int(position), stored, leaf, kind, parse)) for position, stored, leaf in rows
    ]


def _body(position: int, stored: Any, leaf: Any, kind: str, parse: Parse) -> Body:
    body = bytes(stored) if isinstance(stored, bytes | bytearray | memoryview) else b""
    try:
        if leaf_hash(body) == bytes(leaf):
            found: Body = parse(body)
            if found["kind"] == kind:
                return found
    except UNREADABLE:
        pass
    record = checked_record(position, stored, leaf)  # it says what is wrong with the row
    if record.kind != kind:
        checked_record(position, b"", leaf)
    return record.body()


@functools.lru_cache
def parser(fields: tuple[str, ...]) -> Parse:
    """What turns a stored body into values: all of them, or only ``fields`` and the kind.

    A field is a name, names of objects within each other joined by points, or ``list[].name``.
    """
    if not fields:
        return from_json
    tree: dict[str, Any] = {"kind": {}}
    for path in fields:
        below = tree
        for name in path.replace("[].", ".[].").split("."):
            below = below.setdefault(name, {})
    return SchemaValidator(_schema(tree)).validate_json


def _schema(tree: Mapping[str, Any]) -> core_schema.CoreSchema:
    """A shape that lets every value pass and leaves out what the tree does not name."""
    if not tree:
        return core_schema.any_schema()
    if "[]" in tree:
        return core_schema.list_schema(_schema(tree["[]"]))
    known = {
        name: core_schema.typed_dict_field(_schema(below), required=False) for name, below in tree.items()
    }
    return core_schema.typed_dict_schema(known, extra_behavior="ignore")


_position = itemgetter(0)
_BODIES = "SELECT position, stored, leaf FROM pretrain_archive_record WHERE kind = ? AND position > ?"
_NEWEST = "SELECT COALESCE(MAX(position), -1) FROM pretrain_archive_record"
_LINKS = (
    "SELECT e.object, e.subject, e.position, e.ordinal, r.stream FROM pretrain_archive_edge e "
    "JOIN pretrain_archive_record r ON r.position = e.position WHERE "
)


def read_links(
    database: Database, object_type: str, subject_type: str = "", *, after: int
) -> Iterator[tuple[str, str, str]]:
    """See ``Ledger.links``.

    All of them are read along the index on the object where texts sort by bytes (SQLite); what is new, and
    everything on a server with a collation of its own, in windows of positions.
    """
    if after < 0 and not database.postgres:
        return _along_index(database, object_type, _prefix(subject_type))
    return _in_windows(database, f"{object_type}:", _prefix(subject_type), after)


def _prefix(kind: str) -> str:
    """How references of a type begin; empty for every type."""
    return f"{kind}:" if kind else ""


def _along_index(database: Database, object_type: str, subjects: str) -> Iterator[tuple[str, str, str]]:
    sql = (
        f"{_LINKS}(e.object, e.subject, e.position, e.ordinal) > (?, ?, ?, ?) AND e.object < ? "
        "AND substr(e.subject, 1, ?) = ? ORDER BY e.object, e.subject, e.position, e.ordinal LIMIT ?"
    )
    place: list[Any] = [f"{object_type}:", "", -1, -1]
    while True:
        rows = _rows(
            database, sql, [*place, f"{object_type};", len(subjects), subjects, PAGE]
        )  # ';' is the byte behind ':'
        for object_, subject, _, _, stream in rows:
            yield from_column(subject), from_column(object_), from_column(stream)
        if len(rows) < PAGE:
            return
        place = list(rows[-1][:4])


def _in_windows(
    database: Database, objects: str, subjects: str, after: int
) -> Iterator[tuple[str, str, str]]:
    sql = (
        f"{_LINKS}e.position > ? AND e.position <= ? AND substr(e.object, 1, ?) = ? AND substr(e.subject, 1, ?) = ? "
        "ORDER BY e.position"
    )
    fixed = [len(objects), objects, len(subjects), subjects]
    [(newest,)] = _rows(database, _NEWEST, [])
    for start in range(after, int(newest), WINDOW):
        for object_, subject, _, _, stream in _rows(database, sql, [start, start + WINDOW, *fixed]):
            yield from_column(subject), from_column(object_), from_column(stream)


def _rows(database: Database, sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
    def read() -> list[tuple[Any, ...]]:
        with database.transaction() as session:
            return session.all(sql, parameters)

    return database.attempt(read)
