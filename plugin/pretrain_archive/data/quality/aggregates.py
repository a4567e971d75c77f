"""Numbers of a whole data set out of its per-document statistics: distributions, faults, domains, and where they lie.

A :class:`Summary` is whole numbers only, added up batch by batch and merged in any order, so that one machine and many
give exactly the same. Memory grows with the number of domains, languages and *faulty* shards, never with documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pretrain_archive.data.quality.columns import failing, histogram, numbers, with_faults
from pretrain_archive.data.quality.suite import Rule, Threshold

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa  # type: ignore[import-untyped]
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

SHARD, DOMAIN = "path", "domain"
LANGUAGES = ("language_known", "language")
"""The column of languages: those that were identified, else those that are declared."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "personal_data": ("email", "ipv4", "ipv6", "phone"),
    "identity_numbers": ("card", "iban", "cn_resident_id", "us_ssn", "national_id"),
    "secrets": ("secret",),
    "forbidden_terms": ("forbidden_term",),
}
"""Kinds of sensitive findings that one rule looks at together: as the rate of documents that hold one."""

SENSITIVE = "sensitive_"
MARKED = {"duplicate": "exact_duplicates", "near_duplicate": "near_duplicates", "contaminated": "benchmarks"}
"""Columns that mark documents, and the gate that counts them."""

CHARTS: Mapping[str, Literal["size", "ratio"]] = {
    "bytes": "size",
    "words": "size",
    "longest_line": "size",
    "alphabetic_ratio": "ratio",
    "alphabetic_word_ratio": "ratio",
    "repetition_ratio": "ratio",
    "duplicate_line_character_ratio": "ratio",
    "top_2_gram_ratio": "ratio",
    "punctuated_line_ratio": "ratio",
    "hash_word_ratio": "ratio",
}
"""Columns whose distribution a report shows, where they were measured."""

NAMED = {
    "documents", "units", "empty_rate", "format_error_rate", "exact_duplicate_rate", "near_duplicate_rate",
    "parent_overlap_rate", "contaminated_documents", "contaminated_items", "validation_overlap", "undeclared_share",
    "not_read_rate", "labels_undefined_rate", "labels_largest_share", "labels_smallest_share", "labels_reviewed",
    "labels_agreement",
    *(f"{name}_rate" for name in GROUPS),
}  # fmt: skip
PREFIXES = ("share:", "sensitive:", "language:", "contamination:")


def is_aggregate(name: str) -> bool:
    """Whether ``name`` is a number of the whole data set that a rule may ask for."""
    return name in NAMED or name.startswith(PREFIXES)


@dataclass(kw_only=True, slots=True)
class Summary:
    """Everything that batches of documents add up to.

    ``histograms`` has the counts of :data:`CHARTS`, then the numbers of missing and of not finite values; ``faults``
    (judged, faulty) per threshold; ``sensitive`` (findings, documents) per kind; ``exposed`` documents per group of
    kinds;  ``domains`` documents, bytes and tokens; ``blame`` rule → (shards, domains) counters
    of the rows that fail it.
    """

    rows: int = 0
    unclean: int = 0
    histograms: dict[str, list[int]] = field(default_factory=dict)
    faults: dict[str, list[int]] = field(default_factory=dict)
    domains: dict[str, list[int]] = field(default_factory=dict)
    languages: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    sensitive: dict[str, list[int]] = field(default_factory=dict)
    exposed: dict[str, list[int]] = field(default_factory=dict)
    shards: dict[str, Counter[str]] = field(default_factory=dict)
    regions: dict[str, Counter[str]] = field(default_factory=dict)

    def merge(self, other: Summary) -> None:
        """Add the numbers of another part of the data."""
        self.rows += other.rows
        self.unclean += other.unclean
        for mine, theirs in (
            (self.histograms, other.histograms),
            (self.faults, other.faults),
            (self.domains, other.domains),
            (self.sensitive, other.sensitive),
            (self.exposed, other.exposed),
        ):
            for name, counts in theirs.items():
                mine[name] = [a + b for a, b in zip(mine.get(name, [0] * len(counts)), counts, strict=True)]
        self.languages.update(other.languages)
        self.labels.update(other.labels)
        for counters, more in ((self.shards, other.shards), (self.regions, other.regions)):
            for name, counter in more.items():
                counters.setdefault(name, Counter()).update(counter)

    def to_json(self) -> dict[str, Any]:
        """The summary as plain JSON, for a worker's answer."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Summary:
        """The summary of :meth:`to_json`."""
        made = cls(**{name: value[name] for name in cls.__slots__})
        made.languages, made.labels = Counter(made.languages), Counter(made.labels)
        made.shards = {name: Counter(counts) for name, counts in made.shards.items()}
        made.regions = {name: Counter(counts) for name, counts in made.regions.items()}
        return made

    def blamed(self, name: str, shards: Mapping[str, int], domains: Mapping[str, int]) -> None:
        """Add where the rows of a gate lie that was counted elsewhere."""
        self.shards.setdefault(name, Counter()).update(shards)
        self.regions.setdefault(name, Counter()).update(domains)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is summed up: the thresholds of single documents, the rules over rows, and the measured columns."""

    thresholds: tuple[Threshold, ...]
    rules: tuple[Rule, ...]
    columns: frozenset[str]

    def names(self) -> list[str]:
        """The measured columns that the sum needs."""
        wanted = {SHARD, DOMAIN, *LANGUAGES, "label", "bytes", "tokens", *CHARTS, *MARKED}
        wanted |= {name for name in self.columns if name.startswith(SENSITIVE)}
        wanted |= {t.column for t in self.thresholds} | {t.where.column for t in self.thresholds if t.where}
        wanted |= {r.column for r in self.rules} | {r.where.column for r in self.rules if r.where}
        return sorted(wanted & self.columns)

    def usable(self) -> tuple[Threshold, ...]:
        """The thresholds whose columns were measured."""
        return tuple(
            t
            for t in self.thresholds
            if t.column in self.columns and (t.where is None or t.where.column in self.columns)
        )

    def absent_groups(self) -> set[str]:
        """The groups with a threshold that could not be asked: their count of faults would be too small."""
        asked = {threshold.id for threshold in self.usable()}
        return {threshold.group for threshold in self.thresholds if threshold.id not in asked}


