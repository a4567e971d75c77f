"""n-gram models, the choice of scored bytes and bits per byte agree with slow, plain computations."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path

import configuration
import corpus
import ngram
import numpy as np
import pytest
import scoring
import torch
from contract import TrainerError
from model import build_model

BOUNDARY = 256


def _corpus(documents: list[bytes]) -> corpus.Corpus:
    symbols = [s for text in documents for s in (BOUNDARY, *text)]
    return corpus.Corpus(
        stream=np.array(symbols, dtype=np.uint16),
        documents=len(documents),
        size=sum(map(len, documents)),
        digest="sha256:" + "0" * 64,
    )


def _documents(seed: int, count: int, longest: int) -> list[bytes]:
    chance = random.Random(seed)
    return [bytes(chance.choices(b"abcd \n", k=chance.randint(0, longest))) for _ in range(count)]


def _plain_probability(documents: list[bytes], history: tuple[int, ...], byte: int) -> float:
    """p(byte | history) by the formula, recomputed from all documents; the history's last symbol is the newest."""
    if not history:
        below, grams = 1 / 256, Counter((b,) for text in documents for b in text)
    else:
        below = _plain_probability(documents, history[1:], byte)
        n = len(history)
        padded = [((BOUNDARY,) * n, text) for text in documents]
        grams = Counter(
            (*(*pad, *text)[i : i + n], text[i]) for pad, text in padded for i in range(len(text))
        )
    after = {gram[-1]: c for gram, c in grams.items() if gram[:-1] == history}
    total, kinds = sum(after.values()), len(after)
    return below if not total else (after.get(byte, 0) + kinds * below) / (total + kinds)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_ngram_agrees_with_the_formula(order: int) -> None:
    """Every position of unseen documents gets the probability of the formula, also at document starts."""
    seen, unseen = _documents(1, 6, 60), [b"abca", b"", b"zz d\nab", b"\xff"]
    data = _corpus(unseen)
    positions = np.flatnonzero(data.stream != BOUNDARY)
    got = ngram.count(_corpus(seen).stream, order).bits(data.stream, positions)
    expected = [
        -math.log2(
            _plain_probability(seen, ((BOUNDARY,) * order + tuple(text[:i]))[i + 1 :][: order - 1], byte)
        )
        for text in unseen
        for i, byte in enumerate(text)
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_ngram_probabilities_add_up_to_one() -> None:
    """After a seen and an unseen context the 256 probabilities sum to one."""
    counts = ngram.count(_corpus(_documents(2, 5, 80)).stream, 3)
    for context in (b"ab", b"\x00\xff"):
        streams = [np.array([BOUNDARY, *context, byte], dtype=np.uint16) for byte in range(256)]
        total = sum(float(2 ** -counts.bits(stream, np.array([3]))[0]) for stream in streams)
        assert pytest.approx(1.0, abs=1e-12) == total


def test_lower_orders_equal_direct_counts() -> None:
    """Counts of order 2 taken from order 4 are the counts of order 2, and so is their digest."""
    stream = _corpus(_documents(3, 9, 50)).stream
    assert ngram.count(stream, 2).digest == ngram.count(stream, 4).lower(2).digest
    assert ngram.count(stream, 2).digest != ngram.count(stream[:-1], 2).digest


@pytest.mark.parametrize("limit", [1, 7, 40, 200, 10_000])
def test_the_sample_keeps_its_limit(limit: int) -> None:
    """No boundary is scored, no byte twice, the limit holds, and no limit means every byte."""
    data = _corpus(_documents(4, 12, 70))
    sample = scoring.choose(data, context=16, limit=limit)
    assert len(set(sample.positions.tolist())) == sample.size
    assert BOUNDARY not in data.stream[sample.positions]
    assert sample.size <= max(limit, 8)
    if limit >= data.size:
        assert np.flatnonzero(data.stream != BOUNDARY).tolist() == sample.positions.tolist()


def test_empty_files_cannot_be_scored() -> None:
    """A validation split without a byte is refused."""
    with pytest.raises(TrainerError, match="all its files are empty"):
        scoring.choose(_corpus([b"", b""]), context=16, limit=100)


def test_model_bits_agree_with_one_position_at_a_time() -> None:
    """Each byte's bits equal those from its own window: nothing after it and no other document is seen."""
    raw = json.loads(Path(configuration.__file__).with_name("demo.json").read_bytes())
    raw["model"] = {"layers": 2, "width": 16, "heads": 2, "context": 16, "previous_bytes": 2}
    settings = configuration.parse_configuration(raw)
    model = build_model(settings)
    with torch.no_grad():  # weights that make every layer matter
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    data = _corpus(_documents(5, 6, 60))
    sample = scoring.choose(data, context=16, limit=150)
    got = dict(zip(sample.positions.tolist(), scoring.model_bits(model, sample, settings), strict=True))
    for start, end, first in zip(sample.start, sample.end, sample.first, strict=True):
        for position in range(start, end):
            seen = data.stream[max(first, end - 1 - 16) : position].astype(np.int64)
            with torch.no_grad():
                logits = model(torch.from_numpy(seen)[None])[0, -1].double()
            bits = -torch.log_softmax(logits, 0)[int(data.stream[position])].item() / math.log(2)
            assert pytest.approx(bits, abs=1e-4) == got[position]


def test_interval_surrounds_the_mean() -> None:
    """The interval holds the mean, and is a point when all blocks agree."""
    data = _corpus([bytes(range(200))])
    sample = scoring.choose(data, context=16, limit=1000)
    bits = np.arange(200) / 100
    low, high = scoring.interval(bits, sample, seed=0)
    assert low < bits.mean() < high
    assert (2.0, 2.0) == scoring.interval(np.full(200, 2.0), sample, seed=0)


def test_the_order_is_a_permutation_by_seed_and_epoch() -> None:
    """Every window comes once per epoch; another epoch or seed has another order."""
    orders = {(s, e): corpus.permutation(997, s, e).tolist() for s in (1, 2) for e in (0, 1)}
    assert all(sorted(order) == list(range(997)) for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) == 4


def test_batches_depend_on_the_position_alone() -> None:
    """Windows asked for in any grouping are the same, also across the end of an epoch."""
    data = _corpus(_documents(6, 10, 100))
    order = corpus.WindowOrder(data, context=8, seed=3)
    far = order.windows - 2
    together = order.batch(far, 5)
    single = np.concatenate([corpus.WindowOrder(data, context=8, seed=3).batch(far + i, 1) for i in range(5)])
    assert together.tolist() == single.tolist()
    assert {"epoch": 1, "offset": 1, "seed": 3, "windows": order.windows} == order.describe(far + 3)
