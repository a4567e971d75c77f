"""MinHash signatures of shingle sets, and the keys of their bands.

A signature holds, for each of many permutations of the 32-bit numbers, the least image of the set's hashes; two sets
agree in one place with the probability of their Jaccard similarity (Broder: On the resemblance and containment of
documents, 1997). The permutations are x -> a*x + b modulo 2^32 with a odd, over hashes that are mixed already.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pretrain_archive.data.quality.neardup.settings import Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SMALL = 96
"""Shingles up to which documents are worked on side by side, a column each; longer ones one after the other."""
_TILE = 1 << 15
"""Hashes in a block of columns: what stays in the processor's cache over all permutations."""

_U = np.uint64
_HALF = _U(32)
_MIX1, _MIX2 = _U(0xFF51AFD7ED558CCD), _U(0xC4CEB9FE1A85EC53)


@lru_cache(maxsize=8)
def _permutations(count: int, seed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    # PCG64 is named, since default_rng() may become another generator in a later numpy.
    draw = np.random.Generator(np.random.PCG64(seed))
    both = draw.integers(0, 1 << 32, size=(2, count), dtype=np.uint64).astype(np.uint32)
    return both[0] | np.uint32(1), both[1]


def signatures(
    hashes: NDArray[np.uint32], offsets: NDArray[np.int64], settings: Settings
) -> NDArray[np.uint32]:
    """One row of ``settings.permutations`` numbers for each set; of an empty set all are the greatest number."""
    counts = np.diff(offsets)
    rows = np.full((len(counts), settings.permutations), np.uint32(0xFFFFFFFF))
    order = np.argsort(counts, kind="stable")
    some = order[np.searchsorted(counts[order], 1) :]
    split = int(np.searchsorted(counts[some], _SMALL, side="right"))
    place = 0
    while place < split:
        width = max(1, _TILE // int(counts[some[min(place + 255, split - 1)]]))
        tile = some[place : min(place + width, split)]
        rows[tile] = _side_by_side(hashes, offsets[tile], counts[tile], settings)
        place += len(tile)
    if split < len(some):
        large = np.sort(some[split:])
        rows[large] = _one_by_one(hashes, offsets[large], counts[large], settings)
    return rows


def _side_by_side(
    hashes: NDArray[np.uint32], starts: NDArray[np.int64], counts: NDArray[np.int64], settings: Settings
) -> NDArray[np.uint32]:
    # A shorter column repeats its last hash: a set's least image does not change.
    steps = np.minimum(np.arange(counts.max())[:, None], counts[None, :] - 1)
    block = hashes[starts[None, :] + steps]
    image = np.empty_like(block)
    least = np.empty((settings.permutations, len(starts)), np.uint32)
    for place, (a, b) in enumerate(zip(*_permutations(settings.permutations, settings.seed), strict=True)):
        np.multiply(block, a, out=image)
        image += b
        np.minimum.reduce(image, axis=0, out=least[place])
    return least.T


def _one_by_one(
    hashes: NDArray[np.uint32], starts: NDArray[np.int64], counts: NDArray[np.int64], settings: Settings
) -> NDArray[np.uint32]:
    least = np.empty((settings.permutations, len(starts)), np.uint32)
    # Blocks of whole documents, small enough for the cache where documents are.
    begin = 0
    while begin < len(starts):
        end = begin + max(1, int(np.searchsorted(np.cumsum(counts[begin:]), 8 * _TILE)))
        low, high = int(starts[begin]), int(starts[end - 1] + counts[end - 1])
        block, inner = hashes[low:high], starts[begin:end] - low
        gaps = bool((inner[1:] != inner[:-1] + counts[begin : end - 1]).any())
        if gaps:
            block = np.concatenate([block[s : s + c] for s, c in zip(inner, counts[begin:end], strict=True)])
            inner = np.cumsum(counts[begin:end]) - counts[begin:end]
        image = np.empty_like(block)
        for place, (a, b) in enumerate(
            zip(*_permutations(settings.permutations, settings.seed), strict=True)
        ):
            np.multiply(block, a, out=image)
            image += b
            np.minimum.reduceat(image, inner, out=least[place, begin:end])
        begin = end
    return least.T


def band_keys(rows: NDArray[np.uint32], settings: Settings) -> NDArray[np.uint64]:
    """The key of each band of each signature: an array of bands by documents, 64 bits a key."""
    width, bands = settings.rows, settings.bands
    keys = np.empty((bands, len(rows)), _U)
    parts = np.ascontiguousarray(rows[:, : width * bands].T)
    for band in range(bands):
        key = np.full(len(rows), _U(band + 1))
        for row in range(width):
            key ^= parts[band * width + row]
            key *= _MIX1
            key ^= key >> _HALF
        key *= _MIX2
        keys[band] = key ^ (key >> _HALF)
    return keys


def agreement(left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The part of equal places of each pair of rows: an estimate of the Jaccard similarity."""
    return np.asarray((left == right).mean(axis=-1))
