"""The row of a document: of a very long text the heuristics see the beginning, and its words are counted to the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretrain_archive.data.quality.heuristics import COLUMNS, words_of
from pretrain_archive.data.quality.readers.base import Text
from pretrain_archive.data.quality.scanning import meter
from pretrain_archive.data.quality.scanning.plan import Measures

LIMIT = 4000
TEXTS = [
    pytest.param("The quick brown fox.\n" * 1000, id="lines"),
    pytest.param("lazy dogs " * 2000, id="one line"),
    pytest.param("数据质量 is 好的。\n" * 1500, id="Chinese"),
    pytest.param("x" * 3 * LIMIT + " y\n" * 2000, id="a word longer than the limit"),
]


def measured(*texts: str) -> list[dict]:
    """The rows of texts by column."""
    made = meter.Meter(Measures(), Path("none"))
    units = [Text(path="a", line=n, raw=text.encode(), text=text) for n, text in enumerate(texts)]
    return [dict(zip(made.columns, row, strict=True)) for row, _ in made.documents(units, 0)]


@pytest.mark.requirement("R046")
@pytest.mark.parametrize("text", TEXTS)
def test_a_long_text_is_measured_by_its_beginning(text, monkeypatch):
    """Its heuristics are those of the beginning alone; bytes, lines and words are those of all of it."""
    monkeypatch.setattr(meter, "MEASURED", LIMIT)
    seen: list[str] = []
    batch = meter._heuristics

    def watched(measures):
        inner, place = batch(measures)
        return (lambda texts, raws: seen.extend(texts) or inner(texts, raws)), place

    monkeypatch.setattr(meter, "_heuristics", watched)
    (row,) = measured(text)
    (begun,) = seen
    (alone,) = measured(begun)

    assert text.startswith(begun)
    assert LIMIT // 2 < len(begun) <= LIMIT
    assert (len(text.encode()), len(text)) == (row["bytes"], row["characters"])
    whole = sum(1 for _ in words_of(text))
    assert whole <= row["tokens"] == row["words"] <= whole + len(text) // LIMIT
    rest = set(COLUMNS) - {"words"}
    assert {name: alone[name] for name in rest} == {name: row[name] for name in rest}


def test_a_text_at_the_limit_is_measured_whole(monkeypatch):
    """Up to the limit nothing is left out."""
    text = "The quick brown fox jumps over the lazy dog.\n" * 50
    (expected,) = measured(text)
    monkeypatch.setattr(meter, "MEASURED", len(text))

    assert [expected] == measured(text)
