"""The documents of a snapshot, of one part of its split, or of a folder, numbered for a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pretrain_archive.data import layout
from pretrain_archive.data.quality.documents import Fields, Shard, Text, read_texts
from pretrain_archive.data.shards import of_snapshot
from pretrain_archive.data.splits import read_split
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.kinds import SnapshotCreated, SplitCreated
from pretrain_archive.storage.port import ObjectStore

BATCH: Final = 1 << 20
_LINE_BITS = 32


@dataclass(kw_only=True)
class Side:
    """One side of a comparison. ``shards`` lists its files anew at every call, in manifest order.

    A document's number is the ordinal of its file, then its line in 32 bits: numbers ascend in manifest order.
    ``not_read`` counts what is no document, by kind, after :meth:`batches` has ended.
    """

    name: str
    shards: Callable[[], Iterable[Shard]]
    fields: Fields = field(default_factory=Fields)
    documents: int = 0
    not_read: dict[str, int] = field(default_factory=dict)

    def batches(self) -> Iterator[tuple[list[int], list[str]]]:
        """Yield numbers and texts, about a mebibyte at a time."""
        self.documents, self.not_read = 0, {}
        numbers: list[int] = []
        texts: list[str] = []
        size = 0
        for ordinal, shard in enumerate(self.shards()):
            for unit in read_texts(shard, fields=self.fields):
                if not isinstance(unit, Text):
                    self.not_read[unit.kind] = self.not_read.get(unit.kind, 0) + 1
                    continue
                numbers.append(ordinal << _LINE_BITS | unit.line)
                texts.append(unit.text)
                size += len(unit.text)
                self.documents += 1
                if size >= BATCH:
                    yield numbers, texts
                    numbers, texts, size = [], [], 0
        if texts:
            yield numbers, texts

    def places(self, numbers: Iterable[int]) -> dict[int, str]:
        """Where documents stand: ``PATH`` or ``PATH:LINE``."""
        wanted = sorted(set(numbers), reverse=True)
        found: dict[int, str] = {}
        for ordinal, shard in enumerate(self.shards()):
            while wanted and wanted[-1] >> _LINE_BITS == ordinal:
                number = wanted.pop()
                line = number & ((1 << _LINE_BITS) - 1)
                found[number] = f"{shard.path}:{line}" if line else shard.path
            if not wanted:
                break
        return found


def part_shards(
    store: ObjectStore, snapshot: SnapshotCreated, split: SplitCreated, part: str
) -> Iterator[Shard]:
    """Yield the files of ``part`` of a split: whole files of the snapshot, and lists that the split wrote."""
    if snapshot.mode != "reference":
        for listed in read_split(store, split):
            if listed.split == part:
                yield _stored(store, listed.path, listed.size, listed.sha256)
        return
    files = of_snapshot(store, snapshot)
    for listed in read_split(store, split):
        if listed.split != part:
            continue
        if listed.documents is not None:  # the split wrote it itself
            yield _stored(store, listed.path, listed.size, listed.sha256)
            continue
        # Whole files stand in the manifest's order in both lists.
        shard = next((shard for entry, shard in files if entry.path == listed.path), None)
        if shard is None:
            raise ArchiveError(
                f"{listed.path}: is in the split and not in {snapshot.name}@{snapshot.version}.",
                hint="Verify the snapshot, and split it anew.",
            )
        yield shard


def _stored(store: ObjectStore, path: str, size: int, digest: str) -> Shard:
    return Shard(path=path, size=size, open=lambda: store.open(layout.blob_key(digest)))
