"""Verifying the whole log, streamed: rows, chains, projections, tree, checkpoints and anchors.

What needs no trust is compared with the stored bytes; what needs trust, with checkpoints signed by known keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pretrain_archive.domain.identity import parse_time, utc_now
from pretrain_archive.domain.merkle import Frontier
from pretrain_archive.ledger.anchors import Anchor
from pretrain_archive.ledger.checks import Chain, Row, rows_of
from pretrain_archive.ledger.engine import Database
from pretrain_archive.ledger.guards import missing_guards
from pretrain_archive.ledger.port import Audit, Finding
from pretrain_archive.ledger.reading import size_of
from pretrain_archive.ledger.rows import edge_rows, plain_bytes, run_row
from pretrain_archive.ledger.signing import VerifyKey
from pretrain_archive.ledger.statements import Recovery, Source, anchor_source, database_source
from pretrain_archive.ledger.tree import TILE, full_tile

_LEVELS = 8
CLOCK_TOLERANCE = timedelta(seconds=60)
"""Hosts that write to one ledger may differ by this much before it is worth a word."""

_EDGES = (
    "SELECT position, ordinal, subject, relation, object, recorded_at FROM pretrain_archive_edge "
    "WHERE position >= ? AND position < ? ORDER BY position, ordinal"
)
_RUNS = (
    "SELECT run_uid, position, project, dag_id, dag_run_id, submitter, objective, opened_at, search "
    "FROM pretrain_archive_run WHERE position >= ? AND position < ? ORDER BY position"
)
_NODES = "SELECT level, number, hash FROM pretrain_archive_node ORDER BY level, number"


@dataclass(kw_only=True, slots=True)
class _Walk:
    """What is gathered on the way through the log."""

    wanted: frozenset[int]
    findings: list[Finding] = field(default_factory=list)
    frontier: Frontier = field(default_factory=Frontier)
    roots: dict[int, str] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)
    tile: list[bytes] = field(default_factory=list)
    nodes: dict[tuple[int, int], bytes] = field(default_factory=dict)
    recoveries: list[Recovery] = field(default_factory=list)
    times: dict[int, datetime] = field(default_factory=dict)
    clock: datetime | None = None

    def mark(self, position: int, record_id: str) -> None:
        """Keep root and name where a statement ends: its root is compared, the next row named."""
        if position in self.wanted:
            self.roots[position] = self.frontier.root().hex()
            self.ids[position] = record_id

    def take(self, row: Row) -> None:
        """Add a row to the tree and note what is wrong with it."""
        self.mark(row.position, row.record_id)
        for problem in row.problems:
            self.report(row, problem)
        self.frontier.add(row.leaf)
        self.tile.append(row.leaf)
        if len(self.tile) == TILE:
            self.nodes[1, len(self.nodes)] = full_tile(self.tile)
            self.tile = []
        if row.record is None:
            return
        if row.record.kind == "ledger.recovered":
            self.recoveries.append(Recovery.of(row.record))
        self._clock(row, parse_time(row.record.recorded_at))

    def _clock(self, row: Row, moment: datetime) -> None:
        if row.position in self.wanted:
            self.times[row.position] = moment
        if self.clock is not None and moment < self.clock - CLOCK_TOLERANCE:
            self.report(
                row, f"clock: recorded {(self.clock - moment).total_seconds():.0f} s before an earlier record"
            )
        self.clock = max(moment, self.clock or moment)

    def report(self, row: Row, problem: str) -> None:
        """Note a problem of a row."""
        self.findings.append(Finding(record_id=row.record_id, position=row.position, problem=problem))


def audit(database: Database, *, anchors: Sequence[Anchor], keys: Sequence[VerifyKey]) -> Audit:
    """Verify everything and name each fault by its row; memory stays bounded by a page and the statements.

    ``verified`` needs a checkpoint signed by one of ``keys`` and no fault; ``changed`` is any fault;
    ``unrecorded`` is a log that nothing contradicts and nothing vouches for. A clock that went backwards and
    an anchor that cannot be reached are reported, and are no proof of a change.
    """
    # Statements before the size: what is signed meanwhile can then never seem to be ahead.
    sources = [database_source(database), *(anchor_source(anchor) for anchor in anchors)]
    size = database.attempt(lambda: _size(database))
    wanted = {entry.size for source in sources for entry in source.entries}
    walk = _Walk(wanted=frozenset(wanted | {0, size}))
    chain = Chain(start=0)
    at = 0
    for page in rows_of(database, chain, end=size):
        for row, _ in page:
            walk.take(row)
        until = page[-1][0].position + 1
        _compare_projections(database, walk, page, at, until)
        at = until
    walk.mark(size, "")
    _compare_projections(database, walk, [], at, None)
    _compare_nodes(database, walk)
    soft = _compare_statements(walk, sources, size, keys)
    walk.findings += database.attempt(lambda: _guards(database))
    return _verdict(walk, sources, size, keys, soft)


def _size(database: Database) -> int:
    with database.transaction() as session:
        return size_of(session)


def _guards(database: Database) -> list[Finding]:
    with database.transaction() as session:
        return missing_guards(session)


def _compare_projections(
    database: Database, walk: _Walk, page: Sequence[tuple[Row, Any]], start: int, end: int | None
) -> None:
    """Edges and runs of a range of positions must be exactly those of its records' stored bodies.

    ``end`` None is no end: SQLite sorts text, which a tampered position may be, behind every number.
    """
    records = [row.record for row, _ in page if row.record is not None]
    names = {row.position: row.record_id for row, _ in page}

    def read() -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        with database.transaction() as session:
            if end is None:
                edges, runs = (sql.replace("AND position < ? ", "") for sql in (_EDGES, _RUNS))
                return session.all(edges, (start,)), session.all(runs, (start,))
            return session.all(_EDGES, (start, end)), session.all(_RUNS, (start, end))

    edges, runs = database.attempt(read)
    wanted_edges = [edge for record in records for edge in edge_rows(record)]
    wanted_runs = [run_row(record) for record in records if record.kind == "run.opened"]
    pairs = (("edge", 0, wanted_edges, edges), ("run", 1, wanted_runs, runs))
    for table, column, wanted, found in pairs:
        there, due = {tuple(row) for row in found}, set(wanted)
        faults = [(row, f"its row in {table} is missing or was changed") for row in due - there]
        faults += [
            (row, f"the row in {table} at its position is not of its stored body") for row in there - due
        ]
        for row, problem in sorted(faults, key=lambda fault: (str(fault[0][column]), fault[1])):
            position = row[column] if isinstance(row[column], int) else None
            name = names.get(position or 0) if position is not None else None
            name = name or f"{table} at position {row[column]!r}"
            walk.findings.append(Finding(record_id=name, position=position, problem=problem))


def _compare_nodes(database: Database, walk: _Walk) -> None:
    """The stored inner hashes must be those of the leaves."""
    level = 1
    while count := sum(1 for key in walk.nodes if key[0] == level):
        for number in range(count // TILE):
            hashes = [walk.nodes[level, number * TILE + place] for place in range(TILE)]
            walk.nodes[level + 1, number] = full_tile(hashes)
        level += 1

    def read() -> dict[tuple[Any, Any], bytes | None]:
        with database.transaction() as session:
            return {(lv, number): plain_bytes(value) for lv, number, value in session.all(_NODES)}

    stored = database.attempt(read)
    for key in sorted(stored.keys() | walk.nodes.keys(), key=str):
        if key not in stored or stored[key] is None or stored[key] != walk.nodes.get(key):
            whole = all(isinstance(part, int) and 0 <= part < 1 << 48 for part in key) and key[0] < _LEVELS
            position = key[1] * TILE ** key[0] if whole else None
            problem = f"the tree's stored hash of level {key[0]} is not that of its records"
            walk.findings.append(
                Finding(record_id=f"node {key[0]}/{key[1]}", position=position, problem=problem)
            )


def _compare_statements(
    walk: _Walk, sources: Sequence[Source], size: int, keys: Sequence[VerifyKey]
) -> list[Finding]:
    """Compare every checkpoint with the log; returns findings that prove no change."""
    soft: list[Finding] = []
    stored = bool(sources[0].entries)
    for source in sources:
        if source.unreachable:
            soft.append(Finding(record_id=source.name, problem=f"cannot be reached: {source.unreachable}"))
        elif stored and not source.entries:
            soft.append(Finding(record_id=source.name, problem="holds no checkpoint, the database does"))
        walk.findings.extend(source.problems)
        walk.findings.extend(source.unsigned(keys))
        walk.findings.extend(
            source.contradictions(walk.roots, walk.ids, size=size, recoveries=walk.recoveries)
        )
        if source is not sources[0]:
            walk.findings.extend(source.unknown_to(sources[0], walk.roots, walk.recoveries, keys))
    return soft


def _verdict(
    walk: _Walk, sources: Sequence[Source], size: int, keys: Sequence[VerifyKey], soft: list[Finding]
) -> Audit:
    changed = [finding for finding in walk.findings if not finding.problem.startswith("clock:")]
    vouched = max((source.vouched(walk.roots, keys) for source in sources), default=0)
    anchored = max((source.vouched(walk.roots, keys or None) for source in sources[1:]), default=0)
    oldest = walk.times.get(anchored) if anchored < size else None
    now = parse_time(utc_now())
    return Audit(
        verdict="changed" if changed else "verified" if vouched else "unrecorded",
        records=walk.frontier.size,
        findings=tuple(sorted([*walk.findings, *soft], key=_order)),
        unanchored_records=size - anchored,
        unanchored_seconds=max(0.0, (now - oldest).total_seconds()) if oldest else 0.0,
        anchors=tuple(source.name for source in sources[1:]),
    )


def _order(finding: Finding) -> int:
    return finding.position if finding.position is not None else 1 << 62
