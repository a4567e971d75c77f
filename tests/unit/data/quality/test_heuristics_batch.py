"""Many documents at once have the numbers of each alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.corpora import documents

from pretrain_archive.data.quality import heuristics_batch
from pretrain_archive.data.quality.heuristics import COLUMNS, measure
from pretrain_archive.data.quality.heuristics_batch import measure_many

PIECES = st.sampled_from([
    "the", "be", " ", "\n", "\n\n", "a b c d e f ", "a b c d e f ", "word", "word word ", "#", "...", "…", "{}", "- ",
    "的", "是", "中文字", "。", "，", "“x”", "—", "\u3000", "\x1c", "\t", "é", "naïve ", "12", "½", "😀", "\ufffd",
    "antidisestablishmentarianism ", "x" * 70, "\x00", "the\x00", "\u2028", "한국어", "ไทย", "Lorem ipsum",
])  # fmt: skip
TEXTS = st.lists(PIECES, max_size=40).map("".join)


def both(texts: list[str]) -> tuple[list, list]:
    """The numbers of each document alone, and of all together."""
    raws = [text.encode() for text in texts]
    alone = [measure(text, raw) for text, raw in zip(texts, raws, strict=True)]
    return [pytest.approx(numbers, rel=1e-12, abs=1e-12) for numbers in alone], measure_many(texts, raws)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(TEXTS, st.text(max_size=60)), max_size=12))
def test_together_as_alone(texts):
    """Whatever texts stand beside one another, each has its own numbers."""
    alone, together = both(texts)

    assert alone == together


@pytest.mark.requirement("R047")
def test_a_corpus_together_as_alone():
    """The same for believable documents, in English and Chinese."""
    texts = list(documents(7, 400))
    alone, together = both(texts)

    assert any(not text.isascii() for text in texts)
    assert alone == together
    assert all(len(COLUMNS) == len(numbers) for numbers in together)


def test_large_and_many(monkeypatch):
    """A large document is measured alone, and more than a batch holds are measured in several."""
    monkeypatch.setattr(heuristics_batch, "LARGE", 100)
    monkeypatch.setattr(heuristics_batch, "MOST", 3)
    alone, together = both([f"word {n} of the words " * (n % 7) for n in range(40)])

    assert alone == together


@pytest.mark.parametrize("length", [9, 16, 17, 24, 63, 64, 65, 200])
def test_words_that_differ_in_their_last_character(length):
    """However long they are, they are two words: no pair of them repeats."""
    stem = "w" * (length - 1)
    alone, together = both([f"{stem}a {stem}b {stem}c {stem}d", f"{stem}a {stem}b {stem}a {stem}b"])

    assert alone == together
    assert together[0] != together[1]
