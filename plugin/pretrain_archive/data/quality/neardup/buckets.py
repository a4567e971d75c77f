"""Turn sorted band keys into candidate pairs, without ever comparing all members of a large bucket with each other.

An entry is one 64-bit number: the upper bits of a band's key, then the rank of the document in ``rank_bits`` bits. Two
documents whose keys agree in those upper bits only become a candidate too; the exact comparison sorts them out. A pair
is one number as well: the lower rank in the upper half, the higher one in the lower.

Within one corpus each of the first :data:`ALL_PAIRS` members of a bucket is paired with every other of them, each later
member with the first one only: a text repeated a hundred thousand times costs a hundred thousand comparisons and not
five thousand million. Between two corpora each right member is paired with the first :data:`LEFT_MEMBERS` left ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALL_PAIRS: Final = 32
LEFT_MEMBERS: Final = 8
_HALF = np.uint64(32)


def entries(keys: NDArray[np.uint64], ranks: NDArray[np.uint64], rank_bits: int) -> NDArray[np.uint64]:
    """One number for each key and the document that has it."""
    bits = np.uint64(rank_bits)
    return ((keys >> bits) << bits) | ranks


def packed(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Pairs of ranks as one number each."""
    return (left << _HALF) | right


def unpacked(pairs: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranks of pairs."""
    return (pairs >> _HALF).astype(np.int64), (pairs & np.uint64(0xFFFFFFFF)).astype(np.int64)


class Pairing:
    """Reads sorted entries block by block and yields candidate pairs.

    ``left_count``: with two corpora, the ranks below it are left ones and only pairs across are made. ``whole`` is the
    number of members that are all paired. ``chained`` counts the members that were paired with the first only.
    """

    def __init__(self, rank_bits: int, *, left_count: int | None = None, whole: int = ALL_PAIRS) -> None:
        self._bits = np.uint64(rank_bits)
        self._rank = np.uint64((1 << rank_bits) - 1)
        self._left_count = None if left_count is None else np.uint64(left_count)
        self._whole = whole if left_count is None else LEFT_MEMBERS
        self.chained = 0

    def pairs(self, blocks: Iterable[NDArray[np.uint64]]) -> Iterator[NDArray[np.uint64]]:
        """Yield arrays of pairs, some of them more than once."""
        carried = np.empty(0, np.uint64)
        for block in blocks:
            joined = np.concatenate([carried, block])
            keys = joined >> self._bits
            fresh = np.ones(len(joined), bool)
            np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
            yield from self._of_block(joined, fresh, len(carried))
            # The last bucket may go on in the next block; its first members are all that a later one needs.
            last = len(joined) - 1 - int(np.argmax(fresh[::-1]))
            carried = joined[last : last + self._whole]

    def _of_block(
        self, joined: NDArray[np.uint64], fresh: NDArray[np.bool_], seen: int
    ) -> Iterator[NDArray[np.uint64]]:
        shared = ~fresh
        shared[:-1] |= ~fresh[1:]
        places = np.flatnonzero(shared)
        if not len(places):
            return
        ranks, begins = joined[places] & self._rank, fresh[places]
        starts = np.flatnonzero(begins)
        start = starts[np.cumsum(begins) - 1]
        here = np.arange(len(places))
        new = places >= seen
        if self._left_count is None:
            yield from self._within(ranks, start, here, new)
        else:
            yield from self._across(ranks, start, here[new & (ranks >= self._left_count)])

    def _within(
        self,
        ranks: NDArray[np.uint64],
        start: NDArray[np.int64],
        here: NDArray[np.int64],
        new: NDArray[np.bool_],
    ) -> Iterator[NDArray[np.uint64]]:
        position = here - start
        for step in range(1, min(self._whole, int(position.max()) + 1)):
            later = here[new & (position >= step) & (position < self._whole)]
            if not len(later):
                break
            yield packed(ranks[later - step], ranks[later])
        far = here[new & (position >= self._whole)]
        self.chained += len(far)
        if len(far):
            yield packed(ranks[start[far]], ranks[far])

    def _across(
        self, ranks: NDArray[np.uint64], start: NDArray[np.int64], members: NDArray[np.int64]
    ) -> Iterator[NDArray[np.uint64]]:
        left_count = np.uint64(0) if self._left_count is None else self._left_count
        for step in range(self._whole):
            other = start[members] + step
            fits = other < members
            members, other = members[fits], other[fits]
            is_left = ranks[other] < left_count
            members, other = members[is_left], other[is_left]
            if not len(members):
                break
            yield packed(ranks[other], ranks[members])
