"""What a record's stored body says about its row, and reading a row without believing what stands beside it."""

from __future__ import annotations

import json
from typing import Any

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.domain.merkle import leaf_hash
from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.tables import column_text

VERIFY_HINT = "Run 'pretrain-archive ledger verify'; restore a copy from before the change."
UNREADABLE = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
"""What reading a body of any other shape raises."""


def record_row(record: Record) -> tuple[Any, ...]:
    """The searchable columns of a record, as they follow from its stored body."""
    return (
        record.position,
        record.record_id,
        column_text(record.stream),
        record.sequence,
        record.kind,
        record.attempt,
        record.recorded_at,
    )


def edge_rows(record: Record) -> list[tuple[Any, ...]]:
    """The edge rows of a record, as they follow from its stored body."""
    return [
        (
            record.position,
            ordinal,
            column_text(str(edge.subject)),
            edge.relation.value,
            column_text(str(edge.object)),
            record.recorded_at,
        )
        for ordinal, edge in enumerate(record.edges)
    ]


def run_row(record: Record) -> tuple[Any, ...]:
    """The run row of a ``run.opened`` record, as it follows from its stored body."""
    payload = record.payload
    purpose = payload.get("purpose") or {}
    shown = [
        str(value or "")
        for value in (
            payload.get("project"),
            payload.get("dag_id"),
            payload.get("dag_run_id"),
            payload.get("submitter"),
            purpose.get("objective"),
        )
    ]
    search = "\n".join((record.stream, *shown)).casefold()
    return (
        column_text(record.stream),
        record.position,
        *map(column_text, shown),
        record.recorded_at,
        column_text(search),
    )


def read_record(position: int, stored: bytes, leaf: bytes) -> Record:
    """A record from its stored bytes, whose ``leaf`` was just computed from them."""
    return Record.from_body(json.loads(stored), position=position, stored=stored, leaf=leaf.hex())


def checked_record(position: int, stored: object, leaf: object) -> Record:
    """A record from its row; ``LedgerError`` names the row where the bytes do not have the leaf beside them.

    This shows an edit of one column. An edit of both is shown by :mod:`~pretrain_archive.ledger.proving`.
    """
    body, beside = plain_bytes(stored), plain_bytes(leaf)
    if body is None or beside is None or leaf_hash(body) != beside:
        raise LedgerError(
            f"Record {_name(body)} at position {position} was edited: its stored bytes do not have the leaf hash "
            "beside them. It is not believed.",
            hint=VERIFY_HINT,
        )
    try:
        return read_record(position, body, beside)
    except UNREADABLE as problem:
        raise LedgerError(
            f"Record {_name(body)} at position {position} was edited: its stored bytes are not a record ({problem}).",
            hint=VERIFY_HINT,
        ) from problem


def plain_bytes(value: object) -> bytes | None:
    """The bytes of a column that should hold some, None where it holds another type."""
    if type(value) is bytes:
        return value
    return bytes(value) if isinstance(value, bytearray | memoryview) else None


def _name(body: bytes | None) -> str:
    """The id that edited bytes claim, only to help a person to find the row."""
    try:
        return str(json.loads(body or b"")["record_id"])[:80]
    except UNREADABLE:
        return "(without a readable id)"
