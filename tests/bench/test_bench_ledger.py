"""The ledger against raw SQL with the same settings, rows and indexes: ratios within one run."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.ledgers import Place, draft
from tests.support.rounds import rounds

from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.records import Draft
from pretrain_archive.ledger.engine import WAL_SAFE
from pretrain_archive.ledger.migrate import migrate
from pretrain_archive.ledger.sql import SqlLedger

pytestmark = pytest.mark.bench

SINGLES = 150
BATCH = 5000
EDGES = 1_000_000
REACHED = 3_000

COLUMNS = 12
AT = "2026-11-29T10:00:00.000000Z"
BYTES = (b"l" * 32, b"p" * 32, b"{}")
RECORD = f"INSERT INTO pretrain_archive_record VALUES ({', '.join('?' * COLUMNS)})"


def table(title: str, rows: list[tuple[str, str]]) -> None:
    """Print a small table."""
    lines = [f"  {name:<46} {value:>16}" for name, value in rows]
    sys.stdout.write("\n".join(("", title, *lines, "")))


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A migrated SQLite file."""
    path = tmp_path / "template.db"
    migrate(f"sqlite:///{path}")
    return path


def raw(path: Path) -> sqlite3.Connection:
    """A raw connection with the journal settings of the ledger, and none of its triggers."""
    connection = sqlite3.connect(path, isolation_level=None)
    wal = sqlite3.sqlite_version_info >= WAL_SAFE
    connection.execute(f"PRAGMA journal_mode={'WAL' if wal else 'DELETE'}")
    connection.execute(f"PRAGMA synchronous={'FULL' if wal else 'EXTRA'}")
    connection.execute("PRAGMA mmap_size=0")
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    return connection


def rows_like(ledger: SqlLedger, count: int) -> list[tuple[object, ...]]:
    """Rows of the same sizes as the ledger's own, ready to be inserted elsewhere."""
    sample = ledger.append([draft(i, text="x" * 300) for i in range(count)])
    return [
        (
            record.position,
            record.record_id,
            record.stream,
            record.sequence,
            record.kind,
            record.attempt,
            record.recorded_at,
            os.urandom(32),
            None,
            bytes.fromhex(record.leaf),
            bytes.fromhex(record.previous),
            record.stored,
        )
        for record in sample
    ]


def fresh(template: Path, folder: Path) -> Iterator[Path]:
    """Copies of the template, one after another."""
    number = 0
    while True:
        number += 1
        path = folder / f"{number}.db"
        shutil.copy(template, path)
        yield path


