"""Benchmark items that occur in training data, by the overlap of word n-grams.

The method is that of Brown et al., *Language Models are Few-Shot Learners* (2020), section 4 and appendix C: an item is
contaminated if it shares a 13-gram with any training document, or, if it is shorter than 13 words, if the whole of it
occurs there; words are compared without case, punctuation and blanks, and items below 8 words are not tested, since
such overlaps are mostly chance. Also told is how many items stay contaminated when n-grams that stand in more than 10
training documents (formulas of speech, licences) are left aside, as the paper does when it cleans training data.

Where a script has no blanks each character counts as a word (:mod:`.neardup.units`). Nothing of a text is kept: only
hashes (64 bits) and numbers of documents. Memory: about 40 bytes for each n-gram of the items, at most
:data:`MOST_GRAMS` of them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pretrain_archive.data.quality.neardup.units import Units, cut, windows
from pretrain_archive.domain.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXAMPLES: Final = 20
MOST_GRAMS: Final = 1 << 26
"""N-grams of items that are held, about 2.5 GiB; a benchmark has far fewer, a corpus has more."""
_SIEVE_BITS = 22
# Every character that is a blank of a text becomes one of bytes: these four are none to bytes.split.
_ASCII_LOWER = bytes(range(256)).lower().translate(bytes.maketrans(b"\x1c\x1d\x1e\x1f", b"    "))
_ASCII_PUNCTUATION = bytes(byte for byte in range(128) if unicodedata.category(chr(byte))[0] in "PS")


@dataclass(frozen=True, kw_only=True, slots=True)
class Grams:
    """``n`` words in a row count; items below ``least`` words are not tested; above ``common`` training documents an
    n-gram is a formula. Raises ``InputError`` for a value that cannot be used.
    """

    n: int = 13
    least: int = 8
    common: int = 10

    def __post_init__(self) -> None:
        for name, value, good, problem in (
            ("n", self.n, 1 <= self.n <= 64, "is not between 1 and 64"),
            ("least", self.least, 1 <= self.least <= self.n, "is not between 1 and n"),
            ("common", self.common, self.common >= 1, "is below 1"),
        ):
            if not good:
                raise InputError(name, value, problem)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A contaminated item: its number, the first training document that shares an n-gram, and how many it shares."""

    item: int
    document: int
    shared: int
    grams: int

    def to_json(self) -> dict[str, int]:
        """For reports: numbers only."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Contamination:
    """How many items occur in the training documents; ``rare`` of them by an n-gram that is no formula."""

    settings: Grams
    items: int
    too_short: int
    training_documents: int
    contaminated: int
    rare: int
    examples: list[Found]

    @property
    def tested(self) -> int:
        """Items that were long enough to be looked for."""
        return self.items - self.too_short

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        names = ("items", "tested", "too_short", "training_documents", "contaminated", "rare")
        return {name: getattr(self, name) for name in names} | {
            "method": f"{self.settings.n}-gram overlap after Brown et al. 2020, appendix C",
            "settings": asdict(self.settings),
            "examples": [found.to_json() for found in self.examples],
        }


@dataclass(kw_only=True)
class ItemGrams:
    """The n-grams of benchmark items. First :meth:`add` all items, then :meth:`look` at the training documents."""

    settings: Grams = field(default_factory=Grams)
    most: int = MOST_GRAMS

    def __post_init__(self) -> None:
        self._numbers: list[NDArray[np.int64]] = []
        self._hashes: dict[int, list[NDArray[np.uint64]]] = {}
        self._owners: dict[int, list[NDArray[np.int64]]] = {}
        self._items = self._short = self._documents = self._held = 0
        self._tables: list[_Table] | None = None

    def add(self, numbers: Sequence[int], texts: Sequence[str]) -> None:
        """Take items. ``ValueError`` once training documents were looked at, ``InputError`` for too many n-grams."""
        if self._tables is not None:
            raise ValueError("items come before training documents")
        if not texts:
            return
        units = cut([words_only(text) for text in texts])
        counts = np.diff(units.first)
        self._numbers.append(np.array(numbers, np.int64))
        self._short += int((counts < self.settings.least).sum())
        for size in range(self.settings.least, self.settings.n + 1):
            here = counts >= size if size == self.settings.n else counts == size
            if here.any():
                h, owner = _grams(units, size)
                mine = here[owner]
                self._held += int(mine.sum())
                self._hashes.setdefault(size, []).append(h[mine])
                self._owners.setdefault(size, []).append(owner[mine] + self._items)
        self._items += len(texts)
        if self._held > self.most:
            raise InputError(
                "items", self._items, f"have more than {self.most} n-grams, which are held in memory",
                hint="A benchmark is small: name its items, or look for twins only (quality overlap --grams 0).",
            )  # fmt: skip

    def look(self, numbers: Sequence[int], texts: Sequence[str]) -> None:
        """Look at training documents, about a mebibyte of text at a time."""
        if self._tables is None:
            self._tables = [
                _Table(size, np.concatenate(self._hashes[size]), np.concatenate(self._owners[size]))
                for size in self._hashes
            ]
        self._documents += len(texts)
        if not texts or not self._tables:
            return
        units = cut([words_only(text) for text in texts])
        known = np.array(numbers, np.int64)
        for table in self._tables:
            table.look(*_grams(units, table.size), known)

    def result(self) -> Contamination:
        """What was found."""
        hit: NDArray[np.int64] = np.zeros(self._items, np.int64)
        rare: NDArray[np.int64] = np.zeros(self._items, np.int64)
        total: NDArray[np.int64] = np.zeros(self._items, np.int64)
        first = np.full(self._items, np.iinfo(np.int64).max)
        for table in self._tables or ():
            count = table.documents[table.gram]
            total += np.bincount(table.owner, minlength=self._items)
            hit += np.bincount(table.owner[count > 0], minlength=self._items)
            rare += np.bincount(
                table.owner[(count > 0) & (count <= self.settings.common)], minlength=self._items
            )
            np.minimum.at(first, table.owner, table.first[table.gram])
        numbers = np.concatenate(self._numbers) if self._numbers else np.empty(0, np.int64)
        examples = [
            Found(item=int(numbers[i]), document=int(first[i]), shared=int(hit[i]), grams=int(total[i]))
            for i in np.flatnonzero(hit)[:EXAMPLES].tolist()
        ]
        return Contamination(
            settings=self.settings,
            items=self._items,
            too_short=self._short,
            training_documents=self._documents,
            contaminated=int((hit > 0).sum()),
            rare=int((rare > 0).sum()),
            examples=examples,
        )


class _Table:
    """The distinct n-grams of one length: in how many training documents each stands, and the first of them."""

    def __init__(self, size: int, hashes: NDArray[np.uint64], owner: NDArray[np.int64]) -> None:
        self.size, self.owner = size, owner
        self.hashes, self.gram = np.unique(hashes, return_inverse=True)
        self.documents = np.zeros(len(self.hashes), np.int64)
        self.first = np.full(len(self.hashes), np.iinfo(np.int64).max)
        # Most n-grams of a corpus are in no item: a look at one byte spares them the search.
        self._sieve = np.zeros(1 << _SIEVE_BITS, bool)
        self._sieve[self.hashes >> np.uint64(64 - _SIEVE_BITS)] = True

    def look(self, hashes: NDArray[np.uint64], owner: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Count the documents in which n-grams stand: ``owner`` is an n-gram's document, ``numbers`` their numbers."""
        likely = np.flatnonzero(self._sieve[hashes >> np.uint64(64 - _SIEVE_BITS)])
        place = np.searchsorted(self.hashes, hashes[likely])
        place[place == len(self.hashes)] = 0
        same = self.hashes[place] == hashes[likely]
        if not same.any():
            return
        # Once a document: pairs of n-gram and document.
        pairs = np.unique(np.stack([place[same], owner[likely[same]]]), axis=1)
        np.add.at(self.documents, pairs[0], 1)
        np.minimum.at(self.first, pairs[0], numbers[pairs[1]])


def words_only(text: str) -> bytes:
    """A text as it is compared here: lower case, without punctuation and symbols, in UTF-8."""
    if text.isascii():
        return text.encode().translate(_ASCII_LOWER, _ASCII_PUNCTUATION)
    plain = unicodedata.normalize("NFC", text.lower())
    changed = {ord(char): " " if char.isspace() else "" for char in set(plain) if _no_word(char)}
    return plain.translate(changed).encode("utf-8", "surrogatepass")


def _no_word(char: str) -> bool:
    return char.isspace() or unicodedata.category(char)[0] in "PS"


def _grams(units: Units, size: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The hashes of all runs of ``size`` units, and whose they are; a text with fewer has one that no run equals."""
    hashes, counts = windows(units, size)
    return hashes, np.repeat(np.arange(len(counts)), counts)
