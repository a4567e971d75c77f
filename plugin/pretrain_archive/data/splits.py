"""Divide a snapshot into training and validation documents.

The part follows from the document's content digest and the seed alone, so exact duplicates always fall on the same
side, and a document keeps its side when others come or go. A plain file is a document; of a list of documents (JSON
Lines, packed or not) each line is one, of a Parquet file each row, and they are written as two new files, one for each
part. CSV and packed Parquet cannot be cut: they stay whole, and the record's method says how many there are.

Symbolic links are in neither part, nor is what the quality check cannot read as a document (empty, blank, binary, not
UTF-8, a broken line): it is counted by kind in the list's header and in the record's method.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Literal, Self, cast

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import hash_stream, in_order
from pretrain_archive.data.lines import with_header
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.processing.halves import cut, cut_rows
from pretrain_archive.data.processing.reading import PARQUET, form_of
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
File = tuple[Entry, Shard]
TEXT = "text"
"""The field with the text where nothing else is said."""
ROWS = "rows not cut"
"""Among what was not read: a file of rows, which is in one part as a whole."""
LINES = "lines"
"""Among what was not read: records without a document in a list that has others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitEntry:
    """A file with its part. ``documents`` is None for a file of the snapshot, which is one document; else the
    file holds so many lines of the list that ``path`` was made from, and lies in the store.
    """

    path: str
    size: int
    sha256: str
    split: str
    documents: int | None = None

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Read a line of a split list."""
        return cls(**json.loads(line))

    def line(self) -> bytes:
        """The document as a line of canonical JSON."""
        fields = {"path": self.path, "size": self.size, "sha256": self.sha256, "split": self.split}
        more = {} if self.documents is None else {"documents": self.documents}
        return canonical_bytes(fields | more) + b"\n"


def create_split(
    store: ObjectStore, ledger: Ledger | None, *, snapshot: SnapshotCreated, seed: int,
    validation_fraction: float, actor: Actor, origin: Origin, stream: str = "", attempt: int = 0,
    rule: str | None = None, text_field: str = TEXT,
) -> SplitCreated:  # fmt: skip
    """Divide ``snapshot``, keep the list of documents in ``store`` and record it.

    ``text_field`` is the field with the text in lists of documents.
    Raises ``InputError`` if either part would be empty: then nothing is stored or recorded.
    """
    if not 0 < validation_fraction < 1:
        raise InputError("validation_fraction", validation_fraction, "is not between 0 and 1")
    reference = f"{snapshot.name}@{snapshot.version}"
    with cast("BinaryIO", tempfile.TemporaryFile()) as spool:
        divide = partial(_of_file, store, seed, validation_fraction, text_field)
        counts, not_read = _divide(of_snapshot(store, snapshot), divide, spool)
        _refuse_empty(counts, not_read, seed=seed, fraction=validation_fraction)
        facts = {"snapshot": reference, "seed": seed, "validation_fraction": validation_fraction}
        method = _method(not_read)
        header = {"format": FORMAT, "method": method, "not_read": not_read, **facts, **counts}
        header |= {} if text_field == TEXT else {"text_field": text_field}
        spool.seek(0)
        listed, digest = with_header(canonical_bytes(header) + b"\n", spool)
    key = split_key(digest)
    with listed:
        store.put_if_absent(key, listed)
    payload = SplitCreated(
        method=method, **facts, **counts, split_uri=store.location(key), split_digest=digest, rule=rule,
        text_field=text_field, left_out={kind: count for kind, count in not_read.items() if kind != ROWS},
    )  # fmt: skip
    if ledger is not None:
        draft = Draft(
            stream=stream or f"data/{snapshot.name}", kind="split.created", payload=payload.to_json(), actor=actor,
            origin=origin, attempt=attempt, edges=_edges(payload, snapshot, stream),
        )  # fmt: skip
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
    files: Iterator[File], divide: Callable[[File], tuple[list[SplitEntry], Counter[str]]], spool: BinaryIO
) -> tuple[dict[str, int], dict[str, int]]:
    """Write the documents into ``spool``; return counts of the parts and of what was not read, by kind."""
    counts = dict.fromkeys(("train_documents", "train_bytes", "validation_documents", "validation_bytes"), 0)
    not_read: Counter[str] = Counter()
    for entries, left in in_order(divide, files):
        not_read.update(left)
        for entry in entries:
            counts[f"{entry.split}_documents"] += 1 if entry.documents is None else entry.documents
            counts[f"{entry.split}_bytes"] += entry.size
            spool.write(entry.line())
    return counts, dict(sorted(not_read.items()))


def _of_file(
    store: ObjectStore, seed: int, fraction: float, text_field: str, file: File
) -> tuple[list[SplitEntry], Counter[str]]:
    """The entries that a file of the snapshot gives, and what of it is no document, by kind."""
    entry, shard = file
    form = form_of(shard)
    if form.kind == "lines" or form.packing == PARQUET:
        part_at = partial(part_of, seed=seed, fraction=fraction)
        if form.packing == PARQUET:
            halves = cut_rows(store, entry, shard, part_at, text_field=text_field)
        else:
            halves = cut(store, entry, shard, form, part_at, text_field=text_field)
        made = [
            SplitEntry(path=h.path, size=h.size, sha256=h.sha256, split=h.part, documents=h.documents)
            for h in halves.made
        ]
        left = Counter({LINES: halves.lines} if made and halves.lines else {})
        return made, left if made else Counter({halves.kind: 1})
    if kind := kind_not_read(shard, text_field=text_field):
        return [], Counter({kind: 1})
    part = part_of(entry.sha256, seed=seed, fraction=fraction)
    whole = SplitEntry(path=entry.path, size=entry.size, sha256=entry.sha256, split=part)
    return [whole], Counter({ROWS: 1} if form.kind == "rows" else {})


def _method(not_read: dict[str, int]) -> str:
    return f"{METHOD}; {_told(not_read)}" if not_read else METHOD


def _told(not_read: dict[str, int]) -> str:
    files = ", ".join(f"{count} {kind}" for kind, count in not_read.items() if kind not in {ROWS, LINES})
    told = {
        "files without a document": files,
        "lines without a document": not_read.get(LINES),
        "files of rows that stay whole": not_read.get(ROWS),
    }
    return "; ".join(f"{what}: {count}" for what, count in told.items() if count)


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
    things = [snapshot_ref(snapshot), *([Ref.parse(split.rule)] if split.rule else [])]
    derived = tuple(
        Edge(subject=subject, relation=Relation.WAS_DERIVED_FROM, object=thing) for thing in things
    )
    if not stream.startswith("run_"):
        return derived
    return *derived, Edge(subject=Ref(type="run", id=stream), relation=Relation.USED, object=subject)
