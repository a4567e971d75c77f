"""Find exact and near duplicates among sketched documents, within one corpus and between two.

A text that equals an earlier one is a pair with the first of its kind. Among the different texts MinHash bands bring
candidates together and the exact Jaccard similarity of their shingle sets decides. Groups are what pairs connect, so
that two members need not be alike themselves; the first member in manifest order is the one that is kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from pretrain_archive.data.quality.neardup.buckets import unpacked
from pretrain_archive.data.quality.neardup.candidates import Candidates, Progress, silent
from pretrain_archive.data.quality.neardup.corpus import Corpus, Scratch
from pretrain_archive.data.quality.neardup.pairs import PairFile, groups, judged, roots
from pretrain_archive.data.quality.neardup.results import Example, NearDuplicates, Overlap
from pretrain_archive.data.quality.neardup.settings import Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Example", "NearDuplicates", "Overlap", "find", "overlap"]

EXAMPLES: Final = 20
BINS: Final = 20
"""Bars of the histogram of similarities, each 0.05 wide; the last one holds 1 too."""


@dataclass(kw_only=True, slots=True)
class _Tally:
    """What is counted while pairs are found."""

    corpus: Corpus
    near: int = 0
    exact: int = 0
    bars: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    examples: list[Example] = field(default_factory=list)

    def add(self, pairs: NDArray[np.uint64], values: NDArray[np.float64] | None) -> None:
        """Count pairs; ``values`` None: they are equal texts."""
        left, right = unpacked(pairs)
        if values is None:
            self.exact += len(pairs)
            self.bars[-1] += len(pairs)
            values = np.ones(len(pairs))
            some = slice(0, EXAMPLES - len(self.examples))
        else:
            self.near += len(pairs)
            # Rounded first: 0.7 is in the bar from 0.7, whatever its binary form times twenty is.
            bars = np.minimum(np.round(values * BINS, 9).astype(np.int64), BINS - 1)
            self.bars += np.bincount(bars, minlength=BINS)
            some = slice(0, 2 * EXAMPLES - len(self.examples))
        first, second = self.corpus.numbers(left[some]), self.corpus.numbers(right[some])
        for one, two, value in zip(first.tolist(), second.tolist(), values[some].tolist(), strict=True):
            self.examples.append(Example(first=one, second=two, jaccard=value))

    def histogram(self) -> list[tuple[float, float, int]]:
        """Each bar: from, below, pairs."""
        return [(bar / BINS, (bar + 1) / BINS, int(count)) for bar, count in enumerate(self.bars)]


def find(
    sketches: Sequence[Path], settings: Settings, *, work: Path, progress: Progress | None = None
) -> NearDuplicates:
    """Find the duplicates among the documents of ``sketches``.

    ``work`` is a folder of this search alone: what an earlier, killed one left there is taken away, and the lists of
    pairs and of documents that would be dropped stay in it. The result depends on texts, numbers and settings and not
    on how many sketches there are. Memory: about ``settings.memory_bytes`` and one pair of documents; what does not
    fit lies in ``work`` (about 0.3 KB a document). Raises ``InputError`` and ``ArchiveError`` as
    :class:`.corpus.Corpus` does.
    """
    folder = _emptied(work)
    scratch = Scratch(folder, settings.memory_bytes)
    corpus = Corpus([sketches], settings, scratch)
    looked = Candidates(corpus, settings, scratch, progress=progress or silent)
    tally, kept = _Tally(corpus=corpus), PairFile(folder / "pairs", scratch.block)
    for pairs in looked.equal():
        kept.add(pairs, 1.0)
        tally.add(pairs, None)
    for pairs, values in judged(corpus, looked.similar(), settings.threshold, scratch):
        kept.add(pairs, values)
        tally.add(pairs, values)
    found, dropped, clusters = _dropped(corpus, kept, scratch, work)
    listed = _listed(corpus, kept, work)
    shutil.rmtree(folder)
    return NearDuplicates(
        settings=settings,
        documents=corpus.documents,
        pairs=tally.exact + tally.near,
        exact_pairs=tally.exact,
        near_pairs=tally.near,
        documents_in_pairs=dropped + clusters,
        clusters=clusters,
        dropped=dropped,
        candidates=looked.found,
        chained=looked.chained,
        equality_only=looked.without_hashes,
        histogram=tally.histogram(),
        examples=tally.examples,
        dropped_file=found,
        pairs_file=listed,
    )


def overlap(
    left: Sequence[Path],
    right: Sequence[Path],
    settings: Settings,
    *,
    work: Path,
    progress: Progress | None = None,
) -> Overlap:
    """Find the documents of ``right`` that have a twin in ``left``; numbers of the two may be the same.

    ``work``, memory and errors as for :func:`find`.
    """
    folder = _emptied(work)
    scratch = Scratch(folder, settings.memory_bytes)
    corpus = Corpus([left, right], settings, scratch)
    looked = Candidates(corpus, settings, scratch, progress=progress or silent)
    tally, begin = _Tally(corpus=corpus), corpus.counts[0]
    # The left twin's rank and one more; 0 says that there is none.
    twin: NDArray[np.uint32] = scratch.array("twins", np.uint32, corpus.counts[1])
    for pairs in looked.equal():
        tally.add(pairs, None)
        first, second = unpacked(pairs)
        twin[second - begin] = first + 1
    near = 0
    for pairs, values in judged(corpus, looked.similar(), settings.threshold, scratch):
        tally.add(pairs, values)
        first, second = unpacked(pairs)
        fresh, place = np.unique(second[twin[second - begin] == 0], return_index=True)
        twin[fresh - begin] = first[twin[second - begin] == 0][place] + 1
        near += len(fresh)
    found = _written(corpus, twin, begin, scratch.block, work)
    shutil.rmtree(folder)
    return Overlap(
        settings=settings,
        left_documents=begin,
        right_documents=corpus.counts[1],
        exact=tally.exact,
        near=near,
        equality_only=looked.without_hashes,
        histogram=tally.histogram(),
        examples=tally.examples,
        found_file=found,
    )


def _emptied(work: Path) -> Path:
    work.mkdir(parents=True, exist_ok=True)
    folder = work / "scratch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _dropped(corpus: Corpus, kept: PairFile, scratch: Scratch, work: Path) -> tuple[Path, int, int]:
    """Write what would be dropped and for which document; return the file, their number and that of groups."""
    parent = groups(kept, corpus.documents, scratch)
    heads: NDArray[np.bool_] = scratch.array("heads", bool, corpus.documents)
    path, count = work / "dropped", 0
    with path.open("wb") as out:
        for begin in range(0, corpus.documents, scratch.block):
            ranks = np.arange(begin, min(begin + scratch.block, corpus.documents))
            root = roots(parent, ranks)
            gone = np.flatnonzero(root != ranks)
            heads[root[gone]] = True
            count += len(gone)
            out.write(np.stack([corpus.numbers(ranks[gone]), corpus.numbers(root[gone])], axis=1).tobytes())
            corpus.release()
    kept.close()
    return path, count, int(heads.sum())


def _written(corpus: Corpus, twin: NDArray[np.uint32], first: int, block: int, work: Path) -> Path:
    path = work / "overlap"
    with path.open("wb") as out:
        for begin in range(0, len(twin), block):
            there = np.flatnonzero(twin[begin : begin + block]) + begin
            left = twin[there].astype(np.int64) - 1
            out.write(np.stack([corpus.numbers(there + first), corpus.numbers(left)], axis=1).tobytes())
            corpus.release()
    return path


def _listed(corpus: Corpus, kept: PairFile, work: Path) -> Path:
    path = work / "pairs"
    with path.open("wb") as out:
        for pairs, values in kept.blocks():
            left, right = unpacked(pairs)
            rows = np.stack([corpus.numbers(left), corpus.numbers(right), values.view(np.int64)], axis=1)
            out.write(rows.tobytes())
            corpus.release()
    return path
