"""Declared forbidden terms: whole words without regard to case, and CJK terms wherever they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

Span = tuple[int, int]

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]")
_WORD = re.compile(r"\w+")
_FEW = 32


class Terms:
    """A list of terms, made ready for searching."""

    def __init__(self, terms: Sequence[str]) -> None:
        lowered = sorted({lower(term) for term in terms}, key=lambda term: (-len(term), term))
        anywhere = [term for term in lowered if _CJK.search(term)]
        self._anywhere: dict[str, list[str]] = {}
        for term in anywhere:
            self._anywhere.setdefault(term[:2], []).append(term)
        self._whole = [term for term in lowered if not _CJK.search(term)]
        self._by_word: dict[str, list[str]] = {}
        for term in self._whole:
            word = _WORD.search(term)
            self._by_word.setdefault(word.group() if word else "", []).append(term)

    def find(self, text: str) -> Iterator[Span]:
        """Where the terms stand; of two that overlap the longer one, or the first."""
        if not (self._anywhere or self._whole):
            return
        low = lower(text)
        taken: list[Span] = []
        for term in self._candidates(low):
            taken.extend(_places(low, term, whole=True))
        for term in self._of_anywhere(low):
            taken.extend(_places(low, term, whole=False))
        end = -1
        for start, stop in sorted(taken, key=lambda span: (span[0], -span[1])):
            if start >= end:
                yield start, stop
                end = stop

    def _of_anywhere(self, low: str) -> Iterator[str]:
        """The terms of scripts without blanks whose first two characters are in the text."""
        for begin, terms in self._anywhere.items():
            if begin in low:
                yield from terms

    def _candidates(self, low: str) -> Sequence[str]:
        """Of a long list only the terms whose first word is in the text are searched for."""
        if len(self._whole) <= _FEW:
            return self._whole
        words = set(_WORD.findall(low)) & self._by_word.keys()
        return [*self._by_word.get("", []), *(term for word in words for term in self._by_word[word])]


def lower(text: str) -> str:
    """Lower case with as many characters as before (only U+0130 would become two)."""
    return text.replace("\u0130", "i").lower()


def _places(low: str, term: str, *, whole: bool) -> Iterator[Span]:
    start = low.find(term)
    while start >= 0:
        end = start + len(term)
        if not whole or not (_joins(low, start - 1, term[0]) or _joins(low, end, term[-1])):
            yield start, end
        start = low.find(term, start + 1)


def _joins(low: str, at: int, edge: str) -> bool:
    """Whether the character at ``at`` carries the word on."""
    beside = low[at : at + 1] if at >= 0 else ""
    return bool(beside) and _is_word(edge) and _is_word(beside) and not _CJK.match(beside)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"
