"""Which part a document falls into."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.data.splits import part_of

DIGESTS = st.binary(min_size=32, max_size=32).map(lambda raw: "sha256:" + raw.hex())
SEEDS = st.integers(min_value=0, max_value=2**31)


@given(DIGESTS, SEEDS, st.floats(min_value=0.01, max_value=0.5), st.floats(min_value=0, max_value=0.49))
@pytest.mark.requirement("R044")
def test_a_larger_fraction_only_moves_documents_to_validation(digest, seed, fraction, more):
    """The part depends on digest, seed and fraction alone; raising the fraction never moves one back."""
    part = part_of(digest, seed=seed, fraction=fraction)

    assert part == part_of(digest, seed=seed, fraction=fraction)
    if part == "validation":
        assert "validation" == part_of(digest, seed=seed, fraction=fraction + more)


@pytest.mark.parametrize("fraction", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 17])
def test_the_share_is_that_of_the_fraction(fraction, seed):
    """Over many documents the validation share lies within five standard deviations."""
    count = 20_000
    parts = [part_of(f"sha256:{i:064x}", seed=seed, fraction=fraction) for i in range(count)]

    deviation = (fraction * (1 - fraction) / count) ** 0.5
    assert abs(parts.count("validation") / count - fraction) < 5 * deviation


def test_seeds_give_different_splits():
    """Another seed puts other documents aside."""
    chosen = [
        {i for i in range(1000) if part_of(f"sha256:{i:064x}", seed=s, fraction=0.1) == "validation"}
        for s in (1, 2)
    ]

    assert len(chosen[0] & chosen[1]) < min(map(len, chosen)) / 2
