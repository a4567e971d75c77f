"""What a search found: counts for a report, and lists of numbers that are read from the search's work folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pretrain_archive.data.quality.neardup.buckets import ALL_PAIRS, LEFT_MEMBERS
from pretrain_archive.data.quality.neardup.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A pair of document numbers, the one that is kept or known first, with its exact similarity."""

    first: int
    second: int
    jaccard: float

    def to_json(self) -> dict[str, Any]:
        """For reports: numbers of documents, nothing of their text."""
        return {"first": self.first, "second": self.second, "jaccard": round(self.jaccard, 6)}


@dataclass(frozen=True, kw_only=True, slots=True)
class NearDuplicates:
    """What :func:`find` found.

    ``pairs`` are ``exact_pairs`` (a text and the first equal one) and ``near_pairs`` (different texts at or above the
    threshold). ``dropped`` documents would go if the first of each of the ``clusters`` is kept. ``equality_only``
    documents have no shingles, or are tables of numbers. ``chained`` members of crowded buckets were compared with
    the first of their bucket only. ``histogram`` has a bar (from, below, pairs) for each step of 0.05.
    """

    settings: Settings
    documents: int
    pairs: int
    exact_pairs: int
    near_pairs: int
    documents_in_pairs: int
    clusters: int
    dropped: int
    candidates: int
    chained: int
    equality_only: int
    histogram: list[tuple[float, float, int]]
    examples: list[Example]
    dropped_file: Path
    pairs_file: Path

    @property
    def drop(self) -> Iterator[int]:
        """The numbers of the documents that would be dropped, ascending; read from the work folder."""
        return (number for number, _ in self.twins())

    def twins(self) -> Iterator[tuple[int, int]]:
        """Each document that would be dropped, with the one that is kept for it."""
        yield from _rows(self.dropped_file)

    def found_pairs(self) -> Iterator[Example]:
        """Every pair: first the equal texts, then the near ones."""
        for one, two, value in _records(self.pairs_file):
            yield Example(first=one, second=two, jaccard=value)

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        names = (
            "documents", "pairs", "exact_pairs", "near_pairs", "documents_in_pairs", "clusters", "dropped",
            "candidates", "chained", "equality_only",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names} | {
            "settings": self.settings.to_json() | {"compared_in_a_bucket": ALL_PAIRS},
            "histogram": [list(bar) for bar in self.histogram],
            "examples": [example.to_json() for example in self.examples],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """What :func:`overlap` found: documents of the right corpus that have a twin in the left one.

    ``exact`` equal a left text, ``near`` are at or above the threshold to one and equal none.
    """

    settings: Settings
    left_documents: int
    right_documents: int
    exact: int
    near: int
    equality_only: int
    histogram: list[tuple[float, float, int]]
    examples: list[Example]
    found_file: Path

    @property
    def documents(self) -> int:
        """Documents of the right corpus with a twin in the left one."""
        return self.exact + self.near

    def twins(self) -> Iterator[tuple[int, int]]:
        """Each right document that has one, ascending, with the first left twin that was found."""
        yield from _rows(self.found_file)

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        names = ("left_documents", "right_documents", "documents", "exact", "near", "equality_only")
        return {name: getattr(self, name) for name in names} | {
            "settings": self.settings.to_json() | {"compared_in_a_bucket": LEFT_MEMBERS},
            "histogram": [list(bar) for bar in self.histogram],
            "examples": [example.to_json() for example in self.examples],
        }


def _rows(path: Path) -> Iterator[tuple[int, int]]:
    with path.open("rb") as stream:
        while raw := stream.read(1 << 20):
            rows = np.frombuffer(raw, np.int64).reshape(-1, 2).tolist()
            yield from ((one, two) for one, two in rows)


def _records(path: Path) -> Iterator[tuple[int, int, float]]:
    with path.open("rb") as stream:
        while raw := stream.read(24 << 16):
            rows = np.frombuffer(raw, np.int64).reshape(-1, 3)
            values = np.ascontiguousarray(rows[:, 2]).view(np.float64)
            for (one, two), value in zip(rows[:, :2].tolist(), values.tolist(), strict=True):
                yield one, two, value
