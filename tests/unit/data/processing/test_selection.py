"""Choosing by seeded hash, repeats, and putting another text into a line."""

from __future__ import annotations

import hashlib
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.data.processing.repeats import Repeats
from pretrain_archive.data.processing.selection import EVERYTHING, Survey, seeded_hash
from pretrain_archive.data.processing.splicing import replace_text

ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 2**64 - 1), st.integers(1, 9)), min_size=1, max_size=60
)
NEAR = st.lists(st.tuples(st.just("a"), st.integers(2**40, 2**40 + 30), st.integers(1, 9)), min_size=1)


def bounds(rows, wanted):
    """The bounds of ``wanted`` over ``rows``."""
    survey = Survey()
    for group, value, size in rows:
        survey.add(group, value, size)
    found = survey.bounds(wanted)
    survey.close()
    return found


@given(st.one_of(ROWS, NEAR), st.integers(0, 300))
def test_bound_is_exact(rows, limit):
    """What lies below the bound fits, and with the next larger hash it would not."""
    bound = bounds(rows, {"a": limit})["a"]
    mine = [(value, size) for group, value, size in rows if group == "a"]
    below = sum(size for value, size in mine if value < bound)

    assert below <= limit
    if bound < EVERYTHING and (rest := [value for value, _ in mine if value >= bound]):
        assert below + sum(size for value, size in mine if value == min(rest)) > limit


@given(ROWS, st.integers(0, 300), st.randoms(use_true_random=False))
def test_order_of_reading_has_no_say(rows, limit, chance):
    """The same documents in any order give the same bound."""
    shuffled = list(rows)
    chance.shuffle(shuffled)

    assert bounds(rows, {"a": limit}) == bounds(shuffled, {"a": limit})


def test_seeds_and_purposes_differ():
    """Another seed, or another purpose, is another order."""
    digest = "sha256:" + "0" * 64

    assert 3 == len(
        {seeded_hash("mix", 1, digest), seeded_hash("mix", 2, digest), seeded_hash("sample", 1, digest)}
    )


@given(st.lists(st.integers(0, 12), max_size=80))
def test_repeats_are_all_but_the_first(values):
    """A key's first document is kept, each later one is a repeat."""
    repeats, seen, expected = Repeats(), set(), []
    for value in values:
        repeats.add(hashlib.sha256(str(value).encode()).digest())
        expected.append(value in seen)
        seen.add(value)
    repeats.settle()

    assert expected == [repeats.is_repeat(number) for number in range(len(values))]


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6,
)  # fmt: skip


@given(st.dictionaries(TEXT, VALUES, max_size=4), TEXT, TEXT, st.booleans())
def test_only_the_text_changes(others, old, new, ascii_only):
    """Of any record only the value of its text is another one afterwards."""
    record = {**others, "text": old}
    names = list(record)
    random.Random(len(old)).shuffle(names)
    raw = json.dumps({name: record[name] for name in names}, ensure_ascii=ascii_only, indent=None).encode()

    assert record | {"text": new} == json.loads(replace_text(raw + b"\n", "text", new))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            '{"n":1e400,"text":"a" , "x": [ 1 ]}\n', '{"n":1e400,"text":"é" , "x": [ 1 ]}\n', id="spaces"
        ),
        pytest.param('{"text":"a","text":"b"}', '{"text":"a","text":"é"}', id="the last of two counts"),
        pytest.param(
            '{"t":{"text":"in"},"text":"a"}', '{"t":{"text":"in"},"text":"é"}', id="not an inner one"
        ),
    ],
)
def test_other_bytes_stay(raw, expected):
    """Numbers that no float holds, spaces and order stay byte for byte."""
    assert expected.encode() == replace_text(raw.encode(), "text", "é")
