"""Names written as text and read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.data_track import AWKWARD_NAMES, FOREIGN_NAMES

from pretrain_archive.domain.identity import path_to_text, text_to_path

NAMES = st.binary(max_size=60) | st.text(max_size=30).map(lambda text: text.encode("utf-8", "surrogatepass"))


@given(NAMES)
@pytest.mark.case("S01", "S03")
def test_every_name_comes_back(raw):
    """Any bytes survive the way through text, and the text is strict UTF-8 on one line."""
    text = path_to_text(raw)

    assert raw == text_to_path(text)
    assert text == json.loads(json.dumps(text).encode("utf-8"))
    assert text.isprintable()
    assert 1 >= len(text.splitlines())


@given(NAMES, NAMES)
@pytest.mark.case("S01", "S03")
def test_two_names_never_look_the_same(left, right):
    """Different names have different texts."""
    assert (left == right) == (path_to_text(left) == path_to_text(right))


@pytest.mark.case("S01", "S03")
def test_known_twins_stay_apart():
    """A line break and its written-out escape, a bad byte and its replacement mark are told apart."""
    names = AWKWARD_NAMES + FOREIGN_NAMES

    assert len(names) == len({path_to_text(name) for name in names})
    assert ("two%0Alines.txt", "two%250Alines.txt") == (path_to_text(names[1]), path_to_text(names[2]))


@pytest.mark.parametrize("text", ["a%", "a%0", "a%zz", "%0a"])
def test_a_broken_escape_is_refused(text):
    """A text that was not made by us is no name."""
    with pytest.raises(ValueError, match="broken escape"):
        text_to_path(text)
