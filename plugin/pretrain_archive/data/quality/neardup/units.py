"""Cut a batch of texts into units and units into hashed shingles, by vector operations over all its bytes.

A *unit* is a run of bytes that are no blank, with two exceptions: in scripts written without blanks (Han, Kana,
Thai, Lao, Burmese, Khmer) each character is a unit, and a run longer than :data:`LONG_RUN` bytes (minified code, a
URL) is cut where letters and digits meet punctuation. Both rules look at the text near by only, so that two
documents that are alike are cut alike. A *shingle* is ``k`` units in a row; a document with fewer has one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONG_RUN = 32
HASHED_WHOLE = 256
"""Bytes of a unit from which it is hashed on its own, not eight bytes at a time with the others."""
PIECE = 4 << 20
"""Bytes of a text from which its shingles are made piece by piece, so that no array follows the longest text."""

_U = np.uint64
_BLANK = 0x20
# Odd constants of splitmix64 and of the MurmurHash3 finaliser (both public domain): multiplying by an odd number
# and shifting the high half down are bijections, so nothing is lost before the final cut to 32 bits.
_GOLDEN, _MIX1, _MIX2 = _U(0x9E3779B97F4A7C15), _U(0xFF51AFD7ED558CCD), _U(0xC4CEB9FE1A85EC53)
_HALF = _U(32)
_FIRST = np.array([(1 << (8 * count)) - 1 for count in range(9)], _U)
_WORDLIKE = np.array([chr(byte).isalnum() or byte == 0x5F or byte >= 0x80 for byte in range(256)])
_LEAD = np.zeros(256, bool)
_LEAD[0xE3:0xEA] = True  # U+3000 to U+9FFF: Kana, Han and their punctuation, three bytes each


@dataclass(frozen=True, kw_only=True, slots=True)
class Units:
    """The units of a batch: ``hashes`` and ``starts`` (byte offset) of each, and where each document's begin.

    ``first[d]`` to ``first[d + 1]`` are document d's. ``lettered`` tells whether a unit's first eight bytes hold
    a letter.
    """

    hashes: NDArray[np.uint64]
    starts: NDArray[np.int64]
    first: NDArray[np.int64]
    lettered: NDArray[np.bool_]


def shingles(
    texts: Sequence[bytes], k: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.bool_]]:
    """The sorted distinct shingle hashes (32 bits) of each text, one after the other.

    Returns hashes, offsets (one more than texts) and whether a text is a table of numbers: more than half of its
    units hold no letter. A text without units has no shingle.
    """
    if len(texts) == 1 and len(texts[0]) > PIECE:
        return _of_long(texts[0], k)
    units = cut(texts)
    return (*_distinct(*windows(units, k)), _tables(units))


def cut(texts: Sequence[bytes]) -> Units:
    """The units of a batch of texts (UTF-8)."""
    data = b"\n".join(texts) + b"\n" + bytes(8)
    array = np.frombuffer(data, np.uint8)[:-8]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    begins = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths + 1, out=begins[1:])
    starts, ends = _runs(array)
    starts, ends = _cut_long(array, starts, ends)
    hashes, lettered = _hashed(data, starts, ends)
    return Units(hashes=hashes, starts=starts, first=np.searchsorted(starts, begins), lettered=lettered)


def windows(units: Units, k: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The hash of every shingle (64 bits, in order, repeats too) and how many each text has."""
    w, first = units.hashes, units.first
    counts = np.diff(first)
    shingled = np.maximum(counts - k + 1, np.minimum(counts, 1))
    total = len(w)
    h = w.copy()
    # Horner's rule over k neighbours; a window that would leave its text is not taken below.
    for step in range(1, min(k, total)):
        h[: total - step] *= _GOLDEN
        h[: total - step] += w[step:]
    chosen = np.ones(total, bool)
    inside = counts > 0
    for step in range(1, k):
        chosen[np.maximum(first[1:] - step, first[:-1])[inside]] = False
    short = (counts < k) & inside
    chosen[first[:-1][inside]] = True
    for text in np.flatnonzero(short) if total else ():
        h[first[text]] = _of_few(w[first[text] : first[text + 1]])
    h = h[chosen]
    h ^= h >> _HALF
    h *= _MIX2
    h ^= h >> _HALF
    return h, shingled


def _of_few(hashes: NDArray[np.uint64]) -> int:
    """One shingle of all units, told from the same units in a longer window by their number."""
    value = len(hashes)
    for unit in hashes.tolist():
        value = (value * int(_GOLDEN) + unit) % (1 << 64)
    return value