def summarise(table: pa.Table, plan: Plan) -> Summary:
    """The summary of one batch of documents."""
    import numpy as np  # noqa: PLC0415

    made = Summary(rows=table.num_rows)
    table, made.faults = with_faults(table, plan.usable())
    present = set(table.column_names)
    for name, form in CHARTS.items():
        if name in present:
            made.histograms[name] = histogram(numbers(table, name), form)
    if "faults_cleanliness" in present:
        made.unclean = int((numbers(table, "faults_cleanliness") > 0).sum())
    _domains(table, made)
    if column := next((name for name in LANGUAGES if name in present), None):
        made.languages = Counter(_tally(table, column, None))
    if "label" in present:
        made.labels = Counter(_tally(table, "label", None))
    _sensitive(table, made)
    masks = {rule.id: mask for rule in plan.rules if (mask := failing(table, rule)) is not None}
    masks |= {gate: numbers(table, name) > 0 for name, gate in MARKED.items() if name in present}
    masks |= {
        name: np.any(
            [numbers(table, SENSITIVE + kind) > 0 for kind in kinds if SENSITIVE + kind in present], axis=0
        )
        for name, kinds in GROUPS.items()
        if any(SENSITIVE + kind in present for kind in kinds)
    }
    for name, mask in masks.items():
        if mask.any():
            made.blamed(name, _tally(table, SHARD, mask), _tally(table, DOMAIN, mask))
    return made


def total(parts: Iterable[Summary]) -> Summary:
    """The sum of all parts."""
    made = Summary()
    for part in parts:
        made.merge(part)
    return made


def _domains(table: pa.Table, made: Summary) -> None:
    sums = [(name, "sum") for name in ("bytes", "tokens") if name in table.column_names]
    grouped = table.group_by(DOMAIN).aggregate([([], "count_all"), *sums]).to_pydict()
    for row, domain in enumerate(grouped[DOMAIN]):
        made.domains[str(domain)] = [
            int(grouped["count_all"][row]),
            *(
                int(grouped[f"{name}_sum"][row]) if (name, "sum") in sums else 0
                for name in ("bytes", "tokens")
            ),
        ]


def _sensitive(table: pa.Table, made: Summary) -> None:
    """Findings and documents per kind, and documents per group of kinds.

    A document that could not be searched (too long to be held) counts in each group as one that holds something:
    what was not looked at is never a pass.
    """
    import numpy as np  # noqa: PLC0415

    holds = {}
    for name in table.column_names:
        if name.startswith(SENSITIVE):
            kind, values = name.removeprefix(SENSITIVE), numbers(table, name)
            holds[kind] = np.isnan(values) | (values > 0)
            made.sensitive[kind] = [int(np.nansum(values)), int((values > 0).sum())]
    for group, kinds in GROUPS.items():
        if measured := [holds[kind] for kind in kinds if kind in holds]:
            made.exposed[group] = [int(np.any(measured, axis=0).sum())]


def _tally(table: pa.Table, name: str, mask: Mask | None) -> dict[str, int]:
    """How often each value of a text column stands in the rows of ``mask``."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # type: ignore[import-untyped]  # noqa: PLC0415

    column = table[name] if mask is None else table[name].filter(pa.array(mask))
    counted = pc.value_counts(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return {str(pair["values"]): pair["counts"] for pair in counted.to_pylist() if pair["values"] is not None}
