"""What an engine hands to a check: the numbers of a data set, and a judge for the rules over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pretrain_archive.data.hashing import Progress
from pretrain_archive.data.quality.aggregates import Summary
from pretrain_archive.data.quality.asking import Source
from pretrain_archive.data.quality.judging.expectations import Answer
from pretrain_archive.data.quality.scanning.plan import Measures
from pretrain_archive.data.quality.suite import Rule, Suite


class Judge(Protocol):
    """Lets Great Expectations judge rules over the tables of one check."""

    def __call__(self, rules: Sequence[Rule], aggregates: Mapping[str, float]) -> dict[str, Answer]:
        """Answers by rule id; a rule whose column is in no table has none."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """What is measured: the data's files, the measures and the suite that asks for them, and sets to compare with.

    ``others`` are sets by name whose documents must not be in the data (benchmarks); ``parent`` is an earlier version
    to compare with; ``validation`` is the part of the data that is held out. ``work`` is a
    folder of this check alone; what a killed check left there is taken over.
    """

    shards: Source
    measures: Measures
    suite: Suite
    work: Path
    others: Mapping[str, Source] = field(default_factory=dict)
    parent: Source | None = None
    validation: Source | None = None
    progress: Progress | None = None
    master: str = "local[*]"


@dataclass(kw_only=True, slots=True)
class Facts:
    """What was measured of a data set, the same from every engine.

    ``near`` and ``contamination`` are None where they were not looked for. ``numbers`` are further aggregates by name.
    ``examples`` say where faults are, at most :data:`EXAMPLES` of a kind; never the text.
    """

    judge: Judge
    summary: Summary
    columns: frozenset[str]
    files: int = 0
    documents: int = 0
    total_bytes: int = 0
    empty: int = 0
    broken: int = 0
    exact_duplicates: int = 0
    not_read: Mapping[str, int] = field(default_factory=dict)
    near: Mapping[str, Any] | None = None
    contamination: Sequence[Mapping[str, Any]] | None = None
    sensitive: Mapping[str, int] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    examples: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def contaminated(self) -> dict[str, int]:
        """What of the benchmark sets the data hold; a set of which nothing could be read was not compared."""
        sets = self.contamination or ()
        numbers = {f"contamination:{one['name']}": one["documents"] for one in sets if one["of"]}
        if sets and len(numbers) == len(sets):
            numbers["contaminated_documents"] = sum(one["documents"] for one in sets)
            if any(one["tested"] for one in sets):
                numbers["contaminated_items"] = sum(one["items"] for one in sets)
        return numbers


EXAMPLES = 200
"""How many faults of a kind a report lists; their number is always told."""
