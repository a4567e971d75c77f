"""Published quality heuristics of a document, as numbers; the suite holds every limit.

Sources of the measures, each named at its column in :data:`SOURCES`:

* Gopher: Rae et al. 2021, "Scaling Language Models: Methods, Analysis & Insights from Training Gopher",
  arXiv:2112.11446, appendix A.1.1 and table A1;
* C4: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
  JMLR 21(140), section 2.2;
* FineWeb: Penedo et al. 2024, "The FineWeb Datasets", arXiv:2406.17557, section 3.6.

What is a word: a run without white space. In text with Chinese or Japanese characters each such character is a
word of its own and CJK punctuation is none, since these languages put no space between words; so the
limits on words and their mean length must be chosen for the language. Thai, Lao and Khmer are not cut.

What is counted: characters of n-gram measures are those of the words, without white space. All measures are exact;
n-grams are counted level by level, since an n-gram can only be repeated where both (n-1)-grams in it are.

Source code is measured as text: curly brackets, hashes and short lines are normal there, which is why they
are counts and ratios here and no judgement.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import filterfalse
from typing import Final

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]

TOP: Final = (2, 3, 4)
REPEATED: Final = (5, 6, 7, 8, 9, 10)
SHORT_LINE: Final = 30
"""Characters up to which a line is short (FineWeb)."""

FEW: Final = 48
"""Repeated n-grams up to which they are counted one by one."""

SOURCES: Final = {
    "words": "Gopher",
    "mean_word_length": "Gopher",
    "hash_word_ratio": "Gopher",
    "ellipsis_word_ratio": "Gopher",
    "bullet_line_ratio": "Gopher",
    "ellipsis_line_ratio": "Gopher",
    "alphabetic_word_ratio": "Gopher",
    "stop_words": "Gopher; for Chinese the eight commonest function characters, which are ours",
    "duplicate_line_ratio": "Gopher",
    "duplicate_line_character_ratio": "Gopher",
    "duplicate_paragraph_ratio": "Gopher",
    "duplicate_paragraph_character_ratio": "Gopher",
    **{f"top_{n}_gram_ratio": "Gopher" for n in TOP},
    **{f"repeated_{n}_gram_ratio": "Gopher" for n in REPEATED},
    "lorem_ipsum": "C4",
    "curly_brackets": "C4",
    "punctuated_line_ratio": "FineWeb",
    "short_line_ratio": "FineWeb",
    "lines_per_word": "FineWeb",
    "replacement_characters": "Unicode, chapter 23: U+FFFD stands for what could not be decoded",
}
"""Column and where its definition is from."""

_INTEGERS: Final = {"words", "stop_words", "curly_brackets", "replacement_characters"}

COLUMNS: Final[dict[str, str]] = {
    name: "int32" if name in _INTEGERS else "bool" if name == "lorem_ipsum" else "float32" for name in SOURCES
}
"""Column and its pyarrow type, in the order of :func:`measure`."""

_CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_CJK_MARKS = (
    "\u3000-\u3004\u3008-\u303f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\u2018-\u201f\u2026\u2014"
)
_ANY_CJK = re.compile(f"[{_CJK}]")
_CJK_WORDS = re.compile(f"[{_CJK}]|[^\\s{_CJK}{_CJK_MARKS}]+")
_STOP_WORDS = (" the ", " be ", " to ", " of ", " and ", " that ", " have ", " with ")
_STOP_CHARACTERS = ("的", "了", "是", "在", "和", "有", "不", "这")
_BULLETS = ("•", "‣", "▶", "◀", "◦", "■", "□", "▪", "▫", "●", "○", "·", "- ", "* ", "– ", "— ")
_ELLIPSES = ("...", "…")
_ENDS = frozenset({".", "!", "?", '"', "'", "。", "！", "？", "”", "’", "」", "』", "…"})
# Bytes that neither belong to an ASCII letter nor part words.
_NO_LETTER = bytes(
    set(range(0x80)) - set(b" \t\n\v\f\r\x1c\x1d\x1e\x1f") - {*range(0x41, 0x5B), *range(0x61, 0x7B)}
)
# bytes.split() does not part at the four separators, str.split() does.
_SEPARATORS = bytes(0x20 if 0x1C <= byte <= 0x1F else byte for byte in range(256))


def words_of(text: str) -> list[str]:
    """The words of ``text``, in order (see the module's own text for what a word is)."""
    if text.isascii() or _ANY_CJK.search(text) is None:
        return text.split()
    return _CJK_WORDS.findall(text)


def measure(text: str, raw: bytes) -> tuple[float | int | bool, ...]:
    """The measures of a document in the order of :data:`COLUMNS`; ``raw`` is ``text`` in UTF-8.

    Ratios are shares between 0 and 1 except those per word. A document without words has 0 everywhere.
    """
    words = words_of(text)
    if not words:
        return _blank(text)
    number = len(words)
    spaced = " ".join(words)
    characters = len(spaced) - number + 1
    ellipses = text.count("...") + text.count("…")
    lines = list(filter(None, map(str.strip, text.split("\n"))))
    return (
        number,
        characters / number,
        text.count("#") / number,
        ellipses / number,
        sum([line.startswith(_BULLETS) for line in lines]) / len(lines),
        sum([line.endswith(_ELLIPSES) for line in lines]) / len(lines) if ellipses else 0.0,
        _with_letter(text, raw, words) / number,
        _stop_words(spaced),
        *_duplicates(lines),
        *_duplicate_paragraphs(text),
        *_grams(words, characters),
        "orem ipsum" in text and "lorem ipsum" in text.lower(),
        text.count("{") + text.count("}"),
        sum(map(_ENDS.__contains__, [line[-1] for line in lines])) / len(lines),
        sum(map(SHORT_LINE.__ge__, map(len, lines))) / len(lines),
        text.count("\n") / number,
        0 if text.isascii() else text.count("\ufffd"),
    )


def _blank(text: str) -> tuple[float | int | bool, ...]:
    empty: dict[str, float | int | bool] = {"int32": 0, "bool": False, "float32": 0.0}
    return (*[empty[kind] for kind in COLUMNS.values()][:-1], text.count("\ufffd"))


def _with_letter(text: str, raw: bytes, words: Sequence[str]) -> int:
    """How many words have a letter; in ASCII what is left of a word without one is nothing."""
    if text.isascii():
        return len(raw.translate(_SEPARATORS, _NO_LETTER).split())
    mixed = list(filterfalse(str.isalpha, words))
    return len(words) - len(mixed) + sum([any(map(str.isalpha, word)) for word in mixed])


def _stop_words(spaced: str) -> int:
    """How many of the eight occur; ``spaced`` has the words with a blank between them."""
    padded = f" {spaced} "
    latin = sum([word in padded for word in _STOP_WORDS])
    return latin if spaced.isascii() else max(latin, sum([word in spaced for word in _STOP_CHARACTERS]))


def _duplicates(parts: Sequence[str]) -> tuple[float, float]:
    """The share of parts that occurred before, and of the characters in them."""
    if len(parts) < 2 or len(set(parts)) == len(parts):
        return 0.0, 0.0
    again = {part: count - 1 for part, count in Counter(parts).items() if count > 1}
    characters = sum(map(len, parts))
    return sum(again.values()) / len(parts), sum(
        len(part) * count for part, count in again.items()
    ) / characters


def _duplicate_paragraphs(text: str) -> tuple[float, float]:
    if "\n\n" not in text:
        return 0.0, 0.0
    return _duplicates([part for piece in text.split("\n\n") if (part := piece.strip())])


def _grams(words: Sequence[str], characters: int) -> tuple[float, ...]:
    """Shares of :data:`TOP` and :data:`REPEATED` n-grams in the characters of the words.

    The top one is the n-gram that occurs most often, at least twice (of several the one with the most
    characters); its share counts all its places, at most 1. The repeated ones are all places of n-grams but
    their first; characters under several of them are counted once. Words are told apart by Python's 64-bit hash.
    """
    number = len(words)
    counted = dict.fromkeys((*TOP, *REPEATED), 0)
    found = _Repeated.of(np.arange(number), np.fromiter(map(hash, words), np.int64, number))
    if found is None:
        return tuple(0.0 for _ in counted)
    single = np.zeros(number, dtype=np.int64)
    single[found.places] = found.numbers
    kinds, length = int(found.numbers.max()) + 1, 1
    ends: Codes | None = None
    while found is not None and len(found.places) > FEW and length < REPEATED[-1]:
        length += 1
        found = found.longer(single, kinds, length)
        if found is not None and len(found.places) > FEW:
            if ends is None:
                ends = np.concatenate(([0], np.fromiter(map(len, words), np.int64, number).cumsum()))
            counted[length] = found.top(length, ends) if length in TOP else found.covered(length, ends)
    if found is not None and len(found.places) <= FEW:
        _count_few(counted, found.groups(), words, length)
    return tuple(min(1.0, count / characters) for count in counted.values())


def _count_few(counted: dict[int, int], groups: list[list[int]], words: Sequence[str], length: int) -> None:
    """Count on where few are left: arrays cost more than they save there.

    ``groups`` are the places (ascending) of each repeated n-gram of ``length`` words.
    """
    while groups:
        if length in TOP:
            most = max(map(len, groups))
            texts = ["".join(words[p[0] : p[0] + length]) for p in groups if len(p) == most]
            counted[length] = most * max(map(len, texts))
        elif length in REPEATED:
            covered = {
                word for places in groups for place in places[1:] for word in range(place, place + length)
            }
            counted[length] = sum(len(words[word]) for word in covered)
        if length == REPEATED[-1]:
            return
        at = {place: number for number, places in enumerate(groups) for place in places}
        longer: dict[tuple[int, str], list[int]] = {}
        for place in sorted(at):
            if place + 1 in at:
                longer.setdefault((at[place], words[place + length]), []).append(place)
        groups = [places for places in longer.values() if len(places) > 1]
        length += 1


@dataclass(frozen=True, slots=True)
class _Repeated:
    """The n-grams of one length that occur more than once, by place (ascending).

    ``numbers`` tells them apart, ``order`` sorts the places by number (and by place within one), and ``new``
    says at each of those whether a number begins.
    """

    places: Codes
    numbers: Codes
    order: Codes
    new: NDArray[np.bool_]

    @classmethod
    def of(cls, places: Codes, codes: Codes) -> _Repeated | None:
        """Keep the places whose code occurs more than once; None if there is none."""
        order = codes.argsort(kind="stable")
        ordered = codes[order]
        same = np.zeros(len(ordered) + 1, dtype=bool)
        np.equal(ordered[1:], ordered[:-1], out=same[1:-1])
        again = (same[1:] | same[:-1]).nonzero()[0]
        if not len(again):
            return None
        order, new = order[again], ~same[again]
        numbers = np.empty(len(codes), dtype=np.int64)
        numbers[order] = new.cumsum()
        kept = np.zeros(len(codes), dtype=bool)
        kept[order] = True
        position = kept.cumsum() - 1
        return cls(places[kept], numbers[kept], position[order], new)

    def groups(self) -> list[list[int]]:
        """The places of each n-gram, ascending."""
        made: dict[int, list[int]] = {}
        for place, number in zip(self.places.tolist(), self.numbers.tolist(), strict=True):
            made.setdefault(number, []).append(place)
        return list(made.values())

    def longer(self, single: Codes, kinds: int, length: int) -> _Repeated | None:
        """The repeated n-grams of ``length``, which is one more than that of these."""
        adjoining = (self.places[1:] - self.places[:-1] == 1).nonzero()[0]
        if not len(adjoining):
            return None
        starts = self.places[adjoining]
        # The number of the shorter one and that of the word after it name the n-gram exactly.
        return self.of(starts, self.numbers[adjoining] * (kinds + 1) + single[starts + length - 1])

    def top(self, length: int, ends: Codes) -> int:
        """Characters in all places of the n-gram that occurs most often."""
        firsts = self.new.nonzero()[0]
        counts = np.empty_like(firsts)
        np.subtract(firsts[1:], firsts[:-1], out=counts[:-1])
        counts[-1] = len(self.new) - firsts[-1]
        most = counts.max()
        at = self.places[self.order[firsts[counts == most]]]
        return int(most) * int((ends[at + length] - ends[at]).max())

    def covered(self, length: int, ends: Codes) -> int:
        """Characters of the words under all places but the first of each n-gram, each word once."""
        later = self.places[np.sort(self.order[~self.new])]
        upto = np.minimum(later + length, np.append(later[1:], len(ends) - 1))
        return int((ends[upto] - ends[later]).sum())
