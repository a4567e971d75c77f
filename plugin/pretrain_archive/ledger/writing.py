"""Appending: drafts are checked and hashed first, then placed in the log under one short lock."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from pretrain_archive.domain.errors import (
    AlreadyRecordedError,
    BehindAnchorError,
    IdempotencyConflictError,
    InputError,
    LedgerError,
    StreamMovedError,
)
from pretrain_archive.domain.identity import new_id, utc_now
from pretrain_archive.domain.kinds import KINDS
from pretrain_archive.domain.merkle import leaf_hash
from pretrain_archive.domain.records import UNRECORDED_FIELDS, Draft, Record
from pretrain_archive.ledger.encoding import encode, encode_new, raise_fault, shown
from pretrain_archive.ledger.engine import Session
from pretrain_archive.ledger.rows import (
    VERIFY_HINT,
    checked_record,
    edge_rows,
    plain_bytes,
    read_record,
    record_row,
    run_row,
)
from pretrain_archive.ledger.tables import column_text, key_hash
from pretrain_archive.ledger.tree import store_nodes

LONGEST_NAME = 2000
"""Bytes of a stream or reference: what PostgreSQL still holds in an index row."""

_LARGEST = 2**31 - 1
_CHUNK = 500
_ASSIGNED = ("record_id", "sequence", "previous", "recorded_at")

_RECORD = (
    "INSERT INTO pretrain_archive_record (position, record_id, stream, sequence, kind, attempt, recorded_at, "
    "idempotency_key, unique_key, leaf, previous, stored) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_EDGE = (
    "INSERT INTO pretrain_archive_edge (position, ordinal, subject, relation, object, recorded_at) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
_RUN = (
    "INSERT INTO pretrain_archive_run (run_uid, position, project, dag_id, dag_run_id, submitter, objective, "
    "opened_at, search) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_BY_KEY = "SELECT {key}, position, leaf, stored FROM pretrain_archive_record WHERE {key} IN ({marks})"
_TAIL = "SELECT position, recorded_at FROM pretrain_archive_record ORDER BY position DESC LIMIT 1"
_LAST_CHECKPOINT = "SELECT size FROM pretrain_archive_checkpoint ORDER BY number DESC LIMIT 1"
_HEAD = "SELECT sequence, leaf FROM pretrain_archive_record WHERE stream = ? ORDER BY sequence DESC LIMIT 1"
_RUN_OPENED = (
    "SELECT r.record_id FROM pretrain_archive_run u JOIN pretrain_archive_record r ON r.position = u.position "
    "WHERE u.run_uid = ?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A draft that passed every check which needs no database, with its hashed keys."""

    draft: Draft
    key: bytes
    unique: bytes | None


@dataclass(kw_only=True, slots=True)
class _Batch:
    """What one transaction is about to insert, and the state of the log that it grows from."""

    position: int
    now: str
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    records: list[tuple[Any, ...]] = field(default_factory=list)
    edges: list[tuple[Any, ...]] = field(default_factory=list)
    runs: list[tuple[Any, ...]] = field(default_factory=list)
    leaves: dict[int, bytes] = field(default_factory=dict)


