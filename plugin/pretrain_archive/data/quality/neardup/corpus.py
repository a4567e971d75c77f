"""Read sketches in place: documents of one or two corpora under ranks that do not depend on how they were written.

A *rank* is a document's place by number among its corpus; with two corpora the right one's ranks follow the left one's.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pretrain_archive.data.quality.neardup.runs import Sorter
from pretrain_archive.data.quality.neardup.settings import Settings
from pretrain_archive.data.quality.neardup.sketch import DIGEST_BYTES, MAGIC, SECTIONS
from pretrain_archive.data.quality.neardup.units import ranges
from pretrain_archive.domain.errors import ArchiveError, InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_DOCUMENTS = (1 << 32) - 1


class Scratch:
    """Arrays as long as a corpus: in memory while they are small against the bound, else in files of a folder."""

    def __init__(self, folder: Path, memory: int) -> None:
        self.folder, self.memory = folder, memory

    @property
    def block(self) -> int:
        """How many documents or pairs are worked on at once where each needs a few numbers."""
        return max(1 << 10, min(1 << 18, self.memory // 256))

    def array(self, name: str, dtype: Any, length: int) -> NDArray[Any]:
        """A new array of zeros."""
        if length * np.dtype(dtype).itemsize <= self.memory // 16:
            return np.zeros(length, dtype)
        return np.memmap(self.folder / name, dtype, mode="w+", shape=(length,))


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """The sections of one file, mapped; ``base`` is the place of its first document among all files."""

    numbers: NDArray[np.int64]
    digests: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    signatures: NDArray[np.uint32]
    hashes: NDArray[np.uint32]
    mapped: mmap.mmap
    base: int = 0

    @property
    def count(self) -> int:
        """Documents in the file."""
        return len(self.numbers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Neighbouring documents of one file with their ranks."""

    ranks: NDArray[np.uint64]
    numbers: NDArray[np.int64]
    digests: NDArray[np.uint64]
    signatures: NDArray[np.uint32]
    has_hashes: NDArray[np.bool_]


