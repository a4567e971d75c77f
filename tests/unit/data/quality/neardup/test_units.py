"""Units and shingles: the vector operations against the same rule written plainly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain_archive.data.quality.neardup import units
from pretrain_archive.data.quality.neardup.units import cut, ranges, shingles

TEXTS = st.lists(st.text(st.sampled_from("ab1. \n中文한ไé😀𠀀-"), max_size=40), min_size=1, max_size=6)


def spans(text: str) -> list[bytes]:
    """The units of one text as bytes."""
    raw = text.encode()
    found = cut([raw])
    ends = [*found.starts[1:].tolist(), len(raw)][: len(found.starts)]
    return [raw[a:b].rstrip() for a, b in zip(found.starts.tolist(), ends, strict=True)]


def sets(texts: list[str], k: int = 5) -> list[set[int]]:
    """The shingle hashes of each text."""
    hashes, offsets, _ = shingles([text.encode() for text in texts], k)
    return [set(hashes[a:b].tolist()) for a, b in pairwise(offsets.tolist())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("two  words\n", ["two", "words"], id="runs between blanks"),
        pytest.param("你好 world世界", ["你", "好", "world", "世", "界"], id="Han characters are units"),
        pytest.param("ひらカタ。", ["ひ", "ら", "カ", "タ", "。"], id="Kana and its full stop"),
        pytest.param("한국어 말", ["한국어", "말"], id="Hangul has blanks"),
        pytest.param("ไทย", ["ไ", "ท", "ย"], id="Thai"),
        pytest.param("𠀀𠀁a", ["𠀀", "𠀁", "a"], id="Han of four bytes"),
        pytest.param("😀😀", ["😀😀"], id="other characters of four bytes"),
        pytest.param("short(a,b)", ["short(a,b)"], id="a short run is whole"),
        pytest.param(
            "function(first,second){return(first+second)}",
            ["function", "(", "first", ",", "second", "){", "return", "(", "first", "+", "second", ")}"],
            id="a long run is cut at punctuation",
        ),
        pytest.param(f"{'x' * 40} ({'y' * 40}", ["x" * 40, "(", "y" * 40], id="long runs side by side"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_units(text, expected):
    """A text is cut into the units that its script has."""
    assert expected == [unit.decode() for unit in spans(text)]


@given(texts=TEXTS, k=st.integers(1, 6))
def test_shingles_are_sets_of_neighbours(texts, k):
    """Two texts share as many hashes as they share distinct runs of k units, and a short text has one of its own."""

    def plain(text):
        found = spans(text)
        if len(found) < k:
            return {(len(found), *found)} if found else set()
        return {tuple(found[i : i + k]) for i in range(len(found) - k + 1)}

    hashed, expected = sets(texts, k), [plain(text) for text in texts]
    for one, expected_one in zip(hashed, expected, strict=True):
        for two, expected_two in zip(hashed, expected, strict=True):
            assert len(expected_one & expected_two) == len(one & two)


@given(texts=TEXTS)
def test_neighbours_in_a_batch_do_not_matter(texts):
    """A text has the same shingles alone and beside others."""
    assert [sets([text])[0] for text in texts] == sets(texts)


@settings(max_examples=25, deadline=None)
@given(words=st.lists(st.sampled_from(["alpha", "beta", "中文", "c" * 40, "x-y"]), min_size=30, max_size=120))
def test_a_long_text_has_the_same_shingles_in_pieces(words):
    """Pieces of a long text overlap so that no shingle is lost and none is added."""
    text = " ".join(f"{word}{number % 7}" for number, word in enumerate(words))
    whole, before = sets([text]), units.PIECE
    units.PIECE = 200
    try:
        assert whole == sets([text])
    finally:
        units.PIECE = before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("4|7|210$ 5|8|344$ 6|1|905$", True, id="cells of numbers"),
        pytest.param("2024-01-05 12:00 17.5 18.25", True, id="dates and decimals"),
        pytest.param("w123 w456 w789", False, id="names with numbers"),
        pytest.param("one 2 three 4 five", False, id="prose with numbers"),
        pytest.param("你好 2024 世界 42 再见", False, id="Chinese with numbers"),
        pytest.param("été 1 où 2 ça", False, id="letters that are not ASCII"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_number_tables(text, expected):
    """A text is a table of numbers if more than half of its units have no letter."""
    assert expected == bool(shingles([text.encode()], 5)[2][0])


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)), max_size=8))
def test_ranges(pairs):
    """Ranges follow each other, empty ones too."""
    starts, lengths = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    expected = [number for start, length in pairs for number in range(start, start + length)]
    assert expected == ranges(starts, lengths).tolist()
