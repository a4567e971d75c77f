"""Columns of another type than the ledger's are findings at their row; SQLite lets an owner write them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.ledgers import Place, as_owner, draft, edge, run_opened

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.domain.merkle import leaf_hash
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.engine import Session
from pretrain_archive.ledger.sql import SqlLedger

AT = 5
BODY = {
    "format": "pretrain-archive/record/1", "record_id": "rec_x", "stream": "project/demo", "sequence": 5,
    "previous": "", "kind": "note.added", "schema_version": 1, "attempt": 0, "ordinal": 0, "payload": {},
    "actor": {"type": "cli", "name": "x"}, "recorded_at": "2026-11-29T10:00:00.000000Z", "edges": [], "unique": "",
    "origin": {"dag_id": "d", "dag_run_id": "r", "task_id": "t"},
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, sqlite_template: Path) -> Place:
    """SQLite alone: PostgreSQL's columns have types."""
    shutil.copy(sqlite_template, tmp_path / "ledger.db")
    return Place(url=f"sqlite:///{tmp_path}/ledger.db", folder=tmp_path)


@pytest.fixture(params=["sealed", "open"])
def filled(request: pytest.FixtureRequest, place: Place) -> SqlLedger:
    """A log whose rows are sealed, or were not seen by a seal."""
    ledger = place.open()
    if request.param == "open":
        ledger.append([draft(5000)])
        ledger.seal()
    ledger.append([run_opened("run_1"), *(draft(i, edges=(edge("run:a", "run:b"),)) for i in range(300))])
    if request.param == "sealed":
        ledger.seal()
    return ledger


def column(name: str, sql: str, table: str = "record") -> str:
    """Set a column of the row to an SQL expression."""
    return f"UPDATE pretrain_archive_{table} SET {name} = {sql} WHERE position = {AT}"


def body(**changes: object) -> Callable[[Session], None]:
    """Another body with a leaf that fits it."""

    def act(session: Session) -> None:
        stored = canonical_bytes(BODY | changes)
        session.run(
            f"UPDATE pretrain_archive_record SET stored = ?, leaf = ? WHERE position = {AT}",
            (stored, leaf_hash(stored)),
        )

    return act


ROWS: dict[str, str | Callable[[Session], None]] = {
    "stored is text": column("stored", "CAST(stored AS TEXT)"),
    "stored is empty text": column("stored", "''"),
    "stored is a number": column("stored", "5"),
    "stored is a real": column("stored", "0.5"),
    "leaf is text": column("leaf", "'x'"),
    "leaf is a number": column("leaf", "7"),
    "previous is text": column("previous", "'x'"),
    "sequence is text": column("sequence", "'abc'"),
    "attempt is text": column("attempt", "'abc'"),
    "record_id is bytes": column("record_id", "x'fffe'"),
    "recorded_at is bytes": column("recorded_at", "x'ff'"),
    "key is text": column("idempotency_key", "'x'"),
    "body's stream is a number": body(stream=5),
    "body's payload is a list": body(payload=[]),
    "body's previous is no hex": body(previous="zz"),
    "body's time is none": body(recorded_at="yesterday"),
    "body's sequence is text": body(sequence="a"),
    "body opens a run without a shape": body(kind="run.opened", payload={"purpose": "x"}),
    "body recovers without a size": body(kind="ledger.recovered"),
    "body is deep": lambda session: session.run(
        f"UPDATE pretrain_archive_record SET stored = ? WHERE position = {AT}", (b"[" * 100_000,)
    ),
    "edge's position is text": f"UPDATE pretrain_archive_edge SET position = 'abc' WHERE position = {AT}",
    "run's position is text": "UPDATE pretrain_archive_run SET position = 'abc'",
    "node is text": "UPDATE pretrain_archive_node SET hash = 'abc'",
    "node's level is text": "UPDATE pretrain_archive_node SET level = 'abc'",
    "checkpoint's size is text": "UPDATE pretrain_archive_checkpoint SET size = 'abc'",
    "checkpoint's note is bytes": "UPDATE pretrain_archive_checkpoint SET note = x'ff'",
}


@pytest.mark.parametrize("name", ROWS)
def test_other_type_is_a_finding(place: Place, filled: SqlLedger, name: str) -> None:
    """The audit names the row; sealing and appending go on or refuse in words, and nothing raises raw."""
    act = ROWS[name]
    with as_owner(place) as session:
        act(session) if callable(act) else session.run(act)
    found = filled.audit()
    assert "changed" == found.verdict
    if "UPDATE pretrain_archive_record" in str(act) or callable(act):
        assert AT in [finding.position for finding in found.findings], found.findings
    for go_on in (lambda: filled.append([draft(9000)]), filled.seal, lambda: list(filled.records())):
        with contextlib.suppress(LedgerError):
            go_on()
