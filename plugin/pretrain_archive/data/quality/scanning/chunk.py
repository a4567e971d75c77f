"""The result of one job: a Parquet row a document, and everything else as plain JSON.

Memory is bounded by :data:`ROWS` documents' numbers and by what the measures buffer. Findings are listed up to a
number per kind, and always counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pretrain_archive.data.quality.documents import NO_DATA
from pretrain_archive.data.quality.readers.base import Broken, Oversized, Text
from pretrain_archive.data.quality.scanning.meter import BASE, Meter, Row
from pretrain_archive.data.quality.scanning.plan import Measures

ROWS = 8192
"""Documents whose numbers are held before they are written."""

TOGETHER = 128
TOGETHER_BYTES = 1 << 20
"""Documents, and bytes of them, that are measured together."""

LISTED = 200
"""Findings of a kind that are listed."""

DOMAINS = 100_000
"""Domains that are counted apart; documents of further ones are counted under an empty name."""

_PLACE = re.compile(r"(?<![\w-])\d+\b")
_NAMES = list(BASE)
_DOMAIN, _BYTES, _TOKENS, _NUL = (_NAMES.index(name) for name in ("domain", "bytes", "tokens", "nul"))


class Chunk:
    """Takes in the units of a job's files; :meth:`close` gives what is not in the table."""

    def __init__(self, table: Path, sketch: Path, *, ordinal: int, measures: Measures) -> None:
        self._meter = Meter(measures, sketch)
        self._table = _Table(table, self._meter.columns)
        self._first = ordinal << 32
        self._held: list[Text] = []
        self._held_bytes = 0
        self._counts: Counter[str] = Counter(files=0, empty=0, broken=0, broken_files=0, bytes=0, tokens=0)
        self._not_read: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._found: Counter[str] = Counter()
        self._findings: dict[str, list[dict[str, Any]]] = {}
        self._domains: dict[str, list[int]] = {}
        self._last: dict[str, Any] = {}

    def add(self, units: Iterable[Text | Broken]) -> None:
        """Take in the units of a file or a range."""
        kind, before = NO_DATA, self._documents
        for unit in units:
            if isinstance(unit, Text):
                if unit.raw:
                    self._take(unit)
                else:
                    self._counts["empty"] += 1
                    self._find("empty", unit)
            elif isinstance(unit, Oversized):
                self._measure()
                self._find("oversized", unit, reason=unit.reason)
                self._count(self._meter.oversized(unit))
            else:
                kind = unit.kind
                self._broken(unit)
        documents = self._documents - before
        self._last = {"documents": documents, "kind": kind}
        self._counts["files"] += 1
        if not documents:
            self._not_read[kind] += 1

    def close(self) -> dict[str, Any]:
        """Write what is left and return everything else."""
        self._measure()
        self._meter.close()
        self._table.close()
        return {
            "rows": self._table.rows,
            "counts": dict(self._counts),
            "not_read": dict(self._not_read),
            "last": self._last,
            "reasons": dict(self._reasons),
            "found": dict(self._found),
            "findings": self._findings,
            "domains": self._domains,
        }

    @property
    def _documents(self) -> int:
        return self._table.rows + len(self._held)

    def _take(self, unit: Text) -> None:
        self._held.append(unit)
        self._held_bytes += len(unit.raw)
        if len(self._held) >= TOGETHER or self._held_bytes >= TOGETHER_BYTES:
            self._measure()

    def _measure(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        measured = self._meter.documents(held, self._first | self._table.rows)
        for unit, (row, places) in zip(held, measured, strict=True):
            if row[_NUL]:
                self._find("nul", unit, reason="has a NUL character, which no database text can hold")
            for kind, offset in places:
                self._find(f"sensitive_{kind}", unit, offset=offset)
            self._count(row)

    def _count(self, row: Row) -> None:
        name = row[_DOMAIN]
        domain = self._domains.get(name)
        if domain is None:
            name = name if len(self._domains) < DOMAINS else ""
            domain = self._domains.setdefault(name, [0, 0, 0])
        domain[0] += 1
        domain[1] += row[_BYTES]
        domain[2] += row[_TOKENS]
        self._counts["bytes"] += row[_BYTES]
        self._counts["tokens"] += row[_TOKENS]
        self._table.add(row)

    def _broken(self, unit: Broken) -> None:
        self._counts["broken"] += 1
        self._counts["broken_files"] += not unit.line
        # Numbers in a reason are places: without them there are few reasons, however many faults.
        self._reasons[_PLACE.sub("N", unit.reason)] += 1
        self._find("broken", unit, reason=unit.reason)

    def _find(self, kind: str, unit: Text | Broken, **more: Any) -> None:
        self._found[kind] += 1
        listed = self._findings.setdefault(kind, [])
        if len(listed) < LISTED:
            listed.append({"kind": kind, "path": unit.path, "line": unit.line, **more})


class _Table:
    """Rows of a Parquet file, written by some thousands."""

    def __init__(self, path: Path, columns: dict[str, str]) -> None:
        import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415
        import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

        special = {
            "name": pa.dictionary(pa.int32(), pa.string()),
            "digest": pa.binary(16),
            "bool": pa.bool_(),
        }
        self._types = [special.get(kind) or pa.type_for_alias(kind) for kind in columns.values()]
        schema = pa.schema(list(zip(columns, self._types, strict=True)))
        # Digests do not shrink; numbers do, at little cost.
        self._writer = pq.ParquetWriter(path, schema, compression="lz4")
        self._schema = schema
        self._held: list[Row] = []
        self.rows = 0

    def add(self, row: Row) -> None:
        self._held.append(row)
        self.rows += 1
        if len(self._held) >= ROWS:
            self._write()

    def close(self) -> None:
        self._write()
        self._writer.close()

    def _write(self) -> None:
        import pyarrow as pa  # noqa: PLC0415

        if self._held:
            columns = zip(*self._held, strict=True)
            arrays = [pa.array(values, kind) for values, kind in zip(columns, self._types, strict=True)]
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
            self._held = []
