"""MinHash signatures of shingle sets, and the keys of their bands.

A place of a signature holds the least image of a set's hashes under one permutation of the 32-bit numbers; two sets
agree there with the probability of their Jaccard similarity (Broder: On the resemblance and containment of documents,
1997). The permutations are x -> a*x modulo 2^32 with a odd, over hashes that are mixed already.

Each permutation serves several places: the hashes are divided by their upper bits into :data:`CELLS` cells, and every
cell gives a least image of its own (Li, Owen, Zhang: One permutation hashing, 2012), which is a quarter of the work.
An empty cell takes the whole set instead, with that cell's own permutations, so that two sets which both leave a cell
empty still agree with the probability of their similarity.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pretrain_archive.data.quality.neardup.settings import Settings
from pretrain_archive.data.quality.neardup.units import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

CELLS = 4

_SMALL = 96
"""Hashes up to which cells are worked on side by side, a column each; longer ones one after the other."""
_COLUMNS = 384
"""Cells side by side: few enough that they are about as long as each other and stay in the processor's cache."""
_BLOCK = 1 << 16
"""Hashes of a block of longer cells."""

_U = np.uint64
_HALF = _U(32)
_MIX1, _MIX2 = _U(0xFF51AFD7ED558CCD), _U(0xC4CEB9FE1A85EC53)


@lru_cache(maxsize=8)
def _permutations(count: int, seed: int) -> NDArray[np.uint32]:
    # PCG64 is named, since default_rng() may become another generator in a later numpy.
    draw = np.random.Generator(np.random.PCG64(seed))
    return draw.integers(0, 1 << 32, size=count, dtype=np.uint64).astype(np.uint32) | np.uint32(1)


def signatures(
    hashes: NDArray[np.uint32], offsets: NDArray[np.int64], settings: Settings
) -> NDArray[np.uint32]:
    """One row of ``settings.permutations`` numbers for each set of sorted hashes.

    The row of an empty set says nothing.
    """
    cells = CELLS if settings.permutations % CELLS == 0 else 1
    starts, counts = _divided(hashes, offsets, cells)
    width = settings.permutations // cells
    family = _permutations(settings.permutations, settings.seed)
    rows = np.full((len(counts), width), np.uint32(0xFFFFFFFF))
    # Permutations of their own for each cell: the same ones would see the same set alike in every empty cell.
    for cell in range(cells):
        chosen = np.arange(cell, len(counts), cells)
        own = family[cell * width : (cell + 1) * width]
        rows[chosen] = _least(hashes, starts[chosen], counts[chosen], own)
    return rows.reshape(len(offsets) - 1, -1)


def _divided(
    hashes: NDArray[np.uint32], offsets: NDArray[np.int64], cells: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each cell of each set begins and how many hashes it has; an empty cell is the whole set."""
    sizes = np.diff(offsets)
    if cells == 1:
        return offsets[:-1], sizes
    owner = np.repeat(np.arange(0, len(sizes) * cells, cells), sizes)
    owner += hashes >> np.uint32(32 - (cells - 1).bit_length())
    counts = np.bincount(owner, minlength=len(sizes) * cells)
    starts = np.cumsum(counts) - counts
    empty = counts == 0
    starts[empty] = np.repeat(offsets[:-1], cells)[empty]
    counts[empty] = np.repeat(sizes, cells)[empty]
    return starts, counts


def _least(
    hashes: NDArray[np.uint32],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    family: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    """The least images of each cell under each permutation of ``family``: a row a cell."""
    rows = np.full((len(counts), len(family)), np.uint32(0xFFFFFFFF))
    order = np.argsort(counts, kind="stable")
    some = order[np.searchsorted(counts[order], 1) :]
    split = int(np.searchsorted(counts[some], _SMALL, side="right"))
    for place in range(0, split, _COLUMNS):
        tile = some[place : min(place + _COLUMNS, split)]
        rows[tile] = _side_by_side(hashes, starts[tile], counts[tile], family)
    if split < len(some):
        large = np.sort(some[split:])
        rows[large] = _one_by_one(hashes, starts[large], counts[large], family)
    return rows


def _side_by_side(
    hashes: NDArray[np.uint32],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    family: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    # A shorter column repeats its last hash: a set's least image does not change.
    steps = np.minimum(np.arange(counts.max())[:, None], counts[None, :] - 1)
    block = hashes[starts[None, :] + steps]
    image = np.empty_like(block)
    least = np.empty((len(family), len(starts)), np.uint32)
    for place, factor in enumerate(family):
        np.multiply(block, factor, out=image)
        np.minimum.reduce(image, axis=0, out=least[place])
    return least.T


def _one_by_one(
    hashes: NDArray[np.uint32],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    family: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    least = np.empty((len(family), len(starts)), np.uint32)
    # Blocks of whole cells, small enough for the cache where cells are.
    begin = 0
    while begin < len(starts):
        end = begin + max(1, int(np.searchsorted(np.cumsum(counts[begin:]), _BLOCK)))
        block = hashes[ranges(starts[begin:end], counts[begin:end])]
        inner = np.cumsum(counts[begin:end]) - counts[begin:end]
        image = np.empty_like(block)
        for place, factor in enumerate(family):
            np.multiply(block, factor, out=image)
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
