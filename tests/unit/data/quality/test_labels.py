"""Labels: their definition, their balance, and the seeded sample of them."""

from __future__ import annotations

import io
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain_archive.data.quality.documents import Fields, Shard
from pretrain_archive.data.quality.labels import (
    MOST_LABELS,
    Labelled,
    check,
    digest_of_text,
    draw,
    labelled,
    read_definition,
)
from pretrain_archive.domain.errors import InputError
from pretrain_archive.services.review_answers import cohens_kappa

DEFINITION = b'name = "mail"\nversion = "2"\n[labels]\nham = "wanted"\nspam = "not wanted"\n'


def document(number, label):
    """A document of its own."""
    return Labelled(digest_of_text(f"text {number}".encode()), f"part-{number % 3}.jsonl", number + 1, label)


MANY = [document(n, "ham" if n % 10 < 7 else "spam" if n % 10 < 9 else "other") for n in range(500)]


@pytest.mark.requirement("R048")
def test_definition():
    """A definition has name, version and meanings, and the digest of its bytes."""
    found = read_definition(DEFINITION, name="labels.toml")

    assert ("mail", "2", {"ham": "wanted", "spam": "not wanted"}) == (found.name, found.version, found.labels)
    assert digest_of_text(DEFINITION) == found.digest
    assert found.digest != read_definition(DEFINITION + b"# more\n", name="labels.toml").digest


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(b"\xff", "not a TOML file", id="no text"),
        pytest.param(b"name = ", "not a TOML file", id="no toml"),
        pytest.param(b'version = "1"\n[labels]\na = "b"', "has no name", id="no name"),
        pytest.param(b'name = "x"\n[labels]\na = "b"', "has no version", id="no version"),
        pytest.param(b'name = "x"\nversion = "1"', "defines no label", id="no labels"),
        pytest.param(
            b'name = "x"\nversion = "1"\nlabels = ["a"]', "defines no label", id="labels without meaning"
        ),
        pytest.param(
            b'name = "x"\nversion = "1"\n[labels]\na = " "', "gives label 'a' no meaning", id="a blank one"
        ),
    ],
)
def test_bad_definition(raw, message):
    """What is no definition is refused with the file's name."""
    with pytest.raises(InputError, match=message) as refused:
        read_definition(raw, name="labels.toml")
    assert "labels.toml" in str(refused.value)


@pytest.mark.requirement("R048")
def test_check():
    """Shares are of documents with a defined label; unknown labels and missing ones are counted apart."""
    found = check(read_definition(DEFINITION, name="x"), {"ham": 60, "spam": 20, "egg": 15, None: 5})

    assert (100, 5, 15) == (found.documents, found.unlabelled, found.undefined)
    assert {"ham": 0.75, "spam": 0.25} == found.shares
    assert (0.75, 0.25, 3.0) == (found.largest, found.smallest, found.imbalance)
    assert {
        "labels_undefined_rate": 0.2,
        "labels_largest_share": 0.75,
        "labels_smallest_share": 0.25,
    } == found.numbers()


def test_label_that_never_occurs():
    """A defined label without a document is the smallest class, of share 0, and there is no ratio."""
    found = check(read_definition(DEFINITION, name="x"), {"ham": 3})

    assert (0.0, None) == (found.smallest, found.imbalance)
    assert 0.0 == found.numbers()["labels_smallest_share"]


@pytest.mark.case("Q07")
@pytest.mark.parametrize(
    ("definition", "counts", "numbers"),
    [
        pytest.param(None, {"ham": 3}, {}, id="no definition"),
        pytest.param(DEFINITION, {}, {}, id="no document"),
        pytest.param(DEFINITION, {None: 4}, {"labels_undefined_rate": 1.0}, id="no label"),
        pytest.param(DEFINITION, {"egg": 4}, {"labels_undefined_rate": 1.0}, id="no defined label"),
    ],
)
def test_nothing_checked(definition, counts, numbers):
    """What could not be checked has no number that a rule could pass."""
    known = read_definition(definition, name="x") if definition else None

    assert numbers == check(known, counts).numbers()


