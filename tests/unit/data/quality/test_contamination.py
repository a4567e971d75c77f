"""Contamination of benchmark items by n-gram overlap."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pretrain_archive.data.quality.contamination import Grams, ItemGrams, words_only
from pretrain_archive.domain.errors import InputError

WORDS = [f"word{n}" for n in range(40)]


def text(begin: int, end: int) -> str:
    """Words begin to end."""
    return " ".join(WORDS[begin:end])


def look(items, training, settings=Grams()):  # noqa: B008 - frozen
    """Look for items in training documents, numbered from 100 and from 0."""
    grams = ItemGrams(settings=settings)
    grams.add([100 + n for n in range(len(items))], items)
    grams.look(list(range(len(training))), training)
    return grams.result()


@pytest.mark.requirement("R047")
@pytest.mark.parametrize(
    ("item", "training", "expected"),
    [
        pytest.param(text(0, 20), "x " + text(5, 18) + " y", True, id="thirteen words in a row"),
        pytest.param(text(0, 20), "x " + text(5, 17) + " y", False, id="twelve of a longer item"),
        pytest.param(text(0, 9), "x " + text(0, 9) + " y", True, id="a short item as a whole"),
        pytest.param(text(0, 9), "x " + text(0, 8) + " y", False, id="a part of a short item"),
        pytest.param(text(0, 8), text(0, 8), True, id="the shortest item, the whole document"),
        pytest.param(text(0, 7), text(0, 7), False, id="too short to be tested"),
        pytest.param("Word0, WORD1: " + text(2, 13) + "!", "(" + text(0, 13) + ")", True, id="case and punctuation"),
        pytest.param("été à " + text(2, 13), "ÉTÉ,  a\u0300\n" + text(2, 13), True, id="beyond ASCII"),
        pytest.param("今天天气很好我们去公园散步吧朋友", "听说今天天气很好,我们去公园散步吧", True, id="Chinese"),
        pytest.param("", text(0, 20), False, id="an empty item"),
        pytest.param(text(0, 20), "", False, id="an empty document"),
        pytest.param(text(0, 13) + " 7", text(1, 13) + " 8", False, id="another number"),
    ],
)  # fmt: skip
def test_what_contaminates_an_item(item, training, expected):
    """An item is contaminated by what the published rule names and by nothing less."""
    assert expected == bool(look([item], [training]).contaminated)


def test_result_says_what_and_where():
    """Counts, the first document and the shared n-grams are told; too short items are no clean ones."""
    result = look([text(0, 15), "short", text(20, 40)], ["nothing", text(0, 14), text(0, 15)])
    assert (3, 2, 1, 1, 3) == (
        result.items,
        result.tested,
        result.too_short,
        result.contaminated,
        result.training_documents,
    )
    assert [{"item": 100, "document": 1, "shared": 3, "grams": 3}] == result.to_json()["examples"]


def test_formulas_are_told_apart():
    """An item that shares only an n-gram of many documents is contaminated, but not by a rare one."""
    licence = text(0, 13)
    result = look([licence, text(13, 26)], [f"{licence} {n}" for n in range(11)] + [text(13, 26)] * 10)
    assert (2, 1) == (result.contaminated, result.rare)
    assert 2 == look([licence, text(13, 26)], [licence + " " + licence] * 10 + [text(13, 26)]).rare


@given(
    items=st.lists(st.lists(st.sampled_from("abc"), max_size=7), min_size=1, max_size=5),
    training=st.lists(st.lists(st.sampled_from("abc"), max_size=9), min_size=1, max_size=5),
    cut=st.integers(0, 5),
)
def test_equals_plain_search(items, training, cut):
    """On any texts the hashed search finds what a search over lists of words finds, in one batch or in two."""

    def grams(words, n):
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}

    def hit(words):
        n = min(4, len(words))
        return len(words) >= 2 and any(grams(words, n) & grams(other, n) for other in training)

    found = ItemGrams(settings=Grams(n=4, least=2))
    texts = [" ".join(words) for words in training]
    found.add(list(range(len(items))), [" ".join(words) for words in items])
    found.look(list(range(cut)), texts[:cut])
    found.look(list(range(cut, len(texts))), texts[cut:])
    assert sum(map(hit, items)) == found.result().contaminated


def test_items_come_first():
    """Items cannot be added once training documents were looked at."""
    grams = ItemGrams()
    grams.look([0], ["text"])
    with pytest.raises(ValueError, match="items come before"):
        grams.add([0], ["text"])


@given(st.text(max_size=30))
@example("a\x1fb\x1cC")
def test_form_of_ascii_is_the_general_form(plain):
    """The fast form of ASCII texts has the same words as the general one."""
    assert words_only(plain).split() == words_only("é " + plain).split()[1:]


@pytest.mark.parametrize("changes", [{"n": 0}, {"least": 14}, {"least": 0}, {"common": 0}])
def test_settings_that_cannot_be_used_are_refused(changes):
    """A setting outside its range is named."""
    with pytest.raises(InputError, match=next(iter(changes))):
        Grams(**changes)


def test_more_items_than_memory_holds():
    """A corpus in the place of a benchmark is refused before it fills the memory."""
    grams = ItemGrams(most=30)
    grams.add([0], [text(0, 40)])

    with pytest.raises(InputError, match="more than 30 n-grams"):
        grams.add([1], [text(0, 40)])