def _distinct(
    h: NDArray[np.uint64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    texts = len(counts)
    owner = np.repeat(np.arange(texts, dtype=_U) << _HALF, counts)
    keys = np.sort(owner | (h >> _HALF))
    keep = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=keep[1:])
    keys = keys[keep]
    offsets = np.searchsorted(keys, np.arange(texts + 1, dtype=_U) << _HALF)
    return keys.astype(np.uint32), offsets


def _tables(units: Units) -> NDArray[np.bool_]:
    lettered = np.zeros(len(units.lettered) + 1, np.int64)
    np.cumsum(units.lettered, out=lettered[1:])
    return np.asarray(2 * np.diff(lettered[units.first]) < np.diff(units.first))


def _runs(array: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of each run without a blank, single characters of scripts without blanks apart."""
    blank = array <= _BLANK
    if (array >= 0xE0).any():
        single = _single(array)
        if single.any():
            return _runs_and_singles(array, blank, single)
    ends = np.flatnonzero(blank)
    starts = np.empty_like(ends)
    starts[0] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    real = ends > starts
    return (starts, ends) if real.all() else (starts[real], ends[real])


def _single(array: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Where a character of a script without blanks begins."""
    single = _LEAD[array]
    second, third = np.roll(array, -1), np.roll(array, -2)
    single |= (array == 0xE0) & (second >= 0xB8) & (second <= 0xBB)  # Thai and Lao, U+0E00 to U+0EFF
    single |= (array == 0xE1) & (second >= 0x80) & (second <= 0x82) & (third >= 0x80)  # Burmese
    single |= (array == 0xE1) & (second >= 0x9E) & (second <= 0x9F)  # Khmer, U+1780 to U+17FF
    single |= (array == 0xF0) & (second >= 0xA0) & (second <= 0xB3)  # Han beyond U+FFFF
    return single


def _runs_and_singles(
    array: NDArray[np.uint8], blank: NDArray[np.bool_], single: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    begins = single.copy()
    places = np.flatnonzero(single)
    after = places + np.where(array[places] == 0xF0, 4, 3)
    begins[after[after < len(array)]] = True
    begins[0] = True
    begins[1:] |= blank[:-1]
    begins &= ~blank
    starts = np.flatnonzero(begins)
    borders = np.flatnonzero(begins | blank)
    return starts, borders[np.searchsorted(borders, starts) + 1]


def _cut_long(
    array: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    long = np.flatnonzero(ends - starts > LONG_RUN)
    if not len(long):
        return starts, ends
    lengths = ends[long] - starts[long]
    inside = ranges(starts[long], lengths)
    wordlike = _WORDLIKE[array[inside]]
    change = wordlike[1:] != wordlike[:-1]
    change[np.cumsum(lengths)[:-1] - 1] = False  # from one run to the next
    more = inside[1:][change]
    return np.sort(np.concatenate([starts, more])), np.sort(np.concatenate([ends, more]))


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """``start, start + 1, …`` of each range, one after the other; every length at least 0."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def _hashed(
    data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    lengths = ends - starts
    # Eight bytes from any offset, as one number: the words of a text are mostly no longer.
    eight: NDArray[np.uint64] = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    w = eight[starts]
    w &= _FIRST[np.minimum(lengths, 8)]
    lettered = _lettered(w)
    w *= _GOLDEN
    w ^= w >> _HALF
    rest, offset = np.flatnonzero((lengths > 8) & (lengths <= HASHED_WHOLE)), 8
    while len(rest):
        more = eight[starts[rest] + offset] & _FIRST[np.minimum(lengths[rest] - offset, 8)]
        mixed = (w[rest] ^ more) * _MIX1
        w[rest] = mixed ^ (mixed >> _HALF)
        offset += 8
        rest = rest[lengths[rest] > offset]
    for unit in np.flatnonzero(lengths > HASHED_WHOLE).tolist():
        digest = hashlib.blake2b(data[starts[unit] : ends[unit]], digest_size=8).digest()
        w[unit] = int.from_bytes(digest, "little")
    return w, lettered


def _lettered(w: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether any of eight bytes is an ASCII letter (bit 6 set and low five bits from 1 to 26) or not ASCII."""
    low = w & _U(0x1F1F1F1F1F1F1F1F)
    least = low + _U(0x1F1F1F1F1F1F1F1F)
    low += _U(0x0505050505050505)
    np.invert(low, out=low)
    least &= low
    least <<= _U(1)
    least &= w
    least &= _U(0x4040404040404040)
    least |= w & _U(0x8080808080808080)
    return np.asarray(least != 0)


def _of_long(text: bytes, k: int) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.bool_]]:
    """What :func:`shingles` gives for one long text: piece by piece, the last k - 1 units carried into the next."""
    found: NDArray[np.uint32] = np.empty(0, np.uint32)
    carried: NDArray[np.uint64] = np.empty(0, _U)
    counted = lettered = 0
    for piece in _pieces(text):
        units = cut([piece])
        counted += len(units.hashes)
        lettered += int(units.lettered.sum())
        joined = np.concatenate([carried, units.hashes])
        if len(joined) >= k:
            found = np.union1d(found, _hashes_of(joined, k))
        carried = joined[max(0, len(joined) - k + 1) :] if k > 1 else carried
    if counted < k:
        found = np.union1d(found, _hashes_of(carried, k))
    return found, np.array([0, len(found)]), np.array([2 * lettered < counted])


def _hashes_of(hashes: NDArray[np.uint64], k: int) -> NDArray[np.uint32]:
    none, ends = np.empty(0, np.int64), np.array([0, len(hashes)])
    h, _ = windows(Units(hashes=hashes, starts=none, first=ends, lettered=none.astype(bool)), k)
    return (h >> _HALF).astype(np.uint32)


def _pieces(text: bytes) -> Iterator[bytes]:
    """The text cut at blanks, or within a run that is longer than a piece."""
    start = 0
    while start < len(text):
        end = start + PIECE
        if end < len(text):
            blank = max(text.rfind(blank, start + 1, end) for blank in (b" ", b"\n", b"\t"))
            end = blank if blank > start else max(start + 1, _character_start(text, end))
        yield text[start:end]
        start = end


def _character_start(text: bytes, place: int) -> int:
    while place > 0 and text[place] & 0xC0 == 0x80:
        place -= 1
    return place