@pytest.mark.requirement("R049")
def test_sample_is_stratified():
    """Each label has its part of the sample, a rare one at least one document."""
    sample = draw(MANY, size=20, seed=1)

    assert (("ham", 350, 14), ("other", 50, 2), ("spam", 100, 4)) == sample.strata
    assert {"ham": 14, "spam": 4, "other": 2} == Counter(item.label for item in sample.items)
    assert (("a", 999, 9), ("b", 1, 1)) == draw(
        [*(document(n, "a") for n in range(999)), document(999, "b")], size=10, seed=1
    ).strata


@pytest.mark.requirement("R049")
@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 80), st.integers(0, 5))
def test_sample_does_not_depend_on_order(chance, size, seed):
    """The same documents in any order give the same sample, of exactly the size that there is."""
    shuffled = chance.sample(MANY, len(MANY))

    assert draw(MANY, size=size, seed=seed) == draw(shuffled, size=size, seed=seed)
    assert size == len(draw(MANY, size=size, seed=seed).items)


def test_seed_chooses():
    """Another seed draws other documents; over many seeds each document has its chance."""
    drawn = Counter(item.digest for seed in range(400) for item in draw(MANY[:50], size=10, seed=seed).items)

    assert 50 == len(drawn)
    assert all(40 < count < 130 for count in drawn.values())


def test_equal_texts_once():
    """Of equal texts with one label the first by place is drawn, whatever the order."""
    twins = [Labelled(digest_of_text(b"same"), f"f{n}.jsonl", 9 - n, "ham") for n in range(9)]
    random.Random(3).shuffle(twins)

    assert [("f0.jsonl", 9)] == [(i.path, i.line) for i in draw(twins, size=5, seed=0).items]


def test_more_labels_than_places():
    """Where a sample is smaller than the number of labels the commonest have one each."""
    documents = [document(n, f"label {n % 7}") for n in range(100)]

    assert {"label 0": 1, "label 1": 1} == {
        label: n for label, _, n in draw(documents, size=2, seed=1).strata if n
    }


def test_undefined_labels_are_not_sampled():
    """A label that the definition does not know has nothing to agree with."""
    known = read_definition(DEFINITION, name="x")

    assert {"ham", "spam"} == {item.label for item in draw(MANY, size=50, seed=1, definition=known).items}


def test_nothing_to_sample():
    """No labelled document, or a field that is no label, is refused."""
    with pytest.raises(InputError, match="no document has a label"):
        draw([], size=5, seed=1)
    with pytest.raises(InputError, match=f"more than {MOST_LABELS}"):
        draw((document(n, str(n)) for n in range(MOST_LABELS + 1)), size=5, seed=1)


def test_labelled_documents_of_files():
    """Documents that declare a label are read with place and digest; others and broken ones are passed over."""
    lines = b'{"text": "a", "kind": "ham"}\n{"text": "b"}\n{"text": \n{"text": "c", "kind": 7}\n'
    shard = Shard(path="x.jsonl", size=len(lines), open=lambda: io.BytesIO(lines))

    found = list(labelled([shard], fields=Fields(label="kind")))

    assert [
        (digest_of_text(b"a"), "x.jsonl", 1, "ham"),
        (digest_of_text(b"c"), "x.jsonl", 4, "7"),
    ] == found


@pytest.mark.requirement("R049")
@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param("aabb", "aabb", 1.0, id="all agree"),
        pytest.param("abab", "baba", -1.0, id="never agree"),
        pytest.param("aabb", "abab", 0.0, id="as chance would"),
        pytest.param(
            "y" * 25 + "n" * 25, "y" * 20 + "n" * 5 + "y" * 10 + "n" * 15, 0.4, id="a textbook's table"
        ),
        pytest.param("aaaa", "aaaa", None, id="one category"),
        pytest.param("", "", None, id="nothing rated"),
    ],
)
def test_kappa(left, right, expected):
    """Cohen's kappa is agreement beyond chance."""
    assert (
        expected == pytest.approx(cohens_kappa(left, right))
        if expected is not None
        else (cohens_kappa(left, right) is None)
    )


def test_text_in_place_of_a_label():
    """A field that holds texts is no field of labels: its words go into no sample, and not into the message."""
    words = "a letter to somebody " * 20

    with pytest.raises(InputError, match=r"longer than 200 characters.*a.jsonl, line 3") as raised:
        draw([Labelled("sha256:00", "a.jsonl", 3, words)], size=3, seed=1)
    assert "letter" not in str(raised.value)
