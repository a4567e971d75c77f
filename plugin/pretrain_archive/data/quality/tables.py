"""The tables that rules look at: documents with what was measured of them, and what follows from comparing them.

Columns of a scan are read when they are asked for; marks of duplicates are a bit a document. Batches come in the
scan's order, so that the same data give the same tables for any number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa  # type: ignore[import-untyped]
    from numpy.typing import NDArray

    from pretrain_archive.data.quality.scan import Scan

    Mask = NDArray[np.bool_]

ROWS = 1 << 18
"""Documents that are judged at once."""

TEXTS = ("path", "domain", "language", "label", "language_found")

NO_NUMBERS = (*TEXTS, "language_known", "sha256", "normalised")

SURE = 0.5
"""Probability from which an identified language counts."""

DERIVED = {
    "language_known": ("language_found", "language_score"),
    "language_mismatch": ("language", "language_found", "language_score"),
}
"""Columns that follow from others: the language where it is sure, and whether it is not the declared one."""

MARKS = ("duplicate", "near_duplicate", "contaminated")


def document_columns() -> frozenset[str]:
    """Every statistic of a document that a rule may name."""
    from pretrain_archive.data.quality.scanning.meter import columns_of  # noqa: PLC0415
    from pretrain_archive.data.quality.scanning.plan import Measures  # noqa: PLC0415
    from pretrain_archive.data.quality.sensitive import Settings  # noqa: PLC0415

    measured = columns_of(Measures(sensitive=Settings()))
    return frozenset({*measured, *DERIVED, *MARKS, "faults_cleanliness", "faults_style"})


@dataclass(kw_only=True, slots=True)
class Documents:
    """The documents of a scan as batches of columns; ``marks`` are further columns, a bit a document."""

    scan: Scan
    marks: dict[str, Mask] = field(default_factory=dict)

    @property
    def columns(self) -> frozenset[str]:
        """The names of columns that were measured."""
        stored = set(self.scan.column_names)
        measures = self.scan.measures
        if measures.language == "off":
            stored -= {"language_found", "language_score"}
        derived = {name for name, needs in DERIVED.items() if stored.issuperset(needs)}
        return frozenset(stored | derived | set(self.marks))

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Named columns of all documents, by :data:`ROWS`."""
        return regrouped(self._tables(names))

    def _tables(self, names: Sequence[str]) -> Iterator[pa.Table]:
        import pyarrow as pa  # noqa: PLC0415

        wanted = set(names)
        stored = [name for name in self.scan.column_names if name in wanted]
        for needs in (DERIVED[name] for name in wanted & set(DERIVED)):
            stored += [name for name in needs if name not in stored]
        begin = 0
        for table in self.scan.batches(stored or ["bytes"]):
            end = begin + table.num_rows
            made = with_derived(as_text(table), wanted)
            for name in wanted & set(self.marks):
                made = made.append_column(name, pa.array(self.marks[name][begin:end]))
            begin = end
            yield made.select(list(names) if names else ["bytes"])


def as_text(table: pa.Table) -> pa.Table:
    """The table with its dictionaries of texts as texts: dictionaries of several files do not go together."""
    import pyarrow as pa  # noqa: PLC0415

    for place, name in enumerate(table.column_names):
        if name in TEXTS and not pa.types.is_string(table.schema.field(name).type):
            table = table.set_column(place, name, table[name].cast(pa.string()))
    return table


def with_derived(table: pa.Table, wanted: set[str]) -> pa.Table:
    """The table with those of :data:`DERIVED` that are wanted."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # type: ignore[import-untyped]  # noqa: PLC0415

    if not wanted & set(DERIVED):
        return table
    sure = pc.and_kleene(
        pc.greater_equal(table["language_score"], SURE), pc.not_equal(table["language_found"], "und")
    )
    known = pc.if_else(pc.fill_null(sure, False), table["language_found"], pa.scalar(None, pa.string()))  # noqa: FBT003
    if "language_known" in wanted:
        table = table.append_column("language_known", known)
    if "language_mismatch" in wanted:
        # Of a BCP 47 tag the language alone counts: zh-Hans is zh.
        declared = pc.utf8_lower(pc.replace_substring_regex(table["language"], r"[-_].*$", ""))
        table = table.append_column("language_mismatch", pc.cast(pc.not_equal(known, declared), pa.int8()))
    return table


def regrouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The rows of many tables in tables of :data:`ROWS`: a judgement of each small one would cost more than all."""
    import pyarrow as pa  # noqa: PLC0415

    held: list[Any] = []
    count = 0
    for table in tables:
        for start in range(0, table.num_rows, ROWS):
            held.append(part := table.slice(start, ROWS))
            count += part.num_rows
            if count >= ROWS:
                joined = pa.concat_tables(held)
                yield joined.slice(0, ROWS)
                held, count = [joined.slice(ROWS)], count - ROWS
    if count:
        yield pa.concat_tables(held)


def twins_of(digests: NDArray[Any]) -> tuple[Mask, Mapping[int, int]]:
    """Which rows equal an earlier one, and for the first :data:`EXAMPLES` of them which one that is.

    ``digests`` are 16 bytes a row, as two whole numbers. Memory: some 50 bytes a document while they are sorted.
    """
    import numpy as np  # noqa: PLC0415

    from pretrain_archive.data.quality.facts import EXAMPLES  # noqa: PLC0415

    order = np.lexsort((digests[:, 1], digests[:, 0]))
    same = np.zeros(len(order), dtype=bool)
    if len(order):
        same[1:] = (digests[order[1:]] == digests[order[:-1]]).all(axis=1)
    marks = np.zeros(len(order), dtype=bool)
    marks[order[same]] = True
    # The sort is stable: the first of a run of equal ones is the earliest row.
    first = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    places = np.flatnonzero(same)
    chosen = places[np.argsort(order[places], kind="stable")][:EXAMPLES]
    return marks, {int(order[place]): int(order[first[place]]) for place in chosen}
