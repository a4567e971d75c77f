"""Byte n-gram models: the baseline that any trained model should beat.

Interpolated Witten-Bell smoothing (Witten and Bell 1991; method C of Bell, Cleary and Witten 1990): with
c(h, x) the count of byte x after context h, c(h) the sum and t(h) the number of different bytes seen after h,

    p(x | h) = (c(h, x) + t(h) · p(x | h')) / (c(h) + t(h))

where h' is h without its oldest symbol; below the empty context stands the uniform distribution over 256
bytes. A context never seen leaves p(x | h') as it is. Contexts reach back to the boundary symbol of the
document and are filled up with it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from corpus import BOUNDARY, SYMBOLS, Indices, Symbols
from scoring import Bits

LARGEST_ORDER = 7  # 257^7 still fits 63 bits


@dataclass(frozen=True, kw_only=True, slots=True)
class NGram:
    """Counts of an n-gram model: ``codes`` ascending, one per n-gram seen, with its ``counts``.

    A code writes the n-gram as a number to the base 257 whose lowest digit is the predicted byte.
    """

    order: int
    codes: Indices
    counts: Indices

    @property
    def digest(self) -> str:
        """``sha256:`` over the order and the little-endian 64-bit codes and counts."""
        total = hashlib.sha256(f"byte {self.order}-gram counts\n".encode())
        total.update(self.codes.astype("<i8").tobytes())
        total.update(self.counts.astype("<i8").tobytes())
        return f"sha256:{total.hexdigest()}"

    def lower(self, order: int) -> NGram:
        """The counts of a lower order. Exact, since every byte of the data stands in one n-gram of each order."""
        codes, inverse = np.unique(self.codes % SYMBOLS**order, return_inverse=True)
        counts = np.bincount(inverse, weights=self.counts).astype(np.int64)
        return NGram(order=order, codes=codes, counts=counts)

    def bits(self, stream: Symbols, positions: Indices) -> Bits:
        """Bits that the model needs for the bytes at ``positions`` of ``stream``."""
        wanted = _codes(stream, self.order)[positions]
        probability = np.full(len(positions), 1 / 256)
        for order in range(1, self.order + 1):
            table = self.lower(order)
            probability = table._mix(wanted % SYMBOLS**order, probability)  # noqa: SLF001  (its own class)
        bits: Bits = -np.log2(probability)
        return bits

    def _mix(self, wanted: Indices, below: Bits) -> Bits:
        """One step of the recursion: ``below`` is p(x | h')."""
        contexts, first = np.unique(self.codes // SYMBOLS, return_index=True)
        totals = np.add.reduceat(self.counts, first)
        types = np.diff(np.append(first, len(self.codes)))
        count = _look_up(self.codes, self.counts, wanted)
        total = _look_up(contexts, totals, wanted // SYMBOLS)
        kinds = _look_up(contexts, types, wanted // SYMBOLS)
        seen = total > 0
        return np.where(seen, (count + kinds * below) / np.where(seen, total + kinds, 1), below)


def count(stream: Symbols, order: int) -> NGram:
    """Count the n-grams of a stream of documents."""
    if not 1 <= order <= LARGEST_ORDER:
        raise ValueError(f"order must be from 1 to {LARGEST_ORDER}, not {order}")
    codes, counts = np.unique(_codes(stream, order)[stream != BOUNDARY], return_counts=True)
    return NGram(order=order, codes=codes, counts=counts.astype(np.int64))


def _codes(stream: Symbols, order: int) -> Indices:
    """The code of the n-gram that ends at each position."""
    index = np.arange(len(stream))
    first = np.maximum.accumulate(np.where(stream == BOUNDARY, index, 0))
    codes = stream.astype(np.int64)
    for back in range(1, order):
        earlier = np.full(len(stream), BOUNDARY, dtype=np.int64)
        earlier[back:] = stream[:-back]
        codes += np.where(index - back >= first, earlier, BOUNDARY) * SYMBOLS**back
    return codes


def _look_up(keys: Indices, values: Indices, wanted: Indices) -> Indices:
    """Values of the wanted keys, 0 where a key is absent; ``keys`` ascend."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: Indices = np.where(keys[at] == wanted, values[at], 0)
    return found
