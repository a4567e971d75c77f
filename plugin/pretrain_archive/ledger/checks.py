"""Whether a row of the log is what its stored bytes say; the same check for sealing and for the audit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.merkle import leaf_hash
from pretrain_archive.domain.records import UNRECORDED_FIELDS, Draft, Record
from pretrain_archive.ledger.engine import Database, Session
from pretrain_archive.ledger.rows import UNREADABLE, plain_bytes, read_record, record_row, run_row
from pretrain_archive.ledger.tables import column_text, key_hash

PAGE = 500
COLUMNS = (
    "position",
    "record_id",
    "stream",
    "sequence",
    "kind",
    "attempt",
    "recorded_at",
    "idempotency_key",
    "unique_key",
    "leaf",
    "previous",
    "stored",
)
_ROWS = (
    f"SELECT {', '.join(COLUMNS)} FROM pretrain_archive_record "  # noqa: S608 - constants only
    "WHERE position >= ? AND position < ? ORDER BY position LIMIT ?"
)
_HEAD_BEFORE = (
    "SELECT sequence, leaf FROM pretrain_archive_record WHERE stream = ? AND position < ? "
    "ORDER BY sequence DESC LIMIT 1"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A row as it stands: the record that its stored bytes hold (None if they hold none) and its leaf."""

    position: int
    record_id: str
    record: Record | None
    leaf: bytes
    problems: tuple[str, ...]


@dataclass(kw_only=True, slots=True)
class Chain:
    """Follows rows in order of position and remembers the head of every stream.

    ``start`` is the first position that is looked at; heads before it are read from the database.
    """

    start: int
    next: int = field(init=False)
    heads: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.next = self.start

    def check(self, session: Session, row: tuple[Any, ...]) -> Row:
        """Compare a row with its stored bytes, with its place and with the record before it."""
        position, stored, problems = int(row[0]), plain_bytes(row[11]), list[str]()
        if position != self.next:
            missing = str(self.next) if position == self.next + 1 else f"{self.next} to {position - 1}"
            problems.append(f"the record at position {missing} before this one is missing")
        self.next = position + 1
        if stored is None:
            problems.append(f"column stored was changed: it holds {type(row[11]).__name__}, expected bytes")
            stored = str(row[11]).encode("utf-8", "surrogatepass")
        leaf = leaf_hash(stored)
        if leaf != plain_bytes(row[9]):
            problems.append("the stored bytes do not have the leaf hash beside them: the row was edited")
        try:
            record = _whole(read_record(position, stored, leaf))
            differing = list(_columns_that_differ(record, row))
        except UNREADABLE as problem:
            problems.append(f"the stored bytes are not a record: {problem}")
            return Row(
                position=position, record_id=str(row[1]), record=None, leaf=leaf, problems=tuple(problems)
            )
        problems += differing
        problems += self._chain(session, record, leaf)
        return Row(
            position=position, record_id=record.record_id, record=record, leaf=leaf, problems=tuple(problems)
        )

    def _chain(self, session: Session, record: Record, leaf: bytes) -> Iterator[str]:
        stream = column_text(record.stream)
        head = self.heads.get(stream)
        if head is None:
            found = session.one(_HEAD_BEFORE, (stream, self.start)) if self.start else None
            head = _head_of(found) if found else (-1, b"")
        if record.sequence != head[0] + 1:
            yield f"it is number {record.sequence} of {record.stream}, expected {head[0] + 1}"
        elif record.previous != head[1].hex():
            yield f"it does not continue the record before it in {record.stream}"
        self.heads[stream] = (record.sequence, leaf)


def _head_of(row: tuple[Any, ...]) -> tuple[int, bytes]:
    """Sequence and leaf of a stream's newest row; where they are of another type nothing can continue it."""
    number, leaf = row[0], plain_bytes(row[1])
    return (number, leaf) if isinstance(number, int) and leaf is not None else (-2, b"")


def _whole(record: Record) -> Record:
    """The record if every field has its type; one of :data:`UNREADABLE` else."""
    texts = (record.record_id, record.stream, record.kind, record.previous, record.recorded_at, record.unique)
    numbers = (record.sequence, record.attempt, record.ordinal, record.schema_version)
    if not all(type(text) is str for text in texts) or not all(type(number) is int for number in numbers):
        raise TypeError("a field has another type")
    if not isinstance(record.payload, dict):
        raise TypeError("the payload is not an object")
    bytes.fromhex(record.previous)
    parse_time(record.recorded_at)
    if record.kind == "run.opened":
        run_row(record)
    if record.kind == "ledger.recovered":
        int(record.payload["anchored_size"])
    return record


def _columns_that_differ(record: Record, row: tuple[Any, ...]) -> Iterator[str]:
    """Name every column that is not the copy of the stored body it should be."""
    kept = Draft.__dataclass_fields__.keys() - UNRECORDED_FIELDS
    draft = Draft(**{name: getattr(record, name) for name in kept})
    expected = (
        *record_row(record),
        key_hash(draft.idempotency_key()),
        key_hash(record.unique) if record.unique else None,
        None,  # the leaf is compared apart
        bytes.fromhex(record.previous),
    )
    for name, wanted, found in zip(COLUMNS, expected, row, strict=False):
        plain = bytes(found) if isinstance(found, memoryview) else found
        if name != "leaf" and plain != wanted:
            shown = (repr(wanted), repr(plain)) if isinstance(plain, str | int) else ("its hash", "another")
            yield f"column {name} was changed: expected {shown[0]}, found {shown[1]}"


def rows_of(database: Database, chain: Chain, *, end: int) -> Iterator[list[tuple[Row, tuple[Any, ...]]]]:
    """Yield pages of checked rows from the chain's start to ``end`` (excluded), each in a short read."""
    at = chain.start

    def page() -> list[tuple[Row, tuple[Any, ...]]]:
        before = (chain.next, dict(chain.heads))
        with database.transaction() as session:
            rows = session.all(_ROWS, (at, end, PAGE))
            try:
                return [(chain.check(session, row), row) for row in rows]
            except BaseException:
                chain.next, chain.heads = before
                raise

    while at < end:
        rows = database.attempt(page)
        if not rows:
            return
        yield rows
        at = rows[-1][0].position + 1
