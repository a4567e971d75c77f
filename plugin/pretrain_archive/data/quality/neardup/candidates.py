"""Bring together documents that may be alike: equal texts by their digests, similar ones by their bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from pretrain_archive.data.quality.neardup.buckets import Pairing, entries, unpacked
from pretrain_archive.data.quality.neardup.corpus import Corpus, Scratch
from pretrain_archive.data.quality.neardup.runs import Sorter
from pretrain_archive.data.quality.neardup.settings import Settings
from pretrain_archive.data.quality.neardup.signatures import band_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress = Callable[[str, int, int], None]
"""Called with what is done, how many documents of it are through, and how many there are."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """Tell nobody."""


def _chunk(settings: Settings) -> int:
    """Documents whose signatures and keys are held at once: an eighth of the memory, with copies."""
    return max(64, settings.memory_bytes // (8 * 16 * settings.permutations))


class Candidates:
    """The candidate pairs of a corpus, or across the two groups of one.

    :meth:`equal` comes first: a later copy of a text has no part in the search for similar ones. Counted along the
    way: ``found`` similar candidates, ``chained`` members of crowded buckets, documents ``without_hashes``.
    """

    def __init__(
        self, corpus: Corpus, settings: Settings, scratch: Scratch, *, progress: Progress = silent
    ) -> None:
        self._corpus, self._settings, self._scratch, self._progress = corpus, settings, scratch, progress
        self._left_count = corpus.counts[0] if len(corpus.counts) > 1 else None
        self._copies: NDArray[np.bool_] = scratch.array("copies", bool, corpus.documents)
        self.chained = 0
        self.found = 0
        self.without_hashes = 0

    def equal(self) -> Iterator[NDArray[np.uint64]]:
        """Yield (first, copy) for every document whose text equals an earlier one's.

        With two groups: for every right document that equals a left one.
        """
        corpus, bits = self._corpus, self._corpus.rank_bits
        sorter = Sorter(self._scratch.folder, self._settings.memory_bytes // 2)
        for part in corpus.parts(_chunk(self._settings) * 8):
            sorter.add(entries(part.digests[:, 0], part.ranks, bits))
        pairing = Pairing(bits, whole=1)
        for pairs in pairing.pairs(sorter.blocks()):
            first, copy = unpacked(pairs)
            same = (corpus.digests(first) == corpus.digests(copy)).all(axis=1)
            if self._left_count is not None:
                # A right document has no part in the search only if a left one is its twin.
                same &= (copy < self._left_count) | (first < self._left_count)
            self._copies[copy[same]] = True
            found = pairs[same]
            yield found if self._left_count is None else found[copy[same] >= self._left_count]
            corpus.release()

    def similar(self) -> Iterator[NDArray[np.uint64]]:
        """Yield pairs that share a band, ascending and each once."""
        settings = self._settings
        found = Sorter(self._scratch.folder, settings.memory_bytes // 4)
        for band, sorter in enumerate(self._bands()):
            pairing = Pairing(self._corpus.rank_bits, left_count=self._left_count)
            for pairs in pairing.pairs(sorter.blocks()):
                found.add(pairs)
            self.chained += pairing.chained
            self._progress("bands", band + 1, settings.bands)
        for block in found.blocks(unique=True):
            self.found += len(block)
            yield block

    def _bands(self) -> list[Sorter]:
        corpus, settings = self._corpus, self._settings
        share = settings.memory_bytes // (2 * settings.bands)
        sorters = [Sorter(self._scratch.folder, share) for _ in range(settings.bands)]
        done = 0
        for part in corpus.parts(_chunk(settings)):
            ranks = part.ranks
            chosen = np.flatnonzero(part.has_hashes & ~self._copies[ranks.astype(np.int64)])
            self.without_hashes += len(ranks) - int(part.has_hashes.sum())
            for sorter, keys in zip(sorters, band_keys(part.signatures[chosen], settings), strict=True):
                sorter.add(entries(keys, ranks[chosen], corpus.rank_bits))
            done += len(ranks)
            self._progress("signatures", done, corpus.documents)
        return sorters
