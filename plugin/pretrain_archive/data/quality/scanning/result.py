"""What a scan found. Everything is on disk; what is asked for is read, and no more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain_archive.data.quality.scanning.chunk import DOMAINS, LISTED
from pretrain_archive.data.quality.scanning.meter import columns_of
from pretrain_archive.data.quality.scanning.plan import Measures

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

NUMBER = "number"
"""A column that is not stored: the document's number in the sketches (job ordinal, then row in 32 bits)."""


@dataclass(kw_only=True, slots=True)
class Totals:
    """Numbers of the whole data.

    ``files`` are all files, ``not_read`` those without a document by kind; ``documents`` those with a byte of
    text, ``empty`` those without; ``broken`` units by ``reasons`` (places in a reason are written ``N``), of them
    ``broken_files`` that are at fault as a whole, however much was read of them; ``bytes`` and ``tokens`` of the
    documents; ``domains`` documents, bytes and tokens of each; ``found`` findings by kind, also unlisted ones.
    """

    files: int = 0
    documents: int = 0
    empty: int = 0
    broken: int = 0
    broken_files: int = 0
    bytes: int = 0
    tokens: int = 0
    not_read: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    domains: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def add(self, meta: dict[str, Any]) -> None:
        """Add what one job found; the files of a divided one are counted by :class:`Scan`."""
        counts = meta["counts"]
        self.documents += meta["rows"]
        for name in ("empty", "broken", "broken_files", "bytes", "tokens"):
            setattr(self, name, getattr(self, name) + counts[name])
        self.reasons.update(meta["reasons"])
        self.found.update(meta["found"])
        for name, numbers in meta["domains"].items():
            known = name if name in self.domains or len(self.domains) < DOMAINS else ""
            old = self.domains.get(known, (0, 0, 0))
            self.domains[known] = (old[0] + numbers[0], old[1] + numbers[1], old[2] + numbers[2])


@dataclass(frozen=True, kw_only=True)
class Scan:
    """The result of a scan: its folder, its jobs' results by name in order, and its measures.

    ``use`` tells CPU seconds and peak memory in bytes of each job that was measured now and not taken over from a
    scan that was interrupted.
    """

    folder: Path
    names: tuple[str, ...]
    measures: Measures
    use: tuple[dict[str, float], ...] = ()

    @cached_property
    def totals(self) -> Totals:
        """Numbers of the whole data."""
        made = Totals()
        divided: dict[str, Any] | None = None
        for meta in self._metas():
            made.add(meta)
            if meta["divided"] is None:
                made.files += meta["counts"]["files"]
                made.not_read.update(meta["not_read"])
                continue
            if divided is None or meta["divided"]["start"] == 0:
                _end_file(made, divided)
                divided = {"documents": 0, "kind": ""}
            divided["documents"] += meta["last"]["documents"]
            divided["kind"] = meta["last"]["kind"]
        _end_file(made, divided)
        return made

    @property
    def sketches(self) -> list[Path]:
        """The near-duplicate sketches, one a job; empty if none were asked for."""
        if self.measures.near_duplicates is None:
            return []
        return [self.folder / f"{name}.sketch" for name in self.names]

    @property
    def column_names(self) -> list[str]:
        """The names that :meth:`columns` knows."""
        return [*columns_of(self.measures), NUMBER]

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """The documents with the columns ``names``, a table for each job, in order."""
        base, path = 0, ""
        for ordinal, (name, meta) in enumerate(zip(self.names, self._metas(), strict=True)):
            divided = meta["divided"]
            if divided is not None and divided["start"] == 0:
                base, path = 0, divided["path"]
            moved = base if divided is not None and divided["path"] == path else 0
            yield self._table(name, names, ordinal=ordinal, base=moved)
            base += divided["lines"] if divided is not None else 0

    def columns(self, names: Sequence[str]) -> pa.Table:
        """One row a document with the columns ``names``; they alone are read. ``KeyError`` for an unknown one."""
        import pyarrow as pa  # noqa: PLC0415

        tables = list(self.batches(names))
        if not tables:
            kinds = {"bytes": pa.int64()}
            return pa.table({name: pa.array([], kinds.get(name, pa.null())) for name in names})
        return pa.concat_tables(tables).unify_dictionaries()

    def findings(self) -> Iterator[dict[str, Any]]:
        """Broken units and located findings: ``kind``, ``path``, ``line``, and ``reason`` or ``offset``.

        At most :data:`LISTED` of a kind, the first ones; :attr:`totals` counts all of them.
        """
        given: Counter[str] = Counter()
        base = 0
        for meta in self._metas():
            divided = meta["divided"]
            if divided is not None and divided["start"] == 0:
                base = 0
            for kind, listed in sorted(meta["findings"].items()):
                for finding in listed[: LISTED - given[kind]]:
                    given[kind] += 1
                    moved = base if divided is not None and finding["line"] else 0
                    yield finding | {"line": finding["line"] + moved}
            base += divided["lines"] if divided is not None else 0

    def _metas(self) -> Iterator[dict[str, Any]]:
        for name in self.names:
            yield json.loads((self.folder / f"{name}.json").read_bytes())

    def _table(self, name: str, names: Sequence[str], *, ordinal: int, base: int) -> pa.Table:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # type: ignore[import-untyped]  # noqa: PLC0415
        import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

        if unknown := set(names) - set(self.column_names):
            raise KeyError(", ".join(sorted(unknown)))
        stored = [column for column in names if column != NUMBER]
        table = pq.read_table(self.folder / f"{name}.parquet", columns=stored or ["bytes"])
        if base and "line" in stored:
            place = table.column_names.index("line")
            table = table.set_column(place, "line", pc.add(table["line"], base))
        if NUMBER in names:
            import numpy as np  # noqa: PLC0415

            numbers = np.arange(table.num_rows, dtype=np.uint64) + np.uint64(ordinal << 32)
            table = table.append_column(NUMBER, pa.array(numbers))
        return table.select(list(names))


def _end_file(totals: Totals, divided: dict[str, Any] | None) -> None:
    if divided is not None:
        totals.files += 1
        if not divided["documents"]:
            totals.not_read[divided["kind"]] += 1
