# ruff: noqa: D102 (the methods are those of Chooser)
"""Leave out documents that say nearly what an earlier one says, by the search of ``data.quality.neardup``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from pretrain_archive.data.processing.chooser import NEAR, Plain
from pretrain_archive.data.processing.reading import Doc
from pretrain_archive.data.processing.repeats import Marks
from pretrain_archive.data.quality.documents import Fields
from pretrain_archive.data.quality.neardup.search import find
from pretrain_archive.data.quality.neardup.settings import Settings
from pretrain_archive.data.quality.neardup.sketch import SketchWriter
from pretrain_archive.data.scratch import owned
from pretrain_archive.domain.processing import DeduplicateStep


class NearDeduplication(Plain):
    """Sketch every document, search once, keep the first of each group in the order of paths and lines.

    Sketches and the search are on disk (in ``folder``, about as large as the texts) and bounded in memory; one bit a
    document stays.
    """

    surveys = True
    texts = True

    def __init__(self, step: DeduplicateStep, folder: Path | None = None) -> None:
        super().__init__(Fields(text=step.text_field))
        self._settings = Settings(
            threshold=step.threshold, shingle=step.shingle, permutations=step.permutations, seed=step.seed
        )
        self._folder = tempfile.TemporaryDirectory(prefix=owned(NEAR), dir=folder)
        self._sketch = Path(self._folder.name) / "sketch"
        self._writer = SketchWriter(self._sketch, self._settings)
        self._count = 0
        self._marks = Marks(0)

    def see(self, doc: Doc) -> None:
        if doc.unit is not None:
            self._writer.add(self._count, doc.unit.text)
        self._count += 1

    def settle(self) -> dict[str, Any]:
        self._writer.close()
        self._marks = Marks(self._count)
        with self._folder:
            found = find([self._sketch], self._settings, work=Path(self._folder.name) / "search")
            for number in found.drop:
                self._marks.set(number)
        told = {"pairs": found.pairs, "exact_pairs": found.exact_pairs, "near_pairs": found.near_pairs,
                "clusters": found.clusters, "candidates": found.candidates}  # fmt: skip
        return {**told, "settings": self._settings.to_json()}

    def judge(self, doc: Doc, number: int) -> str:  # noqa: ARG002 - see Chooser
        return "nearly the same as an earlier document" if self._marks.has(number) else ""
