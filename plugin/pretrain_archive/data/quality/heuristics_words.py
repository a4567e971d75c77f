"""Cut and hash the words of many documents in a few passes over arrays: bytes for ASCII, code points elsewhere.

What a word is, :mod:`.heuristics` says.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from pretrain_archive.data.quality.heuristics import _ANY_CJK, _CJK_MARKS, _STOP_CHARACTERS, _STOP_WORDS

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

# Odd constants of 64-bit mixing (splitmix64: Steele, Lea and Flood 2014, doi 10.1145/2660193.2660195).
MIX, _STEP, FOLD = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
# Of a CJK code point that has no character yet Python says that it is no letter.
_BLANK, _OTHER, _LETTER, _CJK, _CJK_OTHER, _MARK = range(6)
_CLASSES = bytes(
    _BLANK if chr(byte).isspace() else _LETTER if chr(byte).isalpha() else _OTHER for byte in range(0x80)
) + bytes(0x80)
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
_WIDE = 64
"""Bytes of a word that are hashed by eights; a longer one is hashed by Python."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """The words of documents one after another: their lengths in characters, hashes, and whether they have a letter.

    ``counts`` are the words of each document, ``stops`` how many of the stop words occur in each.
    """

    counts: Ints
    lengths: Ints
    hashes: Hashes
    lettered: NDArray[np.bool_]
    stops: Ints


def ascii_words(raws: list[bytes]) -> Words:
    """Cut and hash the words of ASCII documents in one pass."""
    joined = b"\n".join((b"", *raws, b"")) + bytes(_WIDE)
    classes = np.frombuffer(joined.translate(_CLASSES), np.uint8)[:-_WIDE]
    inside = classes != _BLANK
    edges = (inside[1:] != inside[:-1]).nonzero()[0] + 1
    starts, ends = edges[::2], edges[1::2]
    lettered = _lettered(classes, starts, ends)
    hashes = _hashed(joined, starts, ends - starts)
    return _words(starts, ends - starts, hashes, lettered, [len(raw) + 1 for raw in raws])


def unicode_words(texts: list[str], raws: list[bytes]) -> Words:
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
) -> Words:
    """Give the words to their documents, which begin at 1 and take ``sizes``, and count the stop words."""
    bounds = np.array([0, *accumulate(sizes)])
    counts = np.diff(np.searchsorted(starts, bounds + 1))
    owners = np.repeat(np.arange(len(sizes)), counts)
    latin, characters = (
        _stops(stops, hashes, owners, len(sizes)) for stops in (_STOP_WORDS, _STOP_CHARACTERS)
    )
    stops = np.maximum(latin, characters)
    return Words(counts=counts, lengths=lengths, hashes=hashes, lettered=lettered, stops=stops)


def _stops(words: Sequence[str], hashes: Hashes, owners: Ints, documents: int) -> Ints:
    """How many of the words, all of at most eight bytes, occur in each document."""
    count = np.zeros(documents, np.int64)
    for word in words:
        raw = word.strip().encode()
        # Of an array: a scalar would warn of the overflow that mixing is.
        wanted = (
            np.array([int.from_bytes(raw, "little")], np.uint64) + np.array([len(raw)], np.uint64) * _STEP
        ) * MIX
        count += np.bincount(owners[hashes == wanted], minlength=documents) > 0
    return count


def _hashed(joined: bytes, starts: Ints, lengths: Ints) -> Hashes:
    """A hash of each word: its bytes by eights and its length in bytes, mixed."""
    eights = np.ndarray((len(joined) - 7,), "<u8", joined, strides=(1,))
    # The length tells a word from the same with a NUL behind it.
    hashes = ((eights[starts] & _MASKS[np.minimum(lengths, 8)]) + lengths.astype(np.uint64) * _STEP) * MIX
    longer, at = (lengths > 8).nonzero()[0], 8
    while len(longer) and at < _WIDE:
        more = eights[starts[longer] + at] & _MASKS[np.minimum(lengths[longer] - at, 8)]
        known = hashes[longer]
        hashes[longer] = ((known ^ (known >> FOLD)) + more + _STEP) * MIX
        at += 8
        longer = longer[lengths[longer] > at]
    for word in longer.tolist():
        start = int(starts[word])
        hashes[word] = np.uint64(hash(joined[start : start + int(lengths[word])]) & 0xFFFFFFFFFFFFFFFF)
    return hashes
