"""Judge candidate pairs by the exact Jaccard similarity of their shingle sets, and group what is alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pretrain_archive.data.quality.neardup.buckets import unpacked
from pretrain_archive.data.quality.neardup.corpus import Corpus, Scratch

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HALF = np.uint64(32)
PAIR_BLOCK = 1 << 18
"""Pairs that are read back at once while groups are made."""


def judged(
    corpus: Corpus, blocks: Iterable[NDArray[np.uint64]], threshold: float, memory: int
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.float64]]]:
    """Yield the pairs at or above ``threshold`` with their exact Jaccard similarity, in the order they came.

    Exact over 32-bit hashes: two different shingles of a pair fall together once in four thousand million. Works on
    as many pairs at once as ``memory`` bytes allow, and on one pair at the least.
    """
    room = max(1, memory // 128)  # bytes that one hash takes while it is gathered, sorted and counted
    step = min(PAIR_BLOCK, room)
    for block in blocks:
        for begin in range(0, len(block), step):
            pairs = block[begin : begin + step]
            left, right = unpacked(pairs)
            sizes = np.stack([corpus.sizes(left), corpus.sizes(right)])
            # Sets of too different sizes cannot reach the threshold, whatever they share.
            fits = sizes.min(axis=0) >= threshold * sizes.max(axis=0)
            pairs, sizes = pairs[fits], sizes[:, fits]
            for low, high in _batches(sizes.sum(axis=0), room):
                some = pairs[low:high]
                value = jaccard(corpus, some, sizes[:, low:high])
                yield some[value >= threshold], value[value >= threshold]
                corpus.release()


def jaccard(corpus: Corpus, pairs: NDArray[np.uint64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The similarity of each pair: hashes that both have, by hashes that either has."""
    both = np.concatenate(
        [
            corpus.hashes(ranks, size).astype(np.uint64)
            | np.repeat(np.arange(len(pairs), dtype=np.uint64) << _HALF, size)
            for ranks, size in zip(unpacked(pairs), sizes, strict=True)
        ]
    )
    both.sort()
    shared = both[1:][both[1:] == both[:-1]]
    common = np.bincount((shared >> _HALF).astype(np.int64), minlength=len(pairs))
    return np.asarray(common / (sizes.sum(axis=0) - common))


def _batches(weights: NDArray[np.int64], room: int) -> Iterator[tuple[int, int]]:
    ends = np.cumsum(weights)
    low = 0
    while low < len(weights):
        taken = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, taken + room, side="right")))
        yield low, high
        low = high


class PairFile:
    """Pairs kept on disk until groups are made."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream = path.open("wb")
        self.count = 0

    def add(self, pairs: NDArray[np.uint64]) -> None:
        """Keep pairs."""
        self._stream.write(np.ascontiguousarray(pairs).data)
        self.count += len(pairs)

    def blocks(self) -> Iterator[NDArray[np.uint64]]:
        """Yield them again."""
        self._stream.flush()
        with self._path.open("rb") as stream:
            while raw := stream.read(8 * PAIR_BLOCK):
                yield np.frombuffer(raw, np.uint64)

    def close(self) -> None:
        """Close the file; its folder is taken away by its owner."""
        self._stream.close()


def groups(pairs: PairFile, documents: int, scratch: Scratch) -> NDArray[np.uint32]:
    """For each rank the least rank that pairs lead to, step by step; a document without a pair has its own.

    Every pass joins trees of ranks at their roots, the higher under the lower, until no pair spans two trees.
    """
    parent: NDArray[np.uint32] = scratch.array("parents", np.uint32, documents)
    for begin in range(0, documents, PAIR_BLOCK):
        end = min(begin + PAIR_BLOCK, documents)
        parent[begin:end] = np.arange(begin, end, dtype=np.uint32)
    changed = True
    while changed:
        changed = False
        for block in pairs.blocks():
            left, right = unpacked(block)
            a, b = roots(parent, left), roots(parent, right)
            apart = a != b
            if apart.any():
                changed = True
                high = np.maximum(a[apart], b[apart])
                np.minimum.at(parent, high, np.minimum(a[apart], b[apart]).astype(np.uint32))
    return parent


def roots(parent: NDArray[np.uint32], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The root of each rank's tree; shortens the way there."""
    found = parent[ranks].astype(np.int64)
    while True:
        above = parent[found].astype(np.int64)
        if (above == found).all():
            break
        found = above
    parent[ranks] = found
    return found
