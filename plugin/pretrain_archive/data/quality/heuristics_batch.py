"""The heuristics of many documents at once: the numbers of :func:`.heuristics.measure`, several times faster.

What costs time there is to cut words and to compare n-grams one document at a time. Here the words of a batch are cut,
hashed and compared in a few passes over arrays: bytes where all text is ASCII, code points elsewhere. An n-gram is
told by 50 bits of hash within its document, so that for a document of a thousand words the chance that two
n-grams are taken for one is below 10⁻⁹.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pretrain_archive.data.quality.heuristics import (
    _BULLETS,
    _ELLIPSES,
    _ENDS,
    REPEATED,
    SHORT_LINE,
    TOP,
    _duplicate_paragraphs,
    _duplicates,
    measure,
)
from pretrain_archive.data.quality.heuristics_words import (
    FOLD,
    MIX,
    Hashes,
    Ints,
    Words,
    ascii_words,
    unicode_words,
)

Measured = tuple[float | int | bool, ...]

LARGE = 1 << 20
"""Characters from which a document is measured alone: its arrays would be the batch's."""

MOST = 1 << 14
"""Documents of a batch: their number is part of an n-gram's code."""

_DOC_SHIFT, _CODE_SHIFT = np.uint64(50), np.uint64(14)
_SPREAD = np.uint64(0x94D049BB133111EB)


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


def _batch(texts: list[str], raws: list[bytes]) -> list[Measured]:
    """Measure documents that have at least one character that is no blank."""
    plain = [place for place, text in enumerate(texts) if text.isascii()]
    other = [place for place, text in enumerate(texts) if not text.isascii()]
    found = []
    if plain:
        found.append(ascii_words([raws[place] for place in plain]))
    if other:
        found.append(unicode_words([texts[place] for place in other], [raws[place] for place in other]))
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


def _counted(found: list[Words]) -> tuple[list[list[int]], list[list[float]]]:
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
    mixed: Hashes = ((grams ^ (grams >> FOLD)) * _SPREAD + words) * MIX
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
