"""How many files to read so that a change of a stated extent would have been seen, and which.

Discovery sampling as auditors use it (H. Arkin, Handbook of Sampling for Auditing and Accounting): of N files K
have changed; n are drawn without replacement, each file alike. That none of the K is drawn has the hypergeometric
probability C(N-K, n) / C(N, n). The smallest n is taken that brings it down to 1 - confidence. Files are counted, not
bytes: a changed share of 0.001 is one file in a thousand, however large or small that file is. A sample says nothing
about fewer changed files than that.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain.errors import InputError

ROUNDING = 1e-10
"""Above the rounding error of the sums of logarithms: it makes a sample larger by one file at most, never smaller."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRule:
    """If at least the share ``max_changed`` of files changed, one is seen with probability ``confidence``.

    The draw follows from ``seed`` and the number of files alone, so that it can be repeated.
    """

    confidence: float
    max_changed: float
    seed: int

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InputError("confidence", self.confidence, "is not between 0 and 1", hint="Try 0.99.")
        if not 0 < self.max_changed <= 1:
            raise InputError("max_changed", self.max_changed, "is no share above 0", hint="Try 0.001.")

    def size(self, files: int) -> int:
        """How many of ``files`` are read."""
        return sample_size(files, confidence=self.confidence, changed=changed_files(files, self.max_changed))

    def drawn(self, files: int) -> Iterator[bool]:
        """For each file, in the order of the manifest, whether it is read (Knuth's algorithm S)."""
        numbers = random.Random(self.seed)  # noqa: S311 - a draw that anybody can repeat
        wanted = self.size(files)
        for left in range(files, 0, -1):
            taken = numbers.random() * left < wanted
            wanted -= taken
            yield taken

    def to_json(self, files: int) -> dict[str, Any]:
        """What a report says about the sample."""
        return {
            "drawn": self.size(files), "files": files, "confidence": self.confidence,
            "max_changed": self.max_changed, "seed": self.seed, "weighted_by": "files",
        }  # fmt: skip

    def told(self, files: int) -> str:
        """The sample in words."""
        return (
            f"sampled: {self.size(files)} of {files} files, confidence {self.confidence:g} to see a change of at least "
            f"{changed_files(files, self.max_changed)} files ({self.max_changed:g} of them), seed {self.seed}"
        )


def new_seed() -> int:
    """A seed that nobody could foresee: whoever changes a file cannot know which are drawn."""
    return random.SystemRandom().getrandbits(48)


def changed_files(files: int, share: float) -> int:
    """The smallest number of files that is at least the ``share``, and at least one."""
    return max(1, math.ceil(share * files * (1 - 1e-12)))


def sample_size(files: int, *, confidence: float, changed: int) -> int:
    """The smallest sample that meets one of ``changed`` among ``files`` with probability ``confidence``."""
    limit = math.log1p(-confidence) - ROUNDING
    low, high = 0, max(0, files - changed + 1)
    while low < high:
        middle = (low + high) // 2
        if log_missed(files, changed, middle) <= limit:
            high = middle
        else:
            low = middle + 1
    return min(low, files)


def log_missed(files: int, changed: int, drawn: int) -> float:
    """The logarithm of the probability that ``drawn`` of ``files`` hold none of the ``changed`` ones."""
    fewer, more = sorted((changed, drawn))
    if fewer + more > files:
        return -math.inf
    # C(N-K, n) / C(N, n) = C(N-n, K) / C(N, K): the shorter of the two products.
    return math.fsum(math.log1p(-more / (files - at)) for at in range(fewer))
