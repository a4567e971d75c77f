"""Intervals and differences: what chance alone could do."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pretrain_archive.artifacts.intervals import difference, normal, wilson
from pretrain_archive.domain.kinds import MetricResult


def share(value: float, samples: int | None, direction: str = "higher", **more: Any) -> MetricResult:
    """A share of counts with its Wilson interval."""
    low, high = (None, None) if samples is None else wilson(value, samples)
    known = {"name": "acc", "unit": "share", "direction": direction, "value": value, "samples": samples}
    return MetricResult.model_validate({**known, "low": low, "high": high, **more})


def test_the_difference_of_two_shares_is_that_of_newcombe() -> None:
    """56 of 70 against 48 of 80: 0.2 from 0.0524 to 0.3339 (Newcombe 1998, table II, method 10, example a)."""
    found = difference(share(56 / 70, 70), share(48 / 80, 80), name="old")

    assert (0.2, 0.0524, 0.3339) == tuple(
        round(float(v or 0), 4) for v in (found.difference, found.low, found.high)
    )
    assert "better" == found.told


def test_the_difference_of_two_means_is_the_normal_one() -> None:
    """With symmetric intervals the errors add up as squares."""
    low, high = normal(2.0, 0.3)
    left = share(2.0, None, "lower", low=low, high=high, unit="nats per token")
    low, high = normal(3.0, 0.4)
    right = share(3.0, None, "lower", low=low, high=high, unit="nats per token")

    found = difference(left, right, name="old")

    assert normal(-1.0, 0.5) == pytest.approx((found.low, found.high))
    assert "better" == found.told


@pytest.mark.parametrize(
    ("left", "right", "direction", "told"),
    [
        pytest.param(0.9, 0.5, "higher", "better", id="higher and more"),
        pytest.param(0.5, 0.9, "higher", "worse", id="higher and less"),
        pytest.param(0.5, 0.9, "lower", "better", id="lower and less"),
        pytest.param(0.9, 0.5, "lower", "worse", id="lower and more"),
        pytest.param(0.52, 0.5, "higher", "not told apart", id="too close"),
        pytest.param(0.5, 0.5, "higher", "not told apart", id="equal"),
    ],
)
def test_the_outcome_follows_the_direction(left: float, right: float, direction: str, told: str) -> None:
    """Better is what the direction says, and only where the interval leaves out 0."""
    assert told == difference(share(left, 100, direction), share(right, 100, direction), name="old").told


def test_without_counts_there_is_no_interval_and_it_is_said_whose() -> None:
    """The difference stands, the outcome does not."""
    found = difference(share(0.9, 100), share(0.1, None), name="old")

    assert pytest.approx(0.8) == found.difference
    assert (None, "no interval") == (found.low, found.told)
    assert "no interval: old has no counts and no standard error" == found.reason
    other = difference(share(0.9, None), share(0.1, 100), name="old")
    assert "no interval: the candidate has no counts and no standard error" == other.reason


def test_a_value_that_is_not_finite_is_no_difference() -> None:
    """NaN is neither better nor worse."""
    nothing = share(0.5, 10).model_copy(update={"value": None, "not_finite": "nan", "low": None})

    assert ("no interval", None) == (difference(nothing, share(0.5, 10), name="old").told,
                                     difference(nothing, share(0.5, 10), name="old").difference)  # fmt: skip


COUNTS = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS, COUNTS)
def test_the_other_way_round_says_the_opposite(left: tuple[int, int], right: tuple[int, int]) -> None:
    """The interval holds its difference, lies within -1 and 1, and turns with the sides."""
    one, two = share(left[0] / left[1], left[1]), share(right[0] / right[1], right[1])
    there, back = difference(one, two, name="b"), difference(two, one, name="a")

    assert there.difference is not None
    assert there.low is not None
    assert there.high is not None
    assert -1 - 1e-9 <= there.low <= there.difference + 1e-9
    assert there.difference - 1e-9 <= there.high <= 1 + 1e-9
    assert pytest.approx(-there.high) == back.low
    assert pytest.approx(-there.low) == back.high
    assert {"better": "worse", "worse": "better"}.get(there.told, there.told) == back.told


@given(st.floats(), st.floats())
def test_a_normal_interval_needs_finite_numbers(value: float, stderr: float) -> None:
    """Anything else is refused, not turned into an interval."""
    if math.isfinite(value) and math.isfinite(stderr) and stderr >= 0:
        low, high = normal(value, stderr)
        assume(math.isfinite(low) and math.isfinite(high))
        assert low <= value <= high
    else:
        with pytest.raises(ValueError, match="finite value and standard error"):
            normal(value, stderr)