def prepare(draft: Draft) -> Prepared:
    """Check a draft against its kind; ``InputError`` names the field that does not fit."""
    kind = KINDS.get(draft.kind)
    if kind is None:
        raise InputError("kind", draft.kind, "is not a kind of record", hint=f"Known: {', '.join(KINDS)}.")
    if draft.schema_version != kind.version:
        raise InputError("schema_version", draft.schema_version, f"{draft.kind} is written in {kind.version}")
    try:
        kind.model.model_validate(draft.payload)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        where = ".".join(map(str, (draft.kind, *first["loc"])))
        raise InputError(where, shown(first["input"]), first["msg"]) from problem
    except (OverflowError, RecursionError, ValueError) as problem:
        raise_fault(draft.payload, "payload")
        raise InputError("payload", shown(draft.payload), f"cannot be read: {problem}") from problem
    if draft.kind == "run.opened" and draft.payload["run_uid"] != draft.stream:
        raise InputError("stream", draft.stream, f"must be the run's uid {draft.payload['run_uid']!r}")
    raise_fault(draft.stream, "stream")
    for field_name, number in (("attempt", draft.attempt), ("ordinal", draft.ordinal)):
        if number > _LARGEST:
            raise InputError(field_name, shown(number), f"is larger than {_LARGEST}")
    for name in (draft.stream, *(str(end) for edge in draft.edges for end in (edge.subject, edge.object))):
        if len(name.encode("utf-8", "surrogatepass")) > LONGEST_NAME:
            raise InputError("name", name[:80] + "…", f"is longer than {LONGEST_NAME} bytes")
    return Prepared(
        draft=draft,
        key=key_hash(draft.idempotency_key()),
        unique=key_hash(draft.unique) if draft.unique else None,
    )


def bytes_of(prepared: Sequence[Prepared]) -> int:
    """How many bytes the records of these drafts have, without what the ledger assigns."""
    return sum(len(encode(_body(item.draft))) for item in prepared)


def append_in(session: Session, prepared: Sequence[Prepared], *, at_least: int | None = 0) -> list[Record]:
    """Place prepared drafts in the log; ``session`` holds the append lock. See ``Ledger.append``.

    ``at_least`` is the number of records that the caller has seen; None leaves out every comparison with
    what was there before, for a recovery.
    """
    tail = session.one(_TAIL)
    batch = _Batch(position=int(tail[0]) + 1 if tail else 0, now=utc_now())
    if at_least is not None:
        _refuse_behind(session, batch.position, at_least)
    known = _by_key(session, "idempotency_key", [item.key for item in prepared])
    new = [item for item in prepared if item.key not in known]
    uniques = [item.unique for item in new if item.unique is not None]
    taken = _by_key(session, "unique_key", uniques) if uniques else {}
    results: list[Record] = []
    for item in prepared:
        earlier = known.get(item.key)
        if earlier is None:
            _refuse_taken(session, item, taken)
            earlier = known[item.key] = _place(session, item, batch)
            if item.unique is not None:
                taken[item.unique] = earlier
        else:
            _require_same(item.draft, earlier)
        results.append(earlier)
    session.many(_RECORD, batch.records)
    session.many(_EDGE, batch.edges)
    session.many(_RUN, batch.runs)
    store_nodes(session, batch.leaves)
    return results


def _place(session: Session, item: Prepared, batch: _Batch) -> Record:
    """Give a draft its place in the log and in its stream, and hash it."""
    draft = item.draft
    stream = column_text(draft.stream)
    sequence, previous = _newest(session, batch, stream)
    seen = {column_text(other): newest for other, newest in draft.beside.items()}
    seen |= {} if draft.follows is None else {stream: draft.follows}
    for looked_at, before in seen.items():
        if (now := _newest(session, batch, looked_at)[0]) != before:
            raise StreamMovedError(
                f"The stream {looked_at} moved on: record {before} was its newest when {draft.kind} was checked, "
                f"now it is {now}.",
                hint="Look at what was recorded meanwhile and try again; nothing was written.",
            )
    body = _body(draft) | {
        "record_id": new_id("rec"),
        "sequence": sequence + 1,
        "previous": previous,
        "recorded_at": batch.now,
    }
    stored = encode_new(body)
    leaf = leaf_hash(stored)
    # Read back from the bytes, so that what a caller holds is what the ledger holds.
    record = read_record(batch.position, stored, leaf)
    batch.heads[stream] = (sequence + 1, leaf.hex())
    batch.leaves[batch.position] = leaf
    batch.records.append((*record_row(record), item.key, item.unique, leaf, bytes.fromhex(previous), stored))
    batch.edges.extend(edge_rows(record))
    if draft.kind == "run.opened":
        batch.runs.append(run_row(record))
    batch.position += 1
    return record


