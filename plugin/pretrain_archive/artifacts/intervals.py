"""Confidence intervals where counts or a standard error allow one, and the difference between two values.

An interval says how much a number could move by chance. Where neither counts nor a standard error are recorded
there is none, and the outcome of a comparison is *no interval*: never a guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

from pretrain_archive.domain.kinds import MetricResult

CONFIDENCE = 0.95
Told = Literal["better", "worse", "not told apart", "no interval"]


def wilson(share: float, samples: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The Wilson score interval of a ``share`` (0 to 1) observed in ``samples`` independent trials.

    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of the
    American Statistical Association 22 (1927), 209–212. Unlike the normal approximation it stays within
    0 and 1 and does not shrink to nothing at share 0 or 1. Raises ``ValueError`` outside these ranges.
    """
    if samples < 1 or not 0 <= share <= 1 or not 0 < confidence < 1:
        raise ValueError(
            f"an interval needs a share in 0..1 of at least one sample, got {share} of {samples}"
        )
    z = _z(confidence)
    shrink = 1 + z * z / samples
    centre = (share + z * z / (2 * samples)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples))
    return max(0.0, centre - half), min(1.0, centre + half)


def normal(value: float, stderr: float, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The normal interval of a mean from its standard error: value ± z · stderr.

    Raises ``ValueError`` for a standard error that is negative, or one of the two that is not finite.
    """
    if not (math.isfinite(value) and math.isfinite(stderr) and stderr >= 0 and 0 < confidence < 1):
        raise ValueError(f"an interval needs a finite value and standard error, got {value} and {stderr}")
    half = _z(confidence) * stderr
    return value - half, value + half


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Candidate minus baseline of one metric, with its interval where both sides have one."""

    baseline: str
    metric: str
    difference: float | None
    low: float | None
    high: float | None
    told: Told
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The difference as plain JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def difference(candidate: MetricResult, baseline: MetricResult, *, name: str) -> Difference:
    """How far a metric is from the ``name``d baseline's, and whether chance alone could make the difference.

    The interval of a difference is made of the two intervals (method of variance estimates recovery: G. Zou and
    A. Donner, Statistics in Medicine 27 (2008), 1693–1702); with two Wilson intervals that is Newcombe's hybrid
    score interval (R. G. Newcombe, Statistics in Medicine 17 (1998), 873–890, method 10). The two are taken as
    independent: measured on the same samples the true interval is narrower, so that *not told apart* errs on the
    careful side.
    """
    left, right = candidate.value, baseline.value
    if left is None or right is None:
        return _none(name, candidate, None, "a value is not a finite number")
    gap = left - right
    if not math.isfinite(gap):
        return _none(name, candidate, None, "the difference is not a finite number")
    ends = (candidate.low, candidate.high, baseline.low, baseline.high)
    if any(end is None for end in ends):
        side = name if candidate.low is not None and candidate.high is not None else "the candidate"
        return _none(name, candidate, gap, f"no interval: {side} has no counts and no standard error")
    low_1, high_1, low_2, high_2 = (float(end) for end in ends if end is not None)
    low = gap - math.hypot(left - low_1, high_2 - right)
    high = gap + math.hypot(high_1 - left, right - low_2)
    if not (math.isfinite(low) and math.isfinite(high)):
        return _none(name, candidate, gap, "no interval: it is not finite")
    told: Told = "not told apart"
    if low > 0 or high < 0:
        told = "better" if (low > 0) == (candidate.direction == "higher") else "worse"
    return Difference(
        baseline=name, metric=candidate.name, difference=gap, low=low, high=high, told=told
    )  # fmt: skip


def _none(name: str, candidate: MetricResult, gap: float | None, reason: str) -> Difference:
    return Difference(
        baseline=name, metric=candidate.name, difference=gap, low=None, high=None, told="no interval",
        reason=reason,
    )  # fmt: skip


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
