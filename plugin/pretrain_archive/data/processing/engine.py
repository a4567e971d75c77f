"""Send every file of a snapshot through one rule and gather the new manifest and the account."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import Progress, in_order
from pretrain_archive.data.lines import with_header
from pretrain_archive.data.manifest import Built, Entry, Header, read_header
from pretrain_archive.data.processing.chooser import Chooser
from pretrain_archive.data.processing.choosing import chooser_of
from pretrain_archive.data.processing.counting import Counts
from pretrain_archive.data.processing.packing import codec
from pretrain_archive.data.processing.reading import Doc, documents, form_of
from pretrain_archive.data.processing.rewriting import Bench, Processed, memo_folder, process, refuse_rows
from pretrain_archive.data.quality.documents import Shard
from pretrain_archive.data.shards import of_snapshot
from pretrain_archive.data.snapshots import open_manifest
from pretrain_archive.data.tree import Place
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.storage.port import ObjectStore

DROPPED_FORMAT = "pretrain-archive/dropped/1"

Files = Iterator[tuple[Entry, Shard]]


@dataclass(kw_only=True)
class Outcome:
    """What a step made: the new manifest (close ``built.file``), the account, and where the dropped are listed."""

    built: Built
    counts: Counts
    files_in: int
    dropped_key: str
    dropped_digest: str
    codecs: dict[str, str] = field(default_factory=dict)
    observed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Work:
    """The input of a step: where it is kept, which snapshot, and its live folder if it is no copy.

    ``folder`` is for large working files; None is the system's own.
    """

    store: ObjectStore
    snapshot: SnapshotCreated
    source_root: Place | None = None
    progress: Progress | None = None
    folder: Path | None = None

    def files(self) -> Files:
        """The files of the input, in the order of the manifest."""
        return of_snapshot(self.store, self.snapshot, self.source_root)


def run_step(work: Work, step: Any, *, application: str) -> Outcome:
    """Carry out ``step``; no version is made here.

    Raises ``InputError`` naming the step and the reasons if nothing is left: then nothing is kept but finished
    lists of documents, which a later try uses.
    """
    chooser = chooser_of(step, work.folder)
    firsts = _survey(work, chooser) if chooser.surveys else None
    observed = chooser.settle() if chooser.surveys else {}
    # Links are no documents: they go no further, which is told.
    observed |= {"links_left_out": links} if (links := _links(work)) else {}
    bench = Bench(
        store=work.store, chooser=chooser, application=application, copies=work.snapshot.mode != "copy"
    )
    with (
        cast("BinaryIO", tempfile.TemporaryFile()) as spool,
        cast("BinaryIO", tempfile.TemporaryFile()) as dropped,
    ):
        total = _Total()
        for made in in_order(lambda job: process(bench, *job), _jobs(work, firsts)):
            total.take(made, spool, dropped, work.progress)
        _refuse_empty(step, total.counts)
        spool.seek(0)
        header = Header(files=total.files_out, links=0, total_bytes=total.size)
        manifest, digest = with_header(header.line(), spool)
        dropped.seek(0)
        facts = {
            "format": DROPPED_FORMAT,
            "application": application,
            "dropped": sum(total.counts.dropped.values()),
        }
        listed, dropped_digest = with_header(canonical_bytes(facts) + b"\n", dropped)
    key = layout.content_key("dropped", dropped_digest, ".jsonl")
    with listed:
        work.store.put_if_absent(key, listed)
    return Outcome(
        built=Built(header=header, digest=digest, file=manifest), counts=total.counts, files_in=total.files_in,
        dropped_key=key, dropped_digest=dropped_digest, codecs=total.codecs, observed=observed,
    )  # fmt: skip


def forget(work: Work, application: str) -> None:
    """Remove what was remembered of finished lists: the version exists."""
    for info in list(work.store.list(memo_folder(application))):
        work.store.delete(info.key)


@dataclass(kw_only=True)
class _Total:
    counts: Counts = field(default_factory=Counts)
    files_in: int = 0
    files_out: int = 0
    size: int = 0
    codecs: dict[str, str] = field(default_factory=dict)

    def take(self, made: Processed, spool: BinaryIO, dropped: BinaryIO, progress: Progress | None) -> None:
        self.files_in += 1
        self.counts.add(made.counts)
        if made.entry is not None:
            spool.write(made.entry.line())
            self.files_out += 1
            self.size += made.entry.size
        if made.packing and made.packing not in self.codecs:
            self.codecs[made.packing] = codec(made.packing)
        with made.dropped:
            made.dropped.seek(0)
            dropped.writelines(made.dropped)
        if progress is not None:
            progress(self.files_in, self.counts.bytes_in)


def _survey(work: Work, chooser: Chooser) -> array[int]:
    """Let the rule see every document; return the number of each file's first one."""
    firsts, number = array("Q"), 0
    for entry, shard in work.files():
        firsts.append(number)
        if chooser.name(entry.path):
            continue
        form = form_of(shard)
        refuse_rows(entry, form)
        for found in documents(entry, shard, form, texts=chooser.texts, fields=chooser.fields):
            if isinstance(found, Doc):
                chooser.see(found)
                number += 1
    return firsts


def _links(work: Work) -> int:
    with open_manifest(work.store, work.snapshot.manifest_digest) as stream:
        return read_header(stream).links


def _jobs(work: Work, firsts: array[int] | None) -> Iterator[tuple[Entry, Shard, int]]:
    for place, (entry, shard) in enumerate(work.files()):
        yield entry, shard, 0 if firsts is None else firsts[place]


def _refuse_empty(step: Any, counts: Counts) -> None:
    if counts.documents_out:
        return
    told = ", ".join(f"{count} {reason}" for reason, count in counts.dropped.most_common() if count)
    raise InputError(
        "step", step.name, f"leaves no document of {counts.documents_in} (dropped: {told or 'nothing was there'})",
        hint="Loosen the rule under a new version, or check the data; no version was made.",
    )  # fmt: skip
