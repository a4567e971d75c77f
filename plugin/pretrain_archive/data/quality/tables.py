"""Gather the units of all files into columns: one row a document, one a broken unit, one a domain.

The columns of :data:`DOCUMENT_COLUMNS` are what a suite of expectations can name. Memory grows with the
number of documents (some 200 bytes each), never with their size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.data.hashing import Progress
from pretrain_archive.data.quality.aggregates import Plan, summarise, total
from pretrain_archive.data.quality.documents import Shard, read_units
from pretrain_archive.data.quality.engine_local import LocalJudge, in_batches
from pretrain_archive.data.quality.facts import Facts
from pretrain_archive.data.quality.suite import Suite
from pretrain_archive.data.quality.documents import NO_DATA, Broken, Document, Unit
from pretrain_archive.data.quality.statistics import Statistics

EXAMPLES = 200
"""How many faults of a kind a report lists; their number is always told."""

DOCUMENT_COLUMNS = (
    "path",
    "line",
    "domain",
    "sha256",
    "bytes",
    "characters",
    "lines",
    "longest_line",
    "nul",
    "control_characters",
    "alphabetic_ratio",
    "repetition_ratio",
    "duplicate",
    "clean",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleanliness:
    """What makes a document unclean. The defaults are wide: they find damage, not bad style.

    Gopher's rules (Rae et al. 2021, arXiv:2112.11446, table A1) drop documents with more than 30 % of
    repeated lines; source code repeats far more, so only half and more counts here.
    """

    max_control_characters: int = 0
    min_alphabetic_ratio: float = 0.1
    max_repetition_ratio: float = 0.5
    max_line_bytes: int = 100_000
    ratios_from_bytes: int = 1000

    def faults(self, found: Statistics) -> list[str]:
        """Why a document is unclean, empty if it is clean. Ratios of short documents mean nothing."""
        long = found.bytes >= self.ratios_from_bytes
        tests = (
            ("nul", found.nul > 0),
            ("control characters", found.control_characters - found.nul > self.max_control_characters),
            ("few letters", long and found.alphabetic_ratio < self.min_alphabetic_ratio),
            ("repeated lines", long and found.repetition_ratio > self.max_repetition_ratio),
            ("overlong line", found.longest_line > self.max_line_bytes),
        )
        return [name for name, broken in tests if broken]


@dataclass(kw_only=True)
class Tables:
    """Columns and totals of everything that was read."""

    rules: Cleanliness = field(default_factory=Cleanliness)
    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in DOCUMENT_COLUMNS})
    shards: int = 0
    empty: int = 0
    broken: int = 0
    duplicates: int = 0
    unclean: int = 0
    domains: dict[str, int] = field(default_factory=dict)
    not_read: dict[str, int] = field(default_factory=dict)
    broken_examples: list[dict[str, Any]] = field(default_factory=list)
    duplicate_examples: list[dict[str, Any]] = field(default_factory=list)
    unclean_examples: list[dict[str, Any]] = field(default_factory=list)
    _first: dict[bytes, tuple[str, int]] = field(default_factory=dict)

    @property
    def documents(self) -> int:
        """Documents with at least one byte."""
        return len(self.columns["path"])

    @property
    def total_bytes(self) -> int:
        """Bytes of all documents."""
        return sum(self.domains.values())

    def add(self, units: Iterable[Unit]) -> None:
        """Take in the units of one more file."""
        self.shards += 1
        kind, before = NO_DATA, self.documents
        for unit in units:
            if isinstance(unit, Broken):
                self.broken += 1
                kind = unit.kind
                _keep(self.broken_examples, {"file": unit.path, "line": unit.line, "reason": unit.reason})
            elif not unit.statistics.bytes:
                self.empty += 1
            else:
                self._document(unit)
        if self.documents == before:
            self.not_read[kind] = self.not_read.get(kind, 0) + 1

    def shares(self) -> dict[str, float]:
        """Each domain's share of all bytes."""
        return {name: size / self.total_bytes for name, size in sorted(self.domains.items())}

    def _document(self, unit: Document) -> None:
        found = unit.statistics
        domain = unit.path.partition("/")[0] if "/" in unit.path else "."
        self.domains[domain] = self.domains.get(domain, 0) + found.bytes
        first = self._first.setdefault(bytes.fromhex(found.sha256[7:]), (unit.path, unit.line))
        duplicate = first != (unit.path, unit.line)
        faults = self.rules.faults(found)
        place = {"file": unit.path, "line": unit.line}
        if duplicate:
            self.duplicates += 1
            _keep(self.duplicate_examples, {**place, "same_as": {"file": first[0], "line": first[1]}})
        if faults:
            self.unclean += 1
            _keep(self.unclean_examples, {**place, "reasons": faults})
        values = {name: getattr(found, name) for name in DOCUMENT_COLUMNS[3:12]}
        values |= {"path": unit.path, "line": unit.line, "domain": domain}
        values |= {"duplicate": duplicate, "clean": not faults}
        for name, column in self.columns.items():
            column.append(values[name])


def _keep(examples: list[dict[str, Any]], example: dict[str, Any]) -> None:
    if len(examples) < EXAMPLES:
        examples.append(example)


def document_columns() -> tuple[str, ...]:
    """The statistics of a document that a rule may name."""
    return DOCUMENT_COLUMNS


def facts_of(
    shards: Iterable[Shard], suite: Suite, text_field: str, progress: Progress | None
) -> tuple[Facts, Plan]:
    """Read every shard on this machine."""
    import pyarrow as pa  # noqa: PLC0415

    tables, size = Tables(), 0
    for shard in shards:
        tables.add(read_units(shard, text_field=text_field))
        size += shard.size
        if progress is not None:
            progress(tables.shards, size)
    table = pa.table({name: pa.array(column) for name, column in tables.columns.items()})
    columns = frozenset(DOCUMENT_COLUMNS)
    plan = Plan(
        thresholds=suite.thresholds,
        rules=tuple(r for r in suite.rules if r.table == "documents"),
        columns=columns,
    )
    summary = total(summarise(part, plan) for part in in_batches(table.select(plan.names())))
    judge = LocalJudge(lambda names: in_batches(table.select(list(names))), plan)
    return Facts(
        judge=judge,
        summary=summary,
        columns=columns,
        files=tables.shards,
        documents=tables.documents,
        total_bytes=tables.total_bytes,
        empty=tables.empty,
        broken=tables.broken,
        exact_duplicates=tables.duplicates,
        not_read=tables.not_read,
        examples={
            "format_errors": tables.broken_examples,
            "exact_duplicates": tables.duplicate_examples,
            "unclean_documents": tables.unclean_examples,
        },
    ), plan