class Corpus:
    """The documents of ``groups`` of sketch files: one corpus, or a left and a right one.

    Raises ``InputError`` if a sketch was made with other settings or a number is in two sketches of a group, and
    ``ArchiveError`` for a file that is no whole sketch.
    """

    def __init__(self, groups: Sequence[Sequence[Path]], settings: Settings, scratch: Scratch) -> None:
        self._scratch, self._settings = scratch, settings
        self._files: list[Sketch] = []
        self._ranks: list[NDArray[np.int64] | None] = []
        self.counts: list[int] = []
        for group in groups:
            self._add(group)
        self.documents = sum(self.counts)
        if self.documents > MOST_DOCUMENTS:
            raise InputError("sketches", self.documents, "documents are more than one search can hold (2^32)")
        self._bases = np.array([file.base for file in self._files], np.int64)
        self._where = self._places()

    @property
    def rank_bits(self) -> int:
        """Bits that every rank fits in."""
        return max(1, self.documents.bit_length())

    def parts(self, documents: int) -> Iterator[Part]:
        """Yield all documents, file by file, at most so many at once."""
        for file, rank in zip(self._files, self._ranks, strict=True):
            for begin in range(0, file.count, documents):
                end = min(begin + documents, file.count)
                ranks = (
                    np.arange(file.base + begin, file.base + end, dtype=np.uint64)
                    if rank is None
                    else rank[begin:end].astype(np.uint64)
                )
                yield Part(
                    ranks=ranks,
                    numbers=file.numbers[begin:end],
                    digests=file.digests[begin:end],
                    signatures=file.signatures[begin:end],
                    has_hashes=np.diff(file.offsets[begin : end + 1]) > 0,
                )
                self._release(file)

    def numbers(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of documents by rank."""
        found = np.empty(len(ranks), np.int64)
        for file, chosen, places in self._located(ranks):
            found[chosen] = file.numbers[places]
        return found

    def digests(self, ranks: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The digests of the normalised texts by rank, two numbers each."""
        found = np.empty((len(ranks), 2), np.uint64)
        for file, chosen, places in self._located(ranks):
            found[chosen] = file.digests[places]
        return found

    def sizes(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many hashes documents have."""
        found = np.empty(len(ranks), np.int64)
        for file, chosen, places in self._located(ranks):
            found[chosen] = file.offsets[places + 1] - file.offsets[places]
        return found

    def hashes(self, ranks: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The hashes of documents, one after the other."""
        found = np.empty(int(sizes.sum()), np.uint32)
        ends = np.cumsum(sizes)
        for file, chosen, places in self._located(ranks):
            count = sizes[chosen]
            found[ranges(ends[chosen] - count, count)] = file.hashes[ranges(file.offsets[places], count)]
        return found

    def release(self) -> None:
        """Let the system take back the memory of what was read; reading goes on as before."""
        for file in self._files:
            self._release(file)

    @staticmethod
    def _release(file: Sketch) -> None:
        if hasattr(mmap, "MADV_DONTNEED"):
            file.mapped.madvise(mmap.MADV_DONTNEED)

    def _located(
        self, ranks: NDArray[np.int64]
    ) -> Iterator[tuple[Sketch, NDArray[np.int64] | slice, NDArray[np.int64]]]:
        places = ranks if self._where is None else self._where[ranks].astype(np.int64)
        if len(self._files) == 1:
            yield self._files[0], slice(None), places
            return
        owner = np.searchsorted(self._bases, places, side="right") - 1
        for number in np.unique(owner).tolist():
            chosen = np.flatnonzero(owner == number)
            yield self._files[number], chosen, places[chosen] - self._bases[number]

    def _add(self, group: Sequence[Path]) -> None:
        base = sum(self.counts)
        files = [file for path in group if (file := _open(path, self._settings)).count]
        files.sort(key=lambda file: int(file.numbers[0]))
        start = base
        for file in files:
            self._files.append(Sketch(**vars(file) | {"base": start}))
            start += file.count
        self.counts.append(start - base)
        ordered = all(int(a.numbers[-1]) < int(b.numbers[0]) for a, b in pairwise(files))
        self._ranks += [None] * len(files) if ordered else self._interleaved(files, base)

    def _interleaved(self, files: Sequence[Sketch], base: int) -> list[NDArray[np.int64] | None]:
        """Ranks of documents whose numbers are spread over files, as several workers leave them."""
        total, name = sum(file.count for file in files), len(self.counts)
        ordered = self._scratch.array(f"numbers-{name}", np.int64, total)
        place = 0
        sorter = Sorter(self._scratch.folder, self._scratch.memory // 4)
        for file in files:
            sorter.add(file.numbers.astype(np.uint64))
        for block in sorter.blocks():
            ordered[place : place + len(block)] = block
            place += len(block)
        _refuse_twice(ordered)
        ranks: list[NDArray[np.int64] | None] = []
        for index, file in enumerate(files):
            rank = self._scratch.array(f"ranks-{name}-{index}", np.int64, file.count)
            rank[:] = np.searchsorted(ordered, file.numbers) + base
            ranks.append(rank)
        return ranks

    def _places(self) -> NDArray[np.int64] | None:
        """Where a rank's document lies; None where rank and place are the same."""
        if all(rank is None for rank in self._ranks):
            return None
        where = self._scratch.array("where", np.int64, self.documents)
        for file, rank in zip(self._files, self._ranks, strict=True):
            places = np.arange(file.base, file.base + file.count)
            where[places if rank is None else rank] = places
        return where


def _refuse_twice(ordered: NDArray[np.int64]) -> None:
    for begin in range(0, len(ordered) - 1, 1 << 20):
        part = ordered[begin : begin + (1 << 20) + 1]
        again = np.flatnonzero(part[1:] == part[:-1])
        if len(again):
            raise InputError("sketches", int(part[again[0]]), "is the number of two documents")


def _open(path: Path, settings: Settings) -> Sketch:
    try:
        with path.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        if mapped[: len(MAGIC)] != MAGIC:
            raise ValueError("it does not begin as one")  # noqa: TRY301 - one handler for every way to be none
        begin = len(MAGIC) + 8
        end = begin + int.from_bytes(mapped[len(MAGIC) : begin], "little")
        header = json.loads(mapped[begin:end])
        views = _views(mapped, end, header)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArchiveError(f"{path}: is no whole sketch: {error}.", hint="Scan the data again.") from error
    if header["settings"] != settings.sketching():
        raise InputError(
            "settings", settings.sketching(), f"differ from those of the sketch {path}: {header['settings']}",
            hint="Scan the data again with these settings.",
        )  # fmt: skip
    return Sketch(mapped=mapped, **views)


def _views(mapped: mmap.mmap, place: int, header: dict[str, Any]) -> dict[str, Any]:
    count, width = header["documents"], header["settings"]["permutations"]
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "numbers": ("<i8", (count,)),
        "digests": ("<u8", (count, DIGEST_BYTES // 8)),
        "offsets": ("<i8", (count + 1,)),
        "signatures": ("<u4", (count, width)),
        "hashes": ("<u4", (-1,)),
    }
    views = {}
    for name in SECTIONS:
        place += -place % 8
        size = header["sizes"][name]
        if place + size > len(mapped):
            raise ValueError(f"its section {name} is cut off")
        kind, shape = shapes[name]
        views[name] = np.frombuffer(mapped, kind, size // np.dtype(kind).itemsize, place).reshape(shape)
        place += size
    return views
