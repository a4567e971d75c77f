"""The heuristics of many documents at once: the numbers of :func:`.heuristics.measure`, several times faster.

What costs time there is to cut words and to compare n-grams one document at a time. Here the words of a batch are cut,
hashed and compared in a few passes over arrays: bytes where all text is ASCII, code points elsewhere. An n-gram is
told by 50 bits of hash within its document, so that for a document of a thousand words the chance that two
n-grams are taken for one is below 10⁻⁹.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pretrain_archive.data.quality.heuristics import (
    _ANY_CJK,
    _BULLETS,
    _CJK_MARKS,
    _ELLIPSES,
    _ENDS,
    _STOP_CHARACTERS,
    _STOP_WORDS,
    REPEATED,
    SHORT_LINE,
    TOP,
    _duplicate_paragraphs,
    _duplicates,
    measure,
)

Measured = tuple[float | int | bool, ...]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

LARGE = 1 << 20
"""Characters from which a document is measured alone: its arrays would be the batch's."""

MOST = 1 << 14
"""Documents of a batch: their number is part of an n-gram's code."""

_DOC_SHIFT, _CODE_SHIFT = np.uint64(50), np.uint64(14)
# Of a CJK code point that has no character yet Python says that it is no letter.
_BLANK, _OTHER, _LETTER, _CJK, _CJK_OTHER, _MARK = range(6)
_CLASSES = bytes(
    _BLANK if chr(byte).isspace() else _LETTER if chr(byte).isalpha() else _OTHER for byte in range(0x80)
) + bytes(0x80)
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
# Odd constants of 64-bit mixing (splitmix64: Steele, Lea and Flood 2014, doi 10.1145/2660193.2660195).
_MIX, _STEP, _SPREAD = (np.uint64(n) for n in (0xBF58476D1CE4E5B9, 0x9E3779B97F4A7C15, 0x94D049BB133111EB))
_FOLD = np.uint64(32)
_WIDE = 64
"""Bytes of a word that are hashed by eights; a longer one is hashed by Python."""


def measure_many(texts: Sequence[str], raws: Sequence[bytes]) -> list[Measured]:
    """The measures of each document in the order of :data:`.heuristics.COLUMNS`; ``raws`` are the texts in UTF-8."""
    answers: list[Measured | None] = [None] * len(texts)
    alike: list[int] = []
    for place, (text, raw) in enumerate(zip(texts, raws, strict=True)):
        if len(raw) > LARGE or not text.strip():
            answers[place] = measure(text, raw)
        else:
            alike.append(place)
    for start in range(0, len(alike), MOST):
        part = alike[start : start + MOST]
        found = _batch([texts[place] for place in part], [raws[place] for place in part])
        for place, answer in zip(part, found, strict=True):
            answers[place] = answer
    return [answer for answer in answers if answer is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Words:
    """The words of documents one after another: their lengths in characters, hashes, and whether they have a letter.

    ``counts`` are the words of each document, ``stops`` how many of the stop words occur in each.
    """

    counts: Ints
    lengths: Ints
    hashes: Hashes
    lettered: NDArray[np.bool_]
    stops: Ints


def _batch(texts: list[str], raws: list[bytes]) -> list[Measured]:
    """Measure documents that have at least one character that is no blank."""
    plain = [place for place, text in enumerate(texts) if text.isascii()]
    other = [place for place, text in enumerate(texts) if not text.isascii()]
    found = []
    if plain:
        found.append(_ascii([raws[place] for place in plain]))
    if other:
        found.append(_unicode([texts[place] for place in other], [raws[place] for place in other]))
    numbers, shares = _counted(found)
    answers: list[Any] = [None] * len(texts)
    for at, place in enumerate([*plain, *other]):
        # A text of punctuation alone may have no word.
        one = numbers[at]
        answers[place] = (
            _measured(texts[place], one, shares[at]) if one[0] else measure(texts[place], raws[place])
        )
    return answers


def _measured(text: str, numbers: list[int], shares: list[float]) -> Measured:
    words, characters, lettered, stops = numbers
    lines = list(filter(None, map(str.strip, text.split("\n"))))
    ascii_only = text.isascii()
    ellipses = text.count("...") + (0 if ascii_only else text.count("…"))
    return (
        words,
        characters / words,
        text.count("#") / words,
        ellipses / words,
        sum([line.startswith(_BULLETS) for line in lines]) / len(lines),
        sum([line.endswith(_ELLIPSES) for line in lines]) / len(lines) if ellipses else 0.0,
        lettered / words,
        stops,
        *_duplicates(lines),
        *_duplicate_paragraphs(text),
        *shares,
        "orem ipsum" in text and "lorem ipsum" in text.lower(),
        text.count("{") + text.count("}"),
        sum(map(_ENDS.__contains__, [line[-1] for line in lines])) / len(lines),
        sum(map(SHORT_LINE.__ge__, map(len, lines))) / len(lines),
        text.count("\n") / words,
        0 if ascii_only else text.count("\ufffd"),
    )


def _ascii(raws: list[bytes]) -> _Words:
    """Cut and hash the words of ASCII documents in one pass."""
    joined = b"\n".join((b"", *raws, b"")) + bytes(_WIDE)
    classes = np.frombuffer(joined.translate(_CLASSES), np.uint8)[:-_WIDE]
    inside = classes != _BLANK
    edges = (inside[1:] != inside[:-1]).nonzero()[0] + 1
    starts, ends = edges[::2], edges[1::2]
    lettered = _lettered(classes, starts, ends)
    hashes = _hashed(joined, starts, ends - starts)
    return _words(starts, ends - starts, hashes, lettered, [len(raw) + 1 for raw in raws])


def _unicode(texts: list[str], raws: list[bytes]) -> _Words:
    """The same by code points: a CJK character is a word, and where there is one CJK marks part words."""
    joined = "\n".join(("", *texts, ""))
    codes = np.frombuffer(joined.encode("utf-32-le"), "<u4")
    classes = _class_table()[codes]
    sizes = [len(text) + 1 for text in texts]
    cjk = np.array([_ANY_CJK.search(text) is not None for text in texts])
    parting = (classes == _BLANK) | ((classes == _MARK) & np.repeat([*cjk, False], [*sizes, 1]))
    alone = (classes == _CJK) | (classes == _CJK_OTHER)
    inside = ~parting
    begins, ends_here = inside.copy(), inside.copy()
    begins[1:] &= parting[:-1] | alone[1:] | alone[:-1]
    ends_here[:-1] &= parting[1:] | alone[1:] | alone[:-1]
    starts, ends = begins.nonzero()[0], ends_here.nonzero()[0] + 1
    widths = 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)
    places = np.zeros(len(codes) + 1, np.int64)
    np.cumsum(widths, out=places[1:])
    raw = b"\n".join((b"", *raws, b"")) + bytes(_WIDE)
    hashes = _hashed(raw, places[starts], places[ends] - places[starts])
    lettered = _lettered(classes, starts, ends)
    return _words(starts, ends - starts, hashes, lettered, sizes)