def timed(act: Callable[[], object]) -> float:
    """Seconds of one call."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def open_at(path: Path) -> SqlLedger:
    """The ledger as a worker without key uses it; sealing is measured apart."""
    return Place(url=f"sqlite:///{path}", folder=path.parent).open(anchors=())


def drafts(count: int) -> list[Draft]:
    """Drafts with a payload of about 300 bytes."""
    return [draft(i, text="x" * 300) for i in range(count)]


def test_single_durable_appends(template: Path, tmp_path: Path) -> None:
    """One durable append per record keeps at least 60 % of the rate of raw inserts with the same indexes."""
    paths = fresh(template, tmp_path)
    rows = rows_like(open_at(next(paths)), SINGLES)
    ours: list[float] = []
    peers: list[float] = []
    for _ in rounds(lambda: min(peers) / min(ours) >= 0.60):
        ledger, connection = open_at(next(paths)), raw(next(paths))
        list(ledger.records(limit=1))  # the first connection is not measured
        todo = drafts(SINGLES)
        ours.append(timed(lambda ledger=ledger, todo=todo: [ledger.append([one]) for one in todo]))

        def insert(connection: sqlite3.Connection = connection) -> None:
            for row in rows:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(RECORD, row)
                connection.execute("COMMIT")

        peers.append(timed(insert))
        ledger.close()
        connection.close()
    ratio = min(peers) / min(ours)
    table(
        "Single durable appends, SQLite",
        [
            ("ledger", f"{SINGLES / min(ours):.0f}/s"),
            ("raw sqlite3, same row, indexes and journal", f"{SINGLES / min(peers):.0f}/s"),
            ("ratio (limit 60 %)", f"{ratio:.0%}"),
        ],
    )
    assert ratio >= 0.60


def test_batches(template: Path, tmp_path: Path) -> None:
    """A batch reaches at least a twelfth of raw executemany; the rate wanted is 5,000 records per second."""
    paths = fresh(template, tmp_path)
    rows = rows_like(open_at(next(paths)), BATCH)
    ours: list[float] = []
    peers: list[float] = []
    for _ in rounds(lambda: min(peers) / min(ours) >= 1 / 12):
        ledger, connection = open_at(next(paths)), raw(next(paths))
        todo = drafts(BATCH)
        ours.append(timed(lambda ledger=ledger, todo=todo: ledger.append(todo)))

        def insert(connection: sqlite3.Connection = connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(RECORD, rows)
            connection.execute("COMMIT")

        peers.append(timed(insert))
        ledger.close()
        connection.close()
    ratio = min(peers) / min(ours)
    table(
        "Batches of 5,000 records, SQLite",
        [
            ("ledger (wanted 5,000/s)", f"{BATCH / min(ours):.0f}/s"),
            ("raw executemany", f"{BATCH / min(peers):.0f}/s"),
            ("ratio", f"{ratio:.0%}"),
        ],
    )
    assert ratio >= 1 / 12


RAW_TRACE = """
WITH RECURSIVE reach(name) AS (
    SELECT ? UNION SELECT e.object FROM reach JOIN pretrain_archive_edge e ON e.subject = reach.name
)
SELECT e.subject, e.relation, e.object, r.record_id
FROM reach JOIN pretrain_archive_edge e ON e.subject = reach.name
JOIN pretrain_archive_record r ON r.position = e.position
"""


RAW_NODES = """
WITH RECURSIVE reach(name) AS (
    SELECT ? UNION SELECT e.object FROM reach JOIN pretrain_archive_edge e ON e.subject = reach.name
)
SELECT name FROM reach
"""


def fill_graph(path: Path) -> None:
    """A million edges: one reachable part of 3,000 nodes, and many others beside it."""
    source = random.Random(7)
    connection = raw(path)
    connection.execute("PRAGMA synchronous=OFF")
    per_record = 100
    connection.execute("BEGIN")
    connection.executemany(
        RECORD,
        (
            (i, f"rec_{i:036d}", "project/x", i, "note.added", 0, AT, i.to_bytes(32, "big"), None, *BYTES)
            for i in range(EDGES // per_record)
        ),
    )
    # Every part is a tree with as many nodes as the measured one: a parent below half of the child's number.
    edges = ((i // per_record, i % per_record, *_edge(i, source), AT) for i in range(EDGES))
    connection.executemany("INSERT INTO pretrain_archive_edge VALUES (?, ?, ?, ?, ?, ?)", edges)
    connection.execute("COMMIT")
    connection.close()


def _edge(i: int, source: random.Random) -> tuple[str, str, str]:
    part, place = divmod(i, REACHED)
    parent = source.randrange(place // 2, place + 1)
    return (f"checkpoint:{part}-{parent}", "was_derived_from", f"checkpoint:{part}-{place + 1}")


def test_backward_trace(template: Path, tmp_path: Path) -> None:
    """Finding 3,000 nodes among a million edges costs at most three times the raw recursive statement."""
    path = tmp_path / "graph.db"
    shutil.copy(template, path)
    fill_graph(path)
    ledger, connection = open_at(path), raw(path)
    ours: list[float] = []
    peers: list[float] = []
    bare: list[float] = []
    for part in range(100, 140):
        start = Ref.parse(f"checkpoint:{part}-0")
        found = ledger.trace(start, direction="backward")
        assert (REACHED, REACHED, False) == (len(found.nodes), len(found.edges), found.truncated)
        ours.append(timed(lambda start=start: ledger.trace(start, direction="backward")))
        connection.execute(RAW_TRACE, (str(start),)).fetchall()
        bare.append(timed(lambda start=start: connection.execute(RAW_NODES, (str(start),)).fetchall()))
        peers.append(timed(lambda start=start: connection.execute(RAW_TRACE, (str(start),)).fetchall()))
    ratio = statistics.median(ours) / statistics.median(peers)
    table(
        "Backward trace to 3,000 nodes in 1,000,000 edges, SQLite",
        [
            ("ledger, median", f"{statistics.median(ours) * 1000:.1f} ms"),
            ("ledger, p95", f"{statistics.quantiles(ours, n=20)[-1] * 1000:.1f} ms"),
            ("raw SQL, same edges and evidence, median", f"{statistics.median(peers) * 1000:.1f} ms"),
            ("raw SQL, bare names of nodes, median", f"{statistics.median(bare) * 1000:.1f} ms"),
            ("ratio (limit 3)", f"{ratio:.2f}"),
        ],
    )
    assert ratio <= 3
    ledger.close()
    connection.close()
