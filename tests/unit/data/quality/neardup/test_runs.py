"""Sorting on disk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.data.quality.neardup import runs
from pretrain_archive.data.quality.neardup.buckets import Pairing, entries, unpacked


@pytest.mark.parametrize("unique", [False, True])
@given(parts=st.lists(st.lists(st.integers(0, 60) | st.integers(0, 2**64 - 1), max_size=40), max_size=12))
def test_sorted_as_in_memory(unique, parts, tmp_path_factory):
    """Whatever is put in comes out ascending, once each if asked, though hardly anything fits in memory."""
    least, runs.LEAST = runs.LEAST, 8
    try:
        sorter = runs.Sorter(tmp_path_factory.getbasetemp(), 8)
        for part in parts:
            sorter.add(np.array(part, np.uint64))
        found = [number for block in sorter.blocks(unique=unique) for number in block.tolist()]
    finally:
        runs.LEAST = least
    everything = [number for part in parts for number in part]
    assert (sorted(set(everything)) if unique else sorted(everything)) == found


@given(
    keys=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    block=st.integers(1, 9),
    whole=st.integers(1, 6),
    left=st.none() | st.integers(0, 60),
)
def test_pairs_of_buckets(keys, block, whole, left):
    """Blocks of any size give the pairs that the rule for buckets names, no other, each once."""
    found = np.sort(
        entries(np.array(keys, np.uint64) << np.uint64(60), np.arange(len(keys), dtype=np.uint64), 8)
    )
    pairing = Pairing(8, left_count=left, whole=whole)
    blocks = [found[place : place + block] for place in range(0, len(found), block)]
    pairs = [
        pair
        for part in pairing.pairs(blocks)
        for pair in zip(*(side.tolist() for side in unpacked(part)), strict=True)
    ]
    buckets = [[n for n, other in enumerate(keys) if other == key] for key in set(keys)]
    expected = set()
    for members in buckets:
        if left is None:
            expected |= {(a, b) for i, a in enumerate(members[:whole]) for b in members[i + 1 : whole]}
            expected |= {(members[0], b) for b in members[whole:]}
        else:
            lefts = [n for n in members if n < left][:8]
            expected |= {(a, b) for a in lefts for b in members if b >= left}
    assert sorted(expected) == sorted(pairs)
    if left is None:
        assert sum(max(0, len(members) - whole) for members in buckets) == pairing.chained