@cache
def _class_table() -> NDArray[np.uint8]:
    """The class of every code point; a megabyte, made on first use."""
    table = np.full(sys.maxunicode + 1, _OTHER, np.uint8)
    text = "".join(map(chr, range(0xD800))) + "\0" * 0x800 + "".join(map(chr, range(0xE000, len(table))))
    table[[place for place, char in enumerate(text) if char.isalpha()]] = _LETTER
    marks = re.compile(f"[{_CJK_MARKS}]")
    for kind, places in (
        (_MARK, [found.start() for found in marks.finditer(text)]),
        (_CJK, [found.start() for found in _ANY_CJK.finditer(text) if found[0].isalpha()]),
        (_CJK_OTHER, [found.start() for found in _ANY_CJK.finditer(text) if not found[0].isalpha()]),
        (_BLANK, [place for place, char in enumerate(text) if char.isspace()]),
    ):
        table[places] = kind
    return table


def _lettered(classes: NDArray[np.uint8], starts: Ints, ends: Ints) -> NDArray[np.bool_]:
    letters = np.zeros(len(classes) + 1, np.int32)
    np.cumsum((classes == _LETTER) | (classes == _CJK), out=letters[1:])
    found: NDArray[np.bool_] = letters[ends] > letters[starts]
    return found


def _words(
    starts: Ints, lengths: Ints, hashes: Hashes, lettered: NDArray[np.bool_], sizes: list[int]
) -> _Words:
    """Give the words to their documents, which begin at 1 and take ``sizes``, and count the stop words."""
    bounds = np.array([0, *accumulate(sizes)])
    counts = np.diff(np.searchsorted(starts, bounds + 1))
    owners = np.repeat(np.arange(len(sizes)), counts)
    latin, characters = (
        _stops(stops, hashes, owners, len(sizes)) for stops in (_STOP_WORDS, _STOP_CHARACTERS)
    )
    stops = np.maximum(latin, characters)
    return _Words(counts=counts, lengths=lengths, hashes=hashes, lettered=lettered, stops=stops)


def _stops(words: Sequence[str], hashes: Hashes, owners: Ints, documents: int) -> Ints:
    """How many of the words, all of at most eight bytes, occur in each document."""
    count = np.zeros(documents, np.int64)
    for word in words:
        raw = word.strip().encode()
        # Of an array: a scalar would warn of the overflow that mixing is.
        wanted = (
            np.array([int.from_bytes(raw, "little")], np.uint64) + np.array([len(raw)], np.uint64) * _STEP
        ) * _MIX
        count += np.bincount(owners[hashes == wanted], minlength=documents) > 0
    return count


