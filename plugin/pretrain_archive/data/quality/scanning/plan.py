"""What a scan measures, and how its files are divided into jobs.

A job is one range of a large JSON Lines file, one other large file, or several small ones. The division follows
from names and sizes alone, never from the number of processes, so that a scan gives the same on any machine.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pretrain_archive.data.containers import HEAD, kind_of
from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.quality.readers.base import Fields, Shard
from pretrain_archive.domain.errors import InputError

RANGE = 32 << 20
"""Bytes of a range of a JSON Lines file: seconds of work, so that two cores end together and a kill costs little."""

GROUP = 16 << 20
GROUP_FILES = 2000
"""Small files are put together up to so many bytes and files: a result each would be more result than data."""

Languages = Literal["off", "declared", "all"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measures:
    """What a scan measures beside the plain counts. All of it can be sent to other processes.

    ``normalised`` is a mode of :mod:`..neardup.normalise` under which texts are compared too, empty for none.
    ``language`` is identified of documents that declare one, or of all. ``sensitive`` and ``near_duplicates`` are
    the settings of :mod:`..sensitive` and :mod:`..neardup` (frozen dataclasses), None to leave it out.
    """

    fields: Fields = dataclasses.field(default_factory=Fields)
    normalised: str = ""
    heuristics: bool = True
    language: Languages = "declared"
    sensitive: Any = None
    near_duplicates: Any = None

    def __post_init__(self) -> None:
        if self.language not in {"off", "declared", "all"}:
            raise InputError("language", self.language, "is not off, declared or all")
        for name in ("sensitive", "near_duplicates"):
            if getattr(self, name) is not None and not dataclasses.is_dataclass(getattr(self, name)):
                raise InputError(name, getattr(self, name), "is no settings record")

    def digest(self) -> str:
        """Hex digest over every setting; another setting is another scan."""
        words = json.dumps(dataclasses.asdict(self), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(words.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A file or a range of it: the lines that begin at ``start`` or later and before ``end`` (None: all)."""

    shard: Shard
    start: int = 0
    end: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it is the whole file."""
        return self.end is None

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the part."""
        with closing(self.shard.open()) as stream:
            if self.end is None:
                while block := stream.read(BLOCK):
                    yield block
            else:
                yield from _between_lines(stream, self.start, self.end)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Parts that are measured together; ``ordinal`` counts the jobs of a scan from 0."""

    ordinal: int
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes to read, as the listing told them."""
        return sum(p.shard.size if p.end is None else min(p.end, p.shard.size) - p.start for p in self.parts)

    def name(self, settings: str) -> str:
        """The file name of its result: from files, sizes, ranges, place in the scan, settings and program."""
        parts = [[p.shard.path, p.shard.size, p.start, p.end] for p in self.parts]
        words = json.dumps([self.ordinal, parts, settings, code_digest()])
        return hashlib.sha256(words.encode()).hexdigest()[:40]


def jobs_of(shards: Iterable[Shard]) -> Iterator[Job]:
    """Divide the files into jobs, in their order."""
    for ordinal, parts in enumerate(_groups(shards)):
        yield Job(ordinal=ordinal, parts=parts)


MEASURING = (
    "containers.py", "quality/documents.py", "quality/readers/*.py", "quality/statistics.py",
    "quality/scanning/chunk.py", "quality/scanning/meter.py", "quality/scanning/plan.py",
    "quality/heuristics*.py", "quality/language.py", "quality/sensitive/*.py", "quality/neardup/normalise.py",
    "quality/neardup/settings.py", "quality/neardup/signatures.py", "quality/neardup/sketch.py",
    "quality/neardup/units.py",
)  # fmt: skip
"""The source that decides what is measured."""


@cache
def code_digest() -> str:
    """Digest of :data:`MEASURING`: what another version measured is not taken for this one's."""
    digest = hashlib.sha256()
    folder = Path(__file__).parents[2]
    for pattern in MEASURING:
        for file in sorted(folder.glob(pattern)):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _groups(shards: Iterable[Shard]) -> Iterator[tuple[Part, ...]]:
    group: list[Part] = []
    size = 0
    for shard in shards:
        if shard.size > RANGE and _is_divided(shard):
            if group:
                yield tuple(group)
                group, size = [], 0
            for start in range(0, shard.size, RANGE):
                # A file that grew since it was listed is read to its end by its last range.
                last = start + RANGE >= shard.size
                yield (Part(shard=shard, start=start, end=1 << 62 if last else start + RANGE),)
            continue
        if group and (size + shard.size > GROUP or len(group) >= GROUP_FILES):
            yield tuple(group)
            group, size = [], 0
        group.append(Part(shard=shard))
        size += shard.size
    if group:
        yield tuple(group)


def _is_divided(shard: Shard) -> bool:
    """Whether it is JSON Lines that is not packed, and can be read from the middle."""
    if not shard.path.lower().endswith((".jsonl", ".ndjson")):
        return False
    with closing(shard.open()) as stream:
        return getattr(stream, "seekable", bool)() and not kind_of(shard.path, stream.read(HEAD))


def _between_lines(stream: BinaryIO, start: int, end: int) -> Iterator[bytes]:
    """The lines that begin in ``[start, end)``: from behind the first line end at or after ``start - 1``."""
    at = max(0, start - 1)
    stream.seek(at)
    begun = start == 0
    while block := stream.read(BLOCK):
        following = at + len(block)
        if not begun:
            found = block.find(b"\n")
            if found < 0 or at + found + 1 >= end:
                if at + len(block) >= end:
                    return
                at = following
                continue
            begun, at, block = True, at + found + 1, block[found + 1 :]
        if following >= end:
            # The line that holds byte end - 1 ends the range.
            found = block.find(b"\n", max(0, end - 1 - at))
            if found >= 0:
                yield block[: found + 1]
                return
        if block:
            yield block
        at = following
