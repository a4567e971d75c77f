"""When two texts are the same: the written rule of each mode, in its plain and its fast form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.data.quality.neardup.normalise import (
    MODES,
    RULES,
    check_mode,
    normalised,
    normalised_bytes,
)
from pretrain_archive.domain.errors import InputError

# Blanks, both Unicode forms, case that folds to more letters, digits, punctuation, scripts without blanks.
AWKWARD = st.text(
    st.sampled_from(" \t\n\u00a0\u3000\x1c\x85aAé\u0301eßİ1.2,-%|$“”。中\u0345\ud800!"), max_size=30
)


@given(text=AWKWARD | st.text(max_size=40) | st.text("a \n", max_size=6), mode=st.sampled_from(MODES))
def test_fast_form_is_the_plain_one(text, mode):
    """The bytes that are compared are those of the normalised text."""
    assert normalised(text, mode).encode("utf-8", "surrogatepass") == normalised_bytes(text, mode)


@given(text=AWKWARD | st.text(max_size=40), mode=st.sampled_from(MODES))
def test_form_is_final(text, mode):
    """Normalising a normalised text changes nothing."""
    once = normalised(text, mode)
    assert once == normalised(once, mode)


@given(text=AWKWARD | st.text("0123456789.,-%|$ \n", max_size=40), mode=st.sampled_from(MODES))
def test_digits_stay(text, mode):
    """No mode maps, drops or reorders a digit."""
    assert [char for char in text if char in "0123456789"] == [
        char for char in normalised(text, mode) if char in "0123456789"
    ]


@pytest.mark.parametrize(
    ("left", "right", "modes"),
    [
        pytest.param("a b", "a b", set(MODES), id="equal"),
        pytest.param("a b", " a \t\n b\n", set(MODES[1:]), id="blanks"),
        pytest.param("a b", "a\u00a0\u3000b", set(MODES[1:]), id="blanks that are not ASCII"),
        pytest.param("a b", "ab", set(), id="a blank or none"),
        pytest.param("café", "cafe\u0301", set(MODES[1:]), id="NFC and NFD"),
        pytest.param("ﬁn", "fin", {"normalised+case", "normalised+case+punctuation"}, id="a ligature is no NFC twin"),
        pytest.param("STRASSE", "straße", {"normalised+case", "normalised+case+punctuation"}, id="case"),
        pytest.param("Wait, stop", "Wait stop", {"normalised+punctuation", "normalised+case+punctuation"},
                     id="punctuation"),
        pytest.param("12 $", "12 €", set(), id="symbols"),
        pytest.param("3.14", "314", set(), id="a decimal point"),
        pytest.param("-5", "5", set(), id="a sign"),
        pytest.param("5%", "5", set(), id="per cent"),
        pytest.param("4|7|210", "2|9|118", set(), id="tables of other numbers"),
    ],
)  # fmt: skip
def test_same_text(left, right, modes):
    """Two texts are the same in exactly the modes whose rule says so."""
    assert modes == {mode for mode in MODES if normalised(left, mode) == normalised(right, mode)}


def test_every_mode_has_its_rule_in_words():
    """A report can state the rule of every mode."""
    assert set(RULES) == set(MODES)


def test_unknown_mode_is_refused():
    """A mode that does not exist is refused with the ones that do."""
    with pytest.raises(InputError, match=r"fuzzy.*normalised\+case"):
        check_mode("fuzzy")
