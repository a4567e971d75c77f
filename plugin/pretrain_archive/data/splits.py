"""Divide a snapshot into training and validation documents.

The part follows from the document's content digest and the seed alone, so exact duplicates always fall on the
same side, and a document keeps its side when others come or go. Symbolic links are in neither part, nor are files of
which the quality check reads no document (empty, blank, a container such as gzip or parquet, not UTF-8): they are
counted by kind in the list's header and in the record's method.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal, Self, cast

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import hash_stream, in_order
from pretrain_archive.data.lines import with_header
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.quality.documents import Shard, kind_not_read
from pretrain_archive.data.shards import of_snapshot
from pretrain_archive.data.snapshots import snapshot_ref
from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import SnapshotCreated, SplitCreated
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/split/1"
METHOD = "sha256(seed, document digest) below the fraction of 2^64: validation; by exact content"
Part = Literal["train", "validation"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitEntry:
    """A document with its part."""

    path: str
    size: int
    sha256: str
    split: str

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Read a line of a split list."""
        return cls(**json.loads(line))

    def line(self) -> bytes:
        """The document as a line of canonical JSON."""
        fields = {"path": self.path, "size": self.size, "sha256": self.sha256, "split": self.split}
        return canonical_bytes(fields) + b"\n"


def create_split(
    store: ObjectStore, ledger: Ledger | None, *, snapshot: SnapshotCreated, seed: int,
    validation_fraction: float, actor: Actor, origin: Origin, stream: str = "", attempt: int = 0,
) -> SplitCreated:  # fmt: skip
    """Divide ``snapshot``, keep the list of documents in ``store`` and record it.

    Raises ``InputError`` if either part would be empty: then nothing is stored or recorded.
    """
    if not 0 < validation_fraction < 1:
        raise InputError("validation_fraction", validation_fraction, "is not between 0 and 1")
    reference = f"{snapshot.name}@{snapshot.version}"
    with cast("BinaryIO", tempfile.TemporaryFile()) as spool:
        counts, not_read = _divide(store, snapshot, seed=seed, fraction=validation_fraction, spool=spool)
        _refuse_empty(counts, not_read, seed=seed, fraction=validation_fraction)
        facts = {"snapshot": reference, "seed": seed, "validation_fraction": validation_fraction}
        method = _method(not_read)
        header = {"format": FORMAT, "method": method, "not_read": not_read, **facts, **counts}
        spool.seek(0)
        listed, digest = with_header(canonical_bytes(header) + b"\n", spool)
    key = split_key(digest)
    with listed:
        store.put_if_absent(key, listed)
    payload = SplitCreated(
        method=method, **facts, split_uri=store.location(key), split_digest=digest, **counts
    )
    if ledger is not None:
        where = stream or f"data/{snapshot.name}"
        edges = _edges(payload, snapshot, stream)
        ledger.append([
            Draft(stream=where, kind="split.created", payload=payload.to_json(), actor=actor, origin=origin,
                  attempt=attempt, edges=edges)
        ])  # fmt: skip
    return payload


def split_key(digest: str) -> str:
    """The key of a split list."""
    return layout.content_key("splits", digest, ".jsonl")


def split_ref(split: SplitCreated) -> Ref:
    """``split:DIGEST``."""
    return Ref(type="split", id=split.split_digest)


def read_split(store: ObjectStore, split: SplitCreated) -> Iterator[SplitEntry]:
    """Yield the documents of a split; ``ArchiveError`` if the list is not what its digest says."""
    key = split_key(split.split_digest)
    with store.open(key) as stream:
        if hash_stream(stream)[0] != split.split_digest:
            raise ArchiveError(
                f"{store.location(key)}: differs from its digest.", hint="Restore the list from a copy."
            )
    with store.open(key) as stream:
        stream.readline()
        for line in stream:
            yield SplitEntry.parse(line)


def part_of(digest: str, *, seed: int, fraction: float) -> Part:
    """The part of a document with this content ``digest``."""
    value = hashlib.sha256(f"pretrain-archive/split/1\n{seed}\n{digest}".encode()).digest()
    return "validation" if int.from_bytes(value[:8], "big") < fraction * 2**64 else "train"


def _divide(
    store: ObjectStore, snapshot: SnapshotCreated, *, seed: int, fraction: float, spool: BinaryIO
) -> tuple[dict[str, int], dict[str, int]]:
    """Write the documents into ``spool``; return counts of the parts and of what was not read, by kind."""
    counts = dict.fromkeys(("train_documents", "train_bytes", "validation_documents", "validation_bytes"), 0)
    not_read: Counter[str] = Counter()
    for entry, kind in in_order(_looked_at, of_snapshot(store, snapshot)):
        if kind:
            not_read[kind] += 1
            continue
        part = part_of(entry.sha256, seed=seed, fraction=fraction)
        counts[f"{part}_documents"] += 1
        counts[f"{part}_bytes"] += entry.size
        spool.write(SplitEntry(path=entry.path, size=entry.size, sha256=entry.sha256, split=part).line())
    return counts, dict(sorted(not_read.items()))


def _looked_at(file: tuple[Entry, Shard]) -> tuple[Entry, str]:
    entry, shard = file
    return entry, kind_not_read(shard)


def _method(not_read: dict[str, int]) -> str:
    return f"{METHOD}; {_told(not_read)}" if not_read else METHOD


def _told(not_read: dict[str, int]) -> str:
    return "files without a document: " + ", ".join(f"{count} {kind}" for kind, count in not_read.items())


def _refuse_empty(counts: dict[str, int], not_read: dict[str, int], *, seed: int, fraction: float) -> None:
    told = f"; {_told(not_read)}" if not_read else ""
    for part in ("train", "validation"):
        if not counts[f"{part}_documents"]:
            raise InputError(
                "validation_fraction",
                fraction,
                f"leaves no {part} document with seed {seed}{told}",
                hint="Choose another fraction or seed, or add documents.",
            )


def _edges(split: SplitCreated, snapshot: SnapshotCreated, stream: str) -> tuple[Edge, ...]:
    subject = split_ref(split)
    derived = Edge(subject=subject, relation=Relation.WAS_DERIVED_FROM, object=snapshot_ref(snapshot))
    if not stream.startswith("run_"):
        return (derived,)
    return derived, Edge(subject=Ref(type="run", id=stream), relation=Relation.USED, object=subject)
