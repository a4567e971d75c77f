"""Numbers of a document, however its bytes arrive."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.data.quality.statistics import Counter, of_text


@given(
    st.binary(max_size=400) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")),
    st.integers(1, 50),
)
def test_pieces_make_no_difference(raw, size):
    """A document fed in pieces has the numbers of the whole, computed here in the plain way."""
    counter = Counter()
    for start in range(0, len(raw), size):
        counter.feed(raw[start : start + size])
    found = counter.statistics()
    lines = raw.removesuffix(b"\n").split(b"\n") if raw else []

    assert found.sha256 == "sha256:" + hashlib.sha256(raw).hexdigest()
    assert (len(raw), len(lines), raw.count(0)) == (found.bytes, found.lines, found.nul)
    assert max(map(len, lines), default=0) == found.longest_line
    assert sum((b < 32 and b not in b"\t\n\v\f\r") or b == 127 for b in raw) == found.control_characters
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        assert not found.encoding_valid
    else:
        assert found == of_text(raw) == of_text(raw, text)
        assert found.encoding_valid
        assert len(text) == found.characters
        assert (sum(map(str.isalpha, text)) / len(text) if text else 0.0) == pytest.approx(
            found.alphabetic_ratio
        )


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        pytest.param(b"", 0.0, id="nothing"),
        pytest.param(b"a\nb\nc\n", 0.0, id="all different"),
        pytest.param(b"aa\naa\naa\naa\n", 0.75, id="one line four times"),
        pytest.param(b"\n\n\n\n", 0.0, id="blank lines do not count"),
        pytest.param(b"  x\nx\n", 1 / 3, id="indentation does not hide a repeat"),
    ],
)
def test_repetition(text, ratio):
    """The share of bytes in lines that occurred before."""
    assert ratio == of_text(text).repetition_ratio


def test_a_gigantic_line_is_not_kept():
    """A line of many megabytes is measured but not held."""
    counter = Counter()
    for _ in range(64):
        counter.feed(b"x" * (1 << 20))

    assert 64 << 20 == counter.statistics().longest_line
    assert len(counter._tail) <= 4096
