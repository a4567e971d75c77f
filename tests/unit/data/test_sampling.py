"""The size of a sample against the exact hypergeometric, and the draw."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain_archive.data.sampling import SampleRule, changed_files, new_seed, sample_size
from pretrain_archive.domain.errors import InputError


def missed(files: int, changed: int, drawn: int) -> Fraction:
    """The exact probability that none of the changed files is drawn."""
    return Fraction(comb(files - changed, drawn), comb(files, drawn))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    files=st.integers(1, 3000),
    confidence=st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.999999]),
    data=st.data(),
)
def test_the_size_is_the_smallest_that_suffices(files, confidence, data):
    """At the size the probability of missing all changed files is within the limit, and at one file less it is not."""
    changed = data.draw(st.integers(1, files))
    limit = 1 - Fraction(confidence)

    drawn = sample_size(files, confidence=confidence, changed=changed)

    assert 1 <= drawn <= files - changed + 1
    assert missed(files, changed, drawn) <= limit
    assert missed(files, changed, drawn - 1) > limit * (1 - Fraction(1, 10**8))


@pytest.mark.parametrize(
    ("files", "share", "confidence", "expected"),
    [
        pytest.param(0, 0.5, 0.9, 0, id="nothing"),
        pytest.param(1, 0.001, 0.5, 1, id="one"),
        pytest.param(100, 0.001, 0.99, 100, id="one of a hundred: 0.99 is no more than 99 of 100"),
        pytest.param(10**6, 0.001, 0.99, 4593, id="a million"),
        pytest.param(10**9, 0.001, 0.99, 4603, id="as with replacement: ln 0.01 / ln 0.999"),
        pytest.param(1000, 1.0, 0.99, 1, id="all of them"),
    ],
)
def test_sizes(files, share, confidence, expected):
    """Known values."""
    assert expected == SampleRule(confidence=confidence, max_changed=share, seed=1).size(files)


@pytest.mark.parametrize(
    ("files", "share", "expected"), [(1000, 0.001, 1), (1001, 0.001, 2), (10, 0.3, 3), (5, 1, 5)]
)
def test_a_share_is_rounded_up_to_files(files, share, expected):
    """At least that share, at least one file, and no file more through rounding of the product."""
    assert expected == changed_files(files, share)


def test_the_draw():
    """It has the size that was stated, follows from the seed, and takes each file alike."""
    rule = SampleRule(confidence=0.9, max_changed=0.1, seed=7)
    assert rule.size(60) == sum(rule.drawn(60))
    assert list(rule.drawn(60)) == list(rule.drawn(60))
    assert list(rule.drawn(60)) != list(SampleRule(confidence=0.9, max_changed=0.1, seed=8).drawn(60))
    assert new_seed() != new_seed()

    taken: Counter[int] = Counter()
    for seed in range(4000):
        drawn = SampleRule(confidence=0.9, max_changed=0.1, seed=seed).drawn(60)
        taken.update(number for number, read in enumerate(drawn) if read)
    mean = 4000 * rule.size(60) / 60
    deviation = (mean * (1 - mean / 4000)) ** 0.5
    assert mean - 5 * deviation < min(taken.values()) <= max(taken.values()) < mean + 5 * deviation


@pytest.mark.parametrize(
    "changes", [{"confidence": 0}, {"confidence": 1}, {"max_changed": 0}, {"max_changed": 1.1}]
)
def test_rules_that_mean_nothing(changes):
    """The field is named."""
    with pytest.raises(InputError, match=next(iter(changes))):
        SampleRule(**{"confidence": 0.9, "max_changed": 0.1, "seed": 1} | changes)
