"""The search against brute force, in any order and number of sketches, with little memory and crowded buckets."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.planted import brute_force, jaccard, planted

from pretrain_archive.data.quality.neardup.search import find, overlap
from pretrain_archive.data.quality.neardup.settings import Settings
from pretrain_archive.data.quality.neardup.signatures import agreement, signatures
from pretrain_archive.data.quality.neardup.sketch import SketchWriter
from pretrain_archive.data.quality.neardup.units import shingles
from pretrain_archive.domain.errors import InputError

SMALL = Settings(threshold=0.7, memory_bytes=1 << 20)
LARGE = Settings(threshold=0.7)
CASES = (
    "The quick survey of river ports lists nine harbours and their depth in metres",
    "The quick survey of river ports lists nine harbours and their depth in metres",
    "The  quick  survey  of  river  ports  lists  nine  harbours  and  their  depth  in  metres\n",
    "Une café près du port reste ouverte la nuit entière",
    "Une cafe\u0301 pre\u0300s du port reste ouverte la nuit entie\u0300re",
    "Ships load grain before noon on weekdays",
    "SHIPS LOAD GRAIN BEFORE NOON ON WEEKDAYS",
    "4|7|210$ 5|8|344$ 6|1|905$",
    "2|9|118$ 3|3|770$ 8|6|512$",
    "Wait, stop. Now!",
    "Wait stop Now",
    "unique tail",
)


def sketch(path: Path, documents, chosen: Settings = LARGE) -> Path:
    """Sketch (number, text) pairs."""
    with SketchWriter(path, chosen) as writer:
        for number, text in documents:
            writer.add(number, text)
    return path


def found(folder: Path, texts, chosen: Settings = LARGE):
    """Search one sketch of texts numbered from 0."""
    return find([sketch(folder / "one.sketch", enumerate(texts), chosen)], chosen, work=folder / "work")


@pytest.mark.case("Q09")
@pytest.mark.requirement("R043", "R047")
@pytest.mark.parametrize(
    ("mode", "twins"),
    [
        pytest.param("exact", {1: 0}, id="exact: the exact twin only"),
        pytest.param("normalised", {1: 0, 2: 0, 4: 3}, id="normalised: blanks and Unicode form too"),
        pytest.param("normalised+case", {1: 0, 2: 0, 4: 3, 6: 5}, id="case if set"),
        pytest.param(
            "normalised+punctuation", {1: 0, 2: 0, 4: 3, 10: 9}, id="punctuation if the rule says so"
        ),
        pytest.param("normalised+case+punctuation", {1: 0, 2: 0, 4: 3, 6: 5, 10: 9}, id="all of it"),
    ],
)
def test_what_counts_as_a_twin(mode, twins, tmp_path):
    """Each mode counts the twins of its rule, keeps the first in order and says so; number tables never do."""
    result = found(tmp_path, CASES, Settings(mode=mode))
    # Blanks are no part of a unit in any mode: what differs in nothing else is similar, though not the same.
    similar = {2: 0} if mode == "exact" else {}
    assert twins | similar == dict(result.twins())
    assert len(twins) == result.exact_pairs
    told = result.to_json()
    assert (mode, "the first of a group in manifest order") == (
        told["settings"]["mode"],
        told["settings"]["kept"],
    )
    assert len(twins) + len(similar) == told["pairs"]


def test_long_number_tables_are_twins_only_when_equal(tmp_path):
    """Tables of a hundred rows that differ in one digit stay apart unless that is set off; an equal one is found."""
    rows = [f"{n}|{n * n}|{n * 7}$" for n in range(100)]
    tables = [" ".join(rows), " ".join([*rows[:-1], "99|9801|694$"]), " ".join(rows)]
    result = found(tmp_path, tables)
    assert [(2, 0)] == list(result.twins())
    assert 3 == result.equality_only
    assert [1, 2] == list(found(tmp_path, tables, Settings(number_tables=False)).drop)


@pytest.mark.requirement("R043")
@pytest.mark.parametrize("threshold", [0.7, 0.8])
def test_search_equals_brute_force(threshold, tmp_path):
    """No pair below the threshold is reported, and at least 99 of 100 at or above it are."""
    chosen = Settings(threshold=threshold)
    texts = planted(900, 10, 60, seed=3, share=0.4).texts
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    result = found(tmp_path, texts, chosen)
    expected = {pair: value for pair, value in brute_force(texts).items() if value >= threshold}
    near = {
        pair: value
        for pair, value in expected.items()
        if pair[0] in first.values() and pair[1] in first.values()
    }
    near = {pair: value for pair, value in near.items() if texts[pair[0]] != texts[pair[1]]}
    equal = {(first[text], place): 1.0 for place, text in enumerate(texts) if first[text] != place}
    pairs = {(pair.first, pair.second): pair.jaccard for pair in result.found_pairs()}
    assert pairs.items() <= (near | equal).items()
    assert equal.items() <= pairs.items()
    assert len(pairs) >= 0.99 * len(near | equal)
    assert (len(pairs), len(equal)) == (result.pairs, result.exact_pairs)
    assert {example.first: example for example in result.examples}.keys() <= {pair[0] for pair in pairs}
    assert result.pairs == sum(count for _, _, count in result.histogram)
    assert not any(count for _, above, count in result.histogram if above <= threshold)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12), min_size=2, max_size=14),
    st.data(),
)
def test_groups_are_what_exact_pairs_connect(tmp_path_factory, documents, data):
    """On small corpora groups, kept documents and counts follow from brute force, however documents are spread."""
    texts = [" ".join(words) for words in documents]
    chosen = Settings(threshold=data.draw(st.sampled_from([0.5, 1.0])), permutations=256, shingle=2)
    sets = [{tuple(w[i : i + 2]) for i in range(max(1, len(w) - 1))} for w in documents]
    parent = list(range(len(texts)))
    for b in range(len(texts)):
        for a in range(b):
            if len(sets[a] & sets[b]) / len(sets[a] | sets[b]) >= chosen.threshold:
                low, high = sorted((parent[a], parent[b]))
                parent = [low if root == high else root for root in parent]
    expected = {place: root for place, root in enumerate(parent) if place != root}
    folder = tmp_path_factory.mktemp("find")
    files = data.draw(st.integers(1, 3))
    owner = [data.draw(st.integers(0, files - 1)) for _ in texts]
    parts = [
        sketch(folder / str(f), ((n * 10, text) for n, text in enumerate(texts) if owner[n] == f), chosen)
        for f in range(files)
    ]
    result = find(data.draw(st.permutations(parts)), chosen, work=folder / "work")
    assert {place * 10: root * 10 for place, root in expected.items()} == dict(result.twins())
    assert len(expected) == result.dropped
    assert len(set(expected.values())) == result.clusters
    assert len(expected) + len(set(expected.values())) == result.documents_in_pairs


def test_a_later_document_joins_earlier_ones(tmp_path):
    """Two documents that are not alike are one group if a third is like both, and the first of them is kept."""
    chosen = Settings(threshold=0.5, shingle=1)
    texts = ["a b c", "c d e", "x y z", "a b c d e"]
    assert [(1, 0), (3, 0)] == list(found(tmp_path, texts, chosen).twins())


def test_result_depends_on_neither_files_nor_memory(tmp_path):
    """One sketch or many with interleaved numbers, much memory or little: the same result to the last example."""
    texts = planted(6000, 20, 50, seed=5).texts
    whole = found(tmp_path, texts).to_json()
    spread = [
        sketch(tmp_path / f"{part}.sketch", ((n, t) for n, t in enumerate(texts) if n % 7 == part))
        for part in range(7)
    ]
    blocks = [
        sketch(tmp_path / f"b{part}.sketch", ((n, t) for n, t in enumerate(texts) if n // 2000 == part))
        for part in range(3)
    ]
    random.Random(1).shuffle(spread)
    for parts, chosen in ((spread, LARGE), (spread, SMALL), (blocks[::-1], LARGE), (blocks, SMALL)):
        told = find(parts, chosen, work=tmp_path / "work").to_json()
        told["settings"]["memory_bytes"] = whole["settings"]["memory_bytes"]
        assert whole == told


@pytest.mark.parametrize("mebibytes", [2, 8])
def test_memory_follows_the_setting_and_not_the_corpus(mebibytes, tmp_path):
    """The arrays of a search over sketches of 13 MB stay within the memory that the settings allow."""
    chosen = Settings(threshold=0.7, memory_bytes=mebibytes << 20)
    path = sketch(tmp_path / "one.sketch", enumerate(planted(20_000, 20, 40, seed=6).texts))
    tracemalloc.start()
    result = find([path], chosen, work=tmp_path / "work")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.pairs > 2500
    assert peak <= chosen.memory_bytes


def test_a_crowded_bucket_costs_one_comparison_a_member(tmp_path):
    """Thousands of copies and near copies of a boilerplate are one group, found without comparing all with all."""
    page = [f"word{n}" for n in range(60)]
    near = [" ".join([*page, f"visitor{n}"]) for n in range(3000)]
    copies = [" ".join(page)] * 3000
    result = found(tmp_path, [*near, *copies], SMALL)
    assert (1, 5999) == (result.clusters, result.dropped)
    assert 2999 == result.exact_pairs
    assert result.candidates < 40 * 3000
    assert result.chained > 2900


def test_a_killed_search_starts_over(tmp_path):
    """What an earlier search left in its folder is neither used nor kept."""
    texts = planted(300, 20, 40, seed=7).texts
    expected = found(tmp_path, texts).to_json()
    left = tmp_path / "work" / "scratch"
    left.mkdir()
    (left / "pairs").write_bytes(b"\x01" * 800)
    (tmp_path / "work" / "dropped").write_bytes(b"\x02" * 16)
    result = found(tmp_path, texts)
    assert expected == result.to_json()
    assert result.dropped == len(list(result.drop))
    assert ["dropped", "pairs"] == sorted(path.name for path in (tmp_path / "work").iterdir())


@pytest.mark.parametrize("texts", [pytest.param([], id="none"), pytest.param(["", " ", "\n"], id="blank")])
def test_nothing_to_compare(texts, tmp_path):
    """No documents give no pairs; blank ones are equal texts and similar to nothing."""
    result = found(tmp_path, texts)
    assert (max(0, len(texts) - 1), 0) == (result.exact_pairs, result.near_pairs)


@pytest.mark.requirement("R047")
def test_overlap_finds_what_the_right_has_of_the_left(tmp_path):
    """Every validation document with a twin in training is told, once, with a twin; numbers may be the same."""
    data = planted(3000, 20, 50, seed=8, share=0.4)
    left = [(n, text) for n, text in enumerate(data.texts) if n % 3]
    right = [(n // 3, text) for n, text in enumerate(data.texts) if n % 3 == 0]
    near = {b: a for pair in data.at_least(0.7) for a, b in (pair, pair[::-1]) if a % 3 and b % 3 == 0}
    exact = {b // 3 for b in near if any(data.texts[b] == text for _, text in left)}
    parts = [sketch(tmp_path / f"l{p}", [d for d in left if d[0] % 2 == p]) for p in range(2)]
    right_part = [sketch(tmp_path / "right", right)]
    result = overlap(parts, right_part, LARGE, work=tmp_path / "work")
    twins = dict(result.twins())
    assert set(twins) <= {b // 3 for b in near}
    assert len(twins) >= 0.99 * len(near)
    assert len(exact) == result.exact
    assert (len(twins), len(twins) - len(exact)) == (result.documents, result.near)
    texts = dict(left)
    assert all(jaccard(texts[a], data.texts[b * 3]) >= 0.7 for b, a in twins.items())
    little = overlap(parts[::-1], right_part, SMALL, work=tmp_path / "work")
    assert twins == dict(little.twins())


def test_overlap_across_looks_at_no_pair_within(tmp_path):
    """Twins that are both on one side are no overlap."""
    same = sketch(tmp_path / "same", enumerate(["one text of five words"] * 3))
    other = sketch(tmp_path / "other", enumerate(["and another text of words"] * 3))
    assert 0 == overlap([same], [other], LARGE, work=tmp_path / "work").documents
    result = overlap([same], [same], LARGE, work=tmp_path / "work")
    assert [(0, 0), (1, 0), (2, 0)] == list(result.twins())


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 100), st.integers(0, 10))
def test_signatures_estimate_the_similarity(left, right, both, seed):
    """The part of equal places is the similarity, within five standard deviations of its places and of its cells."""
    texts = [
        " ".join(f"{side}x{seed}y{n}" for n in range(count))
        + " "
        + " ".join(f"z{seed}y{n}" for n in range(both))
        for side, count in (("a", left), ("b", right))
    ]
    chosen = Settings(permutations=512, shingle=1)
    hashes, offsets, _ = shingles([text.encode() for text in texts], 1)
    rows = signatures(hashes, offsets, chosen)
    either = left + right + both
    true = both / either
    bound = 5 * np.sqrt(max(true * (1 - true), 0.001) * (1 / 512 + 1 / either))
    assert abs(agreement(rows[0], rows[1]) - true) <= bound


@pytest.mark.parametrize(
    ("changes", "bands", "rows"),
    [
        pytest.param({"threshold": 0.8}, 21, 6, id="0.8"),
        pytest.param({"threshold": 0.7}, 32, 4, id="0.7"),
        pytest.param({"threshold": 1.0}, 1, 128, id="1"),
        pytest.param({"threshold": 0.1}, 128, 1, id="0.1"),
    ],
)
def test_bands_follow_from_the_threshold(changes, bands, rows):
    """The fewest bands that bring pairs at the threshold together with the stated probability are taken."""
    chosen = Settings(**changes)
    assert (bands, rows) == (chosen.bands, chosen.rows)
    assert chosen.chance(chosen.threshold) >= 0.99


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"shingle": 0}, "shingle"),
        ({"permutations": 0}, "permutations"),
        ({"memory_bytes": 1000}, "memory_bytes"),
        ({"mode": "fuzzy"}, "mode"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(changes, field):
    """A setting outside its range is named."""
    with pytest.raises(InputError, match=field):
        Settings(**changes)
