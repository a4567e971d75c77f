"""What counts as a near duplicate and how it is looked for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from pretrain_archive.data.quality.neardup.normalise import NORMALISED, RULES, check_mode
from pretrain_archive.domain.errors import InputError

RECALL: Final = 0.99
"""The part of the pairs at the threshold that the bands must bring together, in expectation."""

LEAST_MEMORY: Final = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How near duplicates are found.

    ``threshold`` is the least Jaccard similarity of the shingle sets; ``shingle`` the units (words; single
    characters in scripts without blanks) in one shingle; ``permutations`` the length of a MinHash signature;
    ``seed`` chooses them. ``memory_bytes`` bounds the arrays of a search. ``mode`` says when texts are the same
    (see :mod:`.normalise`). ``number_tables`` keeps documents that are mostly numbers out of the near search:
    such tables are twins only when they are equal.

    Raises ``InputError`` for a value that cannot be used.
    """

    threshold: float = 0.8
    shingle: int = 5
    permutations: int = 128
    seed: int = 1
    memory_bytes: int = 256 << 20
    mode: str = NORMALISED
    number_tables: bool = True

    def __post_init__(self) -> None:
        check_mode(self.mode)
        for name, value, good, problem in (
            ("threshold", self.threshold, 0 < self.threshold <= 1, "is not above 0 and at most 1"),
            ("shingle", self.shingle, 1 <= self.shingle <= 64, "is not between 1 and 64"),
            ("permutations", self.permutations, 1 <= self.permutations <= 1024, "is not between 1 and 1024"),
            ("seed", self.seed, 0 <= self.seed < 1 << 63, "is not between 0 and 2^63"),
            ("memory_bytes", self.memory_bytes, self.memory_bytes >= LEAST_MEMORY, "is below 1 MiB"),
        ):
            if not good:
                raise InputError(name, value, problem)

    @property
    def rows(self) -> int:
        """Rows of a band: the most (fewest false candidates) with which recall at the threshold is reached.

        A pair of similarity s shares at least one of b bands of r rows with probability 1 - (1 - s^r)^b
        (Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, section 3.4).
        """
        for rows in range(self.permutations, 1, -1):
            if self.chance(self.threshold, rows=rows) >= RECALL:
                return rows
        return 1

    @property
    def bands(self) -> int:
        """Bands of a signature; permutations that fill no band are not used by the search."""
        return self.permutations // self.rows

    def chance(self, similarity: float, *, rows: int | None = None) -> float:
        """The probability that a pair of this similarity becomes a candidate."""
        rows = self.rows if rows is None else rows
        return float(1 - (1 - similarity**rows) ** (self.permutations // rows))

    def sketching(self) -> dict[str, Any]:
        """The part that a sketch depends on: sketches are searched together only if it is equal."""
        names = ("shingle", "permutations", "seed", "mode", "number_tables")
        return {name: getattr(self, name) for name in names}

    def to_json(self) -> dict[str, Any]:
        """All settings and what follows from them, for reports."""
        return asdict(self) | {
            "rule": RULES[self.mode],
            "bands": self.bands,
            "rows": self.rows,
            "chance_at_threshold": round(self.chance(self.threshold), 6),
            "kept": "the first of a group in manifest order",
        }
