"""Divide a snapshot into training and validation documents.

The part follows from the document's content digest and the seed alone, so exact duplicates always fall on the
same side, and a document keeps its side when others come or go. Documents without a byte and symbolic links
are in neither part.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal, Self, cast

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import hash_stream
from pretrain_archive.data.lines import with_header
from pretrain_archive.data.manifest import read_entries
from pretrain_archive.data.snapshots import open_manifest, snapshot_ref
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
    store: ObjectStore,
    ledger: Ledger | None,
    *,
    snapshot: SnapshotCreated,
    seed: int,
    validation_fraction: float,
    actor: Actor,
    origin: Origin,
    stream: str = "",
    attempt: int = 0,
) -> SplitCreated:
    """Divide ``snapshot``, keep the list of documents in ``store`` and record it.

    Raises ``InputError`` if either part would be empty: then nothing is stored or recorded.
    """
    if not 0 < validation_fraction < 1:
        raise InputError("validation_fraction", validation_fraction, "is not between 0 and 1")
    reference = f"{snapshot.name}@{snapshot.version}"
    with cast("BinaryIO", tempfile.TemporaryFile()) as spool:
        counts = _divide(store, snapshot, seed=seed, fraction=validation_fraction, spool=spool)
        _refuse_empty(counts, seed, validation_fraction)
        facts = {"snapshot": reference, "seed": seed, "validation_fraction": validation_fraction}
        header = canonical_bytes({"format": FORMAT, "method": METHOD, **facts, **counts}) + b"\n"
        spool.seek(0)
        listed, digest = with_header(header, spool)
    with listed:
        store.put_if_absent(split_key(digest), listed)
    payload = SplitCreated(
        method=METHOD,
        **facts,
        split_uri=store.location(split_key(digest)),
        split_digest=digest,
        **counts,
    )
    if ledger is not None:
        draft = Draft(
            stream=stream or f"data/{snapshot.name}",
            kind="split.created",
            payload=payload.to_json(),
            actor=actor,
            origin=origin,
            attempt=attempt,
            edges=_edges(payload, snapshot, stream),
        )
        ledger.append([draft])
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
) -> dict[str, int]:
    counts = dict.fromkeys(("train_documents", "train_bytes", "validation_documents", "validation_bytes"), 0)
    with open_manifest(store, snapshot.manifest_digest) as stream:
        for entry in read_entries(stream):
            if entry.size == 0:
                continue
            part = part_of(entry.sha256, seed=seed, fraction=fraction)
            counts[f"{part}_documents"] += 1
            counts[f"{part}_bytes"] += entry.size
            spool.write(SplitEntry(path=entry.path, size=entry.size, sha256=entry.sha256, split=part).line())
    return counts


def _refuse_empty(counts: dict[str, int], seed: int, fraction: float) -> None:
    for part in ("train", "validation"):
        if not counts[f"{part}_documents"]:
            raise InputError(
                "validation_fraction",
                fraction,
                f"leaves no {part} document with seed {seed}",
                hint="Choose another fraction or seed, or add documents.",
            )


def _edges(split: SplitCreated, snapshot: SnapshotCreated, stream: str) -> tuple[Edge, ...]:
    subject = split_ref(split)
    derived = Edge(subject=subject, relation=Relation.WAS_DERIVED_FROM, object=snapshot_ref(snapshot))
    if not stream.startswith("run_"):
        return (derived,)
    return derived, Edge(subject=Ref(type="run", id=stream), relation=Relation.USED, object=subject)
