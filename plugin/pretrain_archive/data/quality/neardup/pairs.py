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


def judged(
    corpus: Corpus, blocks: Iterable[NDArray[np.uint64]], threshold: float, scratch: Scratch
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.float64]]]:
    """Yield the pairs at or above ``threshold`` with their exact Jaccard similarity, in the order they came.

    Exact over 32-bit hashes: two different shingles of a pair fall together once in four thousand million. Works on
    as many pairs at once as the memory allows, and on one pair at the least.
    """
    room = max(1, scratch.memory // 128)  # bytes that one hash takes while it is gathered, sorted and counted
    step = scratch.block
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
    """Found pairs with their similarity, kept on disk."""

    _ROW = np.dtype([("pair", "<u8"), ("jaccard", "<f8")])

    def __init__(self, path: Path, block: int) -> None:
        self._path, self._block = path, block
        self._stream = path.open("wb")

    def add(self, pairs: NDArray[np.uint64], values: NDArray[np.float64] | float) -> None:
        """Keep pairs."""
        rows = np.empty(len(pairs), self._ROW)
        rows["pair"], rows["jaccard"] = pairs, values
        self._stream.write(rows.data)

    def blocks(self) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.float64]]]:
        """Yield them again, in the order they came."""
        if not self._stream.closed:
            self._stream.flush()
        with self._path.open("rb") as stream:
            while raw := stream.read(self._ROW.itemsize * self._block):
                rows = np.frombuffer(raw, self._ROW)
                yield rows["pair"], rows["jaccard"]

    def close(self) -> None:
        """Close the file; its folder is taken away by its owner."""
        self._stream.close()


def groups(pairs: PairFile, documents: int, scratch: Scratch) -> NDArray[np.uint32]:
    """For each rank the least rank that pairs lead to, step by step; a document without a pair has its own.

    Every pass joins trees of ranks at their roots, the higher under the lower, until no pair spans two trees.
    """
    parent: NDArray[np.uint32] = scratch.array("parents", np.uint32, documents)
    for begin in range(0, documents, scratch.block):
        end = min(begin + scratch.block, documents)
        parent[begin:end] = np.arange(begin, end, dtype=np.uint32)
    changed = True
    while changed:
        changed = False
        for block, _ in pairs.blocks():
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
