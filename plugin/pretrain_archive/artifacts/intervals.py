"""Confidence intervals where counts allow one."""

from __future__ import annotations

import math
from statistics import NormalDist


def wilson(share: float, samples: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """The Wilson score interval of a ``share`` (0 to 1) observed in ``samples`` independent trials.

    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of the
    American Statistical Association 22 (1927), 209–212. Unlike the normal approximation it stays within
    0 and 1 and does not shrink to nothing at share 0 or 1. Raises ``ValueError`` outside these ranges.
    """
    if samples < 1 or not 0 <= share <= 1 or not 0 < confidence < 1:
        raise ValueError(
            f"an interval needs a share in 0..1 of at least one sample, got {share} of {samples}"
        )
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    shrink = 1 + z * z / samples
    centre = (share + z * z / (2 * samples)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples))
    return max(0.0, centre - half), min(1.0, centre + half)
