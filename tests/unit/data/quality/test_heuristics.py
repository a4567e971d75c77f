"""Published heuristics: each measure against a plain count, and against what its source means."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.data.quality.heuristics import COLUMNS, REPEATED, SOURCES, TOP, measure, words_of


def measured(text):
    """The measures of a text by column."""
    return dict(zip(COLUMNS, measure(text, text.encode()), strict=True))


def plainly(text):
    """Shares of top and repeated n-grams, counted in the plainest way."""
    words = words_of(text)
    total = sum(map(len, words))
    shares = {}
    for n in (*TOP, *REPEATED):
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        counts = Counter(grams)
        if n in TOP:
            most = max(counts.values(), default=0)
            length = max((len("".join(g)) for g, c in counts.items() if c == most), default=0)
            shares[f"top_{n}_gram_ratio"] = min(1.0, most * length / total) if most > 1 else 0.0
            continue
        covered, seen = set(), set()
        for i, gram in enumerate(grams):
            if gram in seen:
                covered.update(range(i, i + n))
            seen.add(gram)
        shares[f"repeated_{n}_gram_ratio"] = sum(len(words[i]) for i in covered) / total if total else 0.0
    return shares


@pytest.mark.requirement("R047")
@given(st.lists(st.sampled_from(["a", "bb", "the", "of", "c3", "-", "of\n"]), min_size=1, max_size=120))
def test_ngrams_as_counted_plainly(words):
    """The level-by-level count gives what counting every n-gram gives."""
    text = " ".join(words)
    found = measured(text)

    assert plainly(text) == pytest.approx({name: found[name] for name in plainly(text)})


@pytest.mark.parametrize("seed", range(4))
def test_ngrams_of_repeated_passages(seed):
    """Passages that come again anywhere in a long document are covered as counted plainly."""
    chance = random.Random(seed)
    passage = [f"w{chance.randint(0, 50)}" for _ in range(40)]
    words = [f"v{chance.randint(0, 400)}" for _ in range(600)]
    for _ in range(4):
        at, cut = chance.randint(0, 600), chance.randint(6, 40)
        words[at:at] = passage[:cut]
    text = " ".join(words)
    found = measured(text)

    assert found["repeated_5_gram_ratio"] > 0
    assert plainly(text) == pytest.approx({name: found[name] for name in plainly(text)})


@pytest.mark.requirement("R047")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("one two three", {"words": 3, "mean_word_length": 11 / 3}, id="words"),
        pytest.param("# a\n## b c", {"hash_word_ratio": 3 / 5}, id="hashes per word"),
        pytest.param("well... so… ok", {"ellipsis_word_ratio": 2 / 3}, id="ellipses per word"),
        pytest.param("• one\n- two\n-3 degrees\nfour", {"bullet_line_ratio": 0.5}, id="bullets, not minus signs"),
        pytest.param("more...\nand…\nend.\n\n", {"ellipsis_line_ratio": 2 / 3}, id="lines that trail off"),
        pytest.param("a1 22 -- don't ...", {"alphabetic_word_ratio": 2 / 5}, id="words with a letter"),
        pytest.param("é1 “ 22", {"alphabetic_word_ratio": 1 / 3}, id="letters beyond ascii"),
        pytest.param("that is the end of it and with", {"stop_words": 5}, id="stop words"),
        pytest.param("theory offer", {"stop_words": 0}, id="no stop word within a word"),
        pytest.param("的了在", {"stop_words": 3}, id="chinese function characters"),
        pytest.param("x\ny\nx\nx", {"duplicate_line_ratio": 0.5, "duplicate_line_character_ratio": 0.5}, id="lines"),
        pytest.param("long line\nx\nlong line", {"duplicate_line_character_ratio": 9 / 19}, id="their characters"),
        pytest.param("a b\n\nc\n\na b", {"duplicate_paragraph_ratio": 1 / 3,
                                          "duplicate_paragraph_character_ratio": 3 / 7}, id="paragraphs"),
        pytest.param("Lorem ipsum dolor", {"lorem_ipsum": True}, id="filler"),
        pytest.param("a lorem and an ipsum", {"lorem_ipsum": False}, id="no filler"),
        pytest.param("f() { if (x) { } }", {"curly_brackets": 4}, id="brackets are counted, not judged"),
        pytest.param("It is.\nIs it?\n标题\n是的。", {"punctuated_line_ratio": 0.75}, id="lines with an end"),
        pytest.param("short\n" + "x " * 20, {"short_line_ratio": 0.5}, id="short lines"),
        pytest.param("a b\nc d\n", {"lines_per_word": 0.5}, id="lists"),
        pytest.param("bad \ufffd\ufffd end", {"replacement_characters": 2}, id="what was not decoded"),
    ],
)  # fmt: skip
def test_measures(text, expected):
    """Each measure is what its source describes."""
    found = measured(text)

    assert expected == pytest.approx({name: found[name] for name in expected})


@pytest.mark.parametrize("text", ["", " \n\t\n", "\u3000", "\ufeff", "。。。", "\u2026"], ids=repr)
def test_texts_without_words(text):
    """A text without a word has numbers too, and none of them is undefined."""
    assert not any(math.isnan(value) for value in measure(text, text.encode()))


def test_chinese():
    """Each Chinese character is a word and the marks between them are none; other words stay whole."""
    assert ["我", "们", "用", "Python3", "写", "代", "码"] == words_of("我们用 Python3 写代码。")
    assert ["カ", "タ", "カ", "ナ"] == words_of("「カタカナ」")
    assert ["안녕하세요", "세계"] == words_of("안녕하세요 세계")


def test_repeated_chinese_sentence():
    """A sentence that comes again shows in the n-grams, though it has no spaces."""
    text = "今天的天气非常好我们去公园散步。" * 3

    assert measured(text)["repeated_10_gram_ratio"] == pytest.approx(2 / 3)


def test_source_code():
    """Code is measured without harm: no ratio leaves 0 to 1, brackets are a count."""
    text = "\n".join(f"int f{i}(int a[]) {{ return a[{i}] # {i}; }}" for i in range(300))
    found = measured(text)

    ratios = {n: v for n, v in found.items() if n.endswith("_ratio") and "word_ratio" not in n}
    assert {} == {name: value for name, value in ratios.items() if not 0 <= value <= 1}
    assert 600 == found["curly_brackets"]


@given(st.text(max_size=400))
def test_any_text(text):
    """Whatever a text holds, every number is there, finite and of the column's kind."""
    text = text.encode("utf-8", "replace").decode()
    values = measure(text, text.encode())

    kinds = {"int32": int, "float32": float, "bool": bool}
    assert [kinds[kind] for kind in COLUMNS.values()] == [type(value) for value in values]
    assert all(abs(value) < 1e9 for value in values)


def test_same_in_every_process():
    """Words are told apart by hashes that differ between processes; the measures do not."""
    program = (
        "from pretrain_archive.data.quality.heuristics import measure\n"
        "text = ' '.join(str(i * i % 37) for i in range(500)); print(measure(text, text.encode()))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert 1 == len(seen)


def test_sources_are_named():
    """Each column names the publication that it is from."""
    assert COLUMNS.keys() == SOURCES.keys()
    assert all(SOURCES.values())
