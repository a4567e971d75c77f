"""How well the detector does on the labelled corpus, for the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from pretrain_archive.data.quality.sensitive.detector import Detector
from pretrain_archive.data.quality.sensitive.labelled import EXAMPLES, Example
from pretrain_archive.data.quality.sensitive.settings import KINDS, Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """Counts of one kind: found and right, found and wrong, missed."""

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float | None:
        """Right among found; None if nothing was found."""
        found = self.right + self.wrong
        return self.right / found if found else None

    @property
    def recall(self) -> float | None:
        """Right among what is there; None if nothing is."""
        there = self.right + self.missed
        return self.right / there if there else None

    def to_json(self) -> dict[str, float | int | None]:
        """Counts and both ratios."""
        ratios = {"precision": self.precision, "recall": self.recall}
        return {"right": self.right, "wrong": self.wrong, "missed": self.missed, **ratios}


def score(settings: Settings | None = None, examples: Iterable[Example] = EXAMPLES) -> dict[str, Score]:
    """The detector's score by kind, for the kinds that ``settings`` look for and the corpus has.

    A finding is right only if it is of the labelled kind and covers exactly the labelled words. Allowed
    patterns and forbidden terms are left out: they are a project's own and have no labels.
    """
    kinds = tuple(kind for kind in (settings or Settings()).kinds if kind != "forbidden_term")
    detector = Detector(Settings(kinds=kinds))
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for example in examples:
        found = {(f.kind, example.text[f.offset : f.end]) for f in detector.find(example.text)}
        there = {(example.kind, example.words)} if example.kind in kinds else set()
        right.update(kind for kind, _ in found & there)
        wrong.update(kind for kind, _ in found - there)
        missed.update(kind for kind, _ in there - found)
    return {
        kind: Score(right=right[kind], wrong=wrong[kind], missed=missed[kind])
        for kind in KINDS
        if right[kind] + wrong[kind] + missed[kind]
    }


@lru_cache(maxsize=8)
def detector_scores(kinds: tuple[str, ...]) -> dict[str, dict[str, float | int | None]]:
    """Precision and recall on the labelled corpus by kind, for a report; none for kinds that have no labels."""
    known = tuple(kind for kind in KINDS if kind in kinds and kind != "forbidden_term")
    return {kind: found.to_json() for kind, found in score(Settings(kinds=known)).items()} if known else {}