def _newest(session: Session, batch: _Batch, stream: str) -> tuple[int, str]:
    """Sequence and hex leaf of the newest record of a stream, counted what this batch adds; (-1, '') if it has none."""
    if stream not in batch.heads:
        row = session.one(_HEAD, (stream,))
        batch.heads[stream] = _head(stream, row) if row else (-1, "")
    return batch.heads[stream]


def _body(draft: Draft) -> dict[str, Any]:
    """The body of the record that a draft becomes, without what the ledger assigns."""
    body = Record(
        record_id="",
        position=0,
        sequence=0,
        previous="",
        recorded_at="",
        **{
            name: getattr(draft, name) for name in Draft.__dataclass_fields__ if name not in UNRECORDED_FIELDS
        },
    ).body()
    for name in _ASSIGNED:
        del body[name]
    return body


def _head(stream: str, row: tuple[Any, ...]) -> tuple[int, str]:
    """Sequence and hex leaf of the newest row of a stream."""
    leaf = plain_bytes(row[1])
    if not isinstance(row[0], int) or leaf is None:
        raise LedgerError(
            f"The newest record of {stream} has sequence {row[0]!r} and leaf {row[1]!r}: it was edited.",
            hint=VERIFY_HINT,
        )
    return row[0], leaf.hex()


def _by_key(session: Session, column: str, keys: Sequence[bytes]) -> dict[bytes, Record]:
    found: dict[bytes, Record] = {}
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start : start + _CHUNK]
        sql = _BY_KEY.format(key=column, marks=", ".join("?" * len(chunk)))
        for key, position, leaf, stored in session.all(sql, chunk):
            found[bytes(key)] = checked_record(int(position), stored, leaf)
    return found


def _require_same(draft: Draft, earlier: Record) -> None:
    """The known record of a repeated step must say what the step says now."""
    before = earlier.body()
    for name in _ASSIGNED:
        del before[name]
    now = _body(draft)
    if encode(before) != encode(now):
        names = sorted(name for name in now if encode({"": before[name]}) != encode({"": now[name]}))
        raise IdempotencyConflictError(
            f"The step already wrote record {earlier.record_id} ({draft.kind}) with other "
            f"{', '.join(names)}; it was kept and nothing was written.",
            hint="A new fact of the same step needs another ordinal, or a new try.",
        )


def _refuse_taken(session: Session, item: Prepared, taken: Mapping[bytes, Record]) -> None:
    if item.unique is not None and item.unique in taken:
        owner = taken[item.unique].record_id
        name = re.sub(r"[^\x20-\x7e]", "?", item.draft.unique)
        raise AlreadyRecordedError(f"The key {name!r} is taken by record {owner}.", record_id=owner)
    if item.draft.kind == "run.opened":
        row = session.one(_RUN_OPENED, (column_text(item.draft.stream),))
        if row is not None:
            raise AlreadyRecordedError(
                f"The run {item.draft.stream} is already open by record {row[0]}.", record_id=str(row[0])
            )


def _refuse_behind(session: Session, size: int, at_least: int) -> None:
    """Refuse where the database holds fewer records than its last checkpoint or this process has seen."""
    row = session.one(_LAST_CHECKPOINT)
    if row and not isinstance(row[0], int):
        raise LedgerError(
            f"The last checkpoint in the database is over {row[0]!r} records, expected a number: it was edited.",
            hint=VERIFY_HINT,
        )
    signed = row[0] if row else 0
    if size < max(signed, at_least):
        who = (
            f"its last checkpoint was signed over {signed}" if signed > size else f"{at_least} were seen here"
        )
        raise BehindAnchorError(
            f"The database holds {size} records, but {who}: records were removed, or an old copy was restored.",
            hint="Restore the newest copy, or sign a recovery record ('pretrain-archive ledger recover').",
        )