def _hashed(joined: bytes, starts: Ints, lengths: Ints) -> Hashes:
    """A hash of each word: its bytes by eights and its length in bytes, mixed."""
    eights = np.ndarray((len(joined) - 7,), "<u8", joined, strides=(1,))
    # The length tells a word from the same with a NUL behind it.
    hashes = ((eights[starts] & _MASKS[np.minimum(lengths, 8)]) + lengths.astype(np.uint64) * _STEP) * _MIX
    longer, at = (lengths > 8).nonzero()[0], 8
    while len(longer) and at < _WIDE:
        more = eights[starts[longer] + at] & _MASKS[np.minimum(lengths[longer] - at, 8)]
        known = hashes[longer]
        hashes[longer] = ((known ^ (known >> _FOLD)) + more + _STEP) * _MIX
        at += 8
        longer = longer[lengths[longer] > at]
    for word in longer.tolist():
        start = int(starts[word])
        hashes[word] = np.uint64(hash(joined[start : start + int(lengths[word])]) & 0xFFFFFFFFFFFFFFFF)
    return hashes


def _counted(found: list[_Words]) -> tuple[list[list[int]], list[list[float]]]:
    """Words, their characters, those with a letter and stop words of each document; and shares of its n-grams."""
    counts = np.concatenate([words.counts for words in found])
    ends = np.zeros(int(counts.sum()) + 1, np.int64)
    np.cumsum(np.concatenate([words.lengths for words in found]), out=ends[1:])
    lettered = np.zeros_like(ends)
    np.cumsum(np.concatenate([words.lettered for words in found]), out=lettered[1:])
    last = np.cumsum(counts)
    first = last - counts
    characters = ends[last] - ends[first]
    stops = np.concatenate([words.stops for words in found])
    numbers = [counts, characters, lettered[last] - lettered[first], stops]
    hashes = np.concatenate([words.hashes for words in found])
    owners = np.repeat(np.arange(len(counts)), counts)
    shares = _grams(hashes, owners, ends, len(counts)) / np.maximum(characters, 1)
    np.minimum(shares[: len(TOP)], 1.0, out=shares[: len(TOP)])
    return np.column_stack(numbers).tolist(), shares.T.tolist()


def _grams(hashes: Hashes, owners: Ints, ends: Ints, documents: int) -> NDArray[np.float64]:
    """Characters in the top and under the repeated n-grams: a row for each of TOP and REPEATED, a column a document.

    The repeated n-grams of one length can only begin where two of the length before adjoin.
    """
    shares = np.zeros((len(TOP) + len(REPEATED), documents))
    places = (owners[1:] == owners[:-1]).nonzero()[0]
    grams = hashes.copy()
    high = owners.astype(np.uint64) << _DOC_SHIFT
    for length in range(2, REPEATED[-1] + 1):
        grams[places] = _mixed(grams[places], hashes[places + length - 1])
        again = _again((grams[places] >> _CODE_SHIFT) | high[places])
        if again is None:
            break
        order, begins = again
        order = places[order]
        firsts = np.minimum.reduceat(order, begins)
        if length in TOP:
            sizes = np.diff(np.append(begins, len(order)))
            _top(shares[length - TOP[0]], owners[firsts], sizes, ends[firsts + length] - ends[firsts])
        repeated = np.zeros(len(hashes), np.bool_)
        repeated[order] = True
        if length in REPEATED:
            later = repeated.copy()
            later[firsts] = False
            row = shares[len(TOP) + length - REPEATED[0]]
            row += _covered(later.nonzero()[0], length, owners, ends, documents)
        places = (repeated[1:] & repeated[:-1]).nonzero()[0]
    return shares


def _mixed(grams: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = ((grams ^ (grams >> _FOLD)) * _SPREAD + words) * _MIX
    return mixed


def _again(codes: Hashes) -> tuple[Ints, Ints] | None:
    """Places of the codes that occur more than once, code by code, and where each code begins among them."""
    order = codes.argsort()
    ordered = codes[order]
    same = np.zeros(len(ordered) + 1, np.bool_)
    np.equal(ordered[1:], ordered[:-1], out=same[1:-1])
    kept = (same[1:] | same[:-1]).nonzero()[0]
    if not len(kept):
        return None
    return order[kept], (~same[kept]).nonzero()[0]


def _top(row: NDArray[np.float64], owners: Ints, sizes: Ints, characters: Ints) -> None:
    """Per document the characters of the n-gram that occurs most often, of several the longest, times its places."""
    # Codes begin with the document: the groups of a document are together.
    begins = np.append(0, (owners[1:] != owners[:-1]).nonzero()[0] + 1)
    best = np.maximum.reduceat((sizes << 32) | characters, begins)
    row[owners[begins]] = (best >> 32) * (best & 0xFFFFFFFF)


def _covered(later: Ints, length: int, owners: Ints, ends: Ints, documents: int) -> NDArray[np.float64]:
    """Per document the characters of the words under the n-grams at ``later``, each word once."""
    if not len(later):
        return np.zeros(documents)
    upto = np.minimum(later + length, np.append(later[1:], len(ends) - 1))
    covered = np.bincount(owners[later], weights=ends[upto] - ends[later], minlength=documents)
    return covered.astype(np.float64, copy=False)
