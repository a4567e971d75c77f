"""What one document costs: heuristics beside plain counting, secrets beside detect-secrets' own line scan."""

# ruff: noqa: T201 - the table is the result

from __future__ import annotations

import random
import time
from collections import Counter

import pytest
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import transient_settings
from tests.support.rounds import rounds

from pretrain_archive.data.quality.heuristics import measure
from pretrain_archive.data.quality.sensitive import Detector, Settings
from pretrain_archive.data.quality.sensitive.secrets import _PLUGINS

WORDS = 350
HEURISTICS_RATIO = 3.0
"""At least so many times as fast as counting each n-gram of Gopher's table with a dictionary."""
SECRETS_RATIO = 10.0
"""At least so many times as fast as detect-secrets over the same lines with the same plugins."""
PERSONAL_RATIO = 6.0
"""All kinds together cost at most so many times the splitting of the text into words."""


def documents(number, seed=1):
    """Prose of words as frequent as natural ones, with some numbers in it."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("etaoinshrdlucmfw", k=chance.randint(2, 10))) for _ in range(20_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    made = []
    for _ in range(number):
        drawn = chance.choices(words, weights, k=WORDS)
        drawn[10::40] = [
            chance.choice(["2024", "3.14", "12:30", "1,234", "1999-2004", "(2019)"]) for _ in drawn[10::40]
        ]
        made.append("\n".join(" ".join(drawn[at : at + 15]) + "." for at in range(0, WORDS, 15)))
    return made


def plain_ngrams(text):
    """Shares of repeated n-grams, counted in the plainest way."""
    words = text.split()
    total = sum(map(len, words))
    shares = []
    for n in range(2, 11):
        counts = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
        repeated = [(gram, count) for gram, count in counts.items() if count > 1]
        shares.append(sum(len("".join(gram)) * count for gram, count in repeated) / total)
    return shares


def seconds(act, texts):
    """Processor seconds that ``act`` takes for all texts."""
    began = time.process_time()
    for text in texts:
        act(text)
    return time.process_time() - began


def compared(ours, peer, texts, *, enough):
    """The best of alternating rounds of both."""
    mine, theirs = [], []
    for _ in rounds(lambda: enough(min(mine), min(theirs))):
        mine.append(seconds(ours, texts))
        theirs.append(seconds(peer, texts))
    return min(mine), min(theirs)


def told(name, ours, peer, texts, limit):
    """Print a line of the table."""
    size = sum(len(text.encode()) for text in texts) / 1e8
    beside = f"peer {peer / size:.1f} s, {peer / ours:.1f} times ours (limit {limit})"
    print(f"\n{name:<24}{ours / size:>8.1f} s per 100 MB; {beside}")


@pytest.mark.bench
def test_heuristics():
    """All published heuristics of a document cost a fraction of the plain count of its n-grams alone."""
    texts = documents(400)

    ours, peer = compared(
        lambda text: measure(text, text.encode()), plain_ngrams, texts,
        enough=lambda a, b: b / a >= HEURISTICS_RATIO,
    )  # fmt: skip

    told("heuristics", ours, peer, texts, HEURISTICS_RATIO)
    assert peer / ours >= HEURISTICS_RATIO


@pytest.mark.bench
def test_secrets():
    """Secrets are looked for far faster than the library does it line by line."""
    texts = documents(60)
    detector = Detector(Settings(kinds=("secret",)))

    def library(text):
        for line in text.splitlines():
            assert not list(scan_line(line))

    with transient_settings({"plugins_used": [{"name": name} for _, name, _, _ in _PLUGINS]}):
        ours, peer = compared(detector.find, library, texts, enough=lambda a, b: b / a >= SECRETS_RATIO)

    told("secrets", ours, peer, texts, SECRETS_RATIO)
    assert peer / ours >= SECRETS_RATIO


@pytest.mark.bench
def test_everything_sensitive():
    """All kinds of sensitive content together are a few times what cutting the text into words costs."""
    texts = documents(400)

    ours, peer = compared(Detector().find, str.split, texts, enough=lambda a, b: a / b <= PERSONAL_RATIO)

    told("sensitive content", ours, peer, texts, f"at most {PERSONAL_RATIO:.0f} times str.split")
    assert ours / peer <= PERSONAL_RATIO
