"""Which validation bytes are scored, and bits per byte of anything that gives a probability to each of them.

Each document is cut into blocks of half a context. Every k-th block of the whole split is scored, with the
smallest k that keeps the scored bytes within a limit; so the sample is spread over all documents, and the
same positions are scored for every model. A byte is predicted from symbols before it in its own document only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from configuration import Configuration
from contract import TrainerError
from corpus import BOUNDARY, Corpus, Indices
from model import IGNORED, Transformer, precision
from torch.nn import functional

WINDOWS_AT_ONCE = 64
RESAMPLES = 1000

Bits = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Scored positions of a stream, block by block.

    Block i covers stream positions ``start[i]`` up to ``end[i]``; ``first[i]`` is the boundary symbol of its
    document. ``every`` is the k of the module's text; ``available`` the bytes of the whole split.
    """

    corpus: Corpus
    start: Indices
    end: Indices
    first: Indices
    every: int
    available: int

    @property
    def positions(self) -> Indices:
        """Scored stream positions, ascending."""
        return np.concatenate([np.arange(a, b) for a, b in zip(self.start, self.end, strict=True)])

    @property
    def size(self) -> int:
        """How many bytes are scored."""
        return int((self.end - self.start).sum())


def choose(corpus: Corpus, *, context: int, limit: int) -> Sample:
    """Choose the blocks to score; raises :class:`TrainerError` when the split has no byte."""
    stream, length = corpus.stream, context // 2
    boundaries = np.flatnonzero(stream == BOUNDARY)
    ends = np.append(boundaries[1:], len(stream))
    blocks = [
        (start, min(start + length, end), first)
        for first, end in zip(boundaries.tolist(), ends.tolist(), strict=True)
        for start in range(first + 1, end, length)
    ]
    if not blocks:
        raise TrainerError("validation split: all its files are empty. Give at least one byte to predict.")
    table = np.array(blocks, dtype=np.int64)
    every = max(1, math.ceil(corpus.size / limit))
    while True:
        start, end, first = table[::every].T
        sample = Sample(corpus=corpus, start=start, end=end, first=first, every=every, available=corpus.size)
        if sample.size <= limit or every >= len(table):
            return sample
        every += 1


def model_bits(model: Transformer, sample: Sample, configuration: Configuration) -> Bits:
    """Bits that the model needs for each scored byte, in the order of :attr:`Sample.positions`."""
    parts: list[Bits] = []
    with torch.no_grad(), precision(configuration):
        for symbols, targets in _windows(sample, configuration.model.context):
            logits = model(torch.from_numpy(symbols)).float()
            wanted = torch.from_numpy(targets).view(-1)
            nats = functional.cross_entropy(
                logits.view(-1, logits.shape[-1]), wanted, ignore_index=IGNORED, reduction="none"
            )
            parts.append(nats[wanted != IGNORED].double().numpy() / math.log(2))
    return np.concatenate(parts)


def interval(bits: Bits, sample: Sample, *, seed: int) -> tuple[float, float]:
    """A 95 % bootstrap interval of the mean, resampling whole blocks because neighbouring bytes depend on each other.

    Percentile bootstrap (Efron and Tibshirani 1993, chapter 13) with 1,000 resamples.
    """
    lengths = sample.end - sample.start
    sums = np.add.reduceat(bits, np.concatenate([[0], np.cumsum(lengths)[:-1]]))
    random = np.random.default_rng(seed)
    drawn = random.integers(0, len(sums), size=(RESAMPLES, len(sums)))
    means = sums[drawn].sum(axis=1) / lengths[drawn].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _windows(sample: Sample, context: int) -> Iterator[tuple[Indices, Indices]]:
    """Input symbols and targets, shape (up to 64, context), padded on the right where nothing looks at it."""
    stream = sample.corpus.stream
    for at in range(0, len(sample.start), WINDOWS_AT_ONCE):
        rows = range(at, min(at + WINDOWS_AT_ONCE, len(sample.start)))
        symbols = np.full((len(rows), context), BOUNDARY, dtype=np.int64)
        targets = np.full((len(rows), context), IGNORED, dtype=np.int64)
        for row, block in enumerate(rows):
            start, end = int(sample.start[block]), int(sample.end[block])
            seen = max(int(sample.first[block]), end - 1 - context)
            symbols[row, : end - 1 - seen] = stream[seen : end - 1]
            targets[row, start - 1 - seen : end - 1 - seen] = stream[start:end]
        yield symbols, targets
