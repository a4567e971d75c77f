"""One file of the input through a rule: what is kept of it, as an entry of the new manifest, and what is not."""

from __future__ import annotations

import hashlib
import json
import tempfile
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, cast

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.keeping import prove
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.processing.chooser import Chooser
from pretrain_archive.data.processing.counting import Counts
from pretrain_archive.data.processing.packing import packed
from pretrain_archive.data.processing.reading import (
    PARQUET,
    Doc,
    Form,
    Lost,
    documents,
    form_of,
    of_rows,
    packing_of,
    spooled,
)
from pretrain_archive.data.processing.splicing import replace_text
from pretrain_archive.data.processing.storing import copy, list_dropped, put, written
from pretrain_archive.data.quality.documents import Shard
from pretrain_archive.data.quality.parquet_rows import keep_rows
from pretrain_archive.domain.errors import InputError, StorageError
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/processed-file/1"
LISTED = 8 << 20
"""Bytes of a file's list of dropped documents that are held in memory; more goes to a temporary file."""


@dataclass(kw_only=True)
class Processed:
    """What became of a file: its entry (None if nothing is kept), counts, packing, and the list of what is not kept."""

    entry: Entry | None
    counts: Counts
    packing: str
    dropped: BinaryIO


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What files are processed with: the store, the rule at work, and the key of this application.

    ``copies`` says that kept files have to be put into the store first (the input is no copy).
    """

    store: ObjectStore
    chooser: Chooser
    application: str
    copies: bool


@dataclass(frozen=True, kw_only=True)
class _Place:
    """The number of a file's first document, and the list of what is left out of it."""

    first: int
    dropped: BinaryIO


def process(bench: Bench, entry: Entry, shard: Shard, first: int) -> Processed:
    """Send one file through the rule; ``first`` is the number of its first document.

    A list of documents that an earlier try has finished is found by its digest and not read again.
    """
    dropped = cast("BinaryIO", tempfile.SpooledTemporaryFile(max_size=LISTED))  # noqa: SIM115 - handed on
    if reason := bench.chooser.name(entry.path):
        return _left_out(entry, reason, dropped)
    form = form_of(shard)
    refuse_rows(entry, form)
    if form.kind == "whole":
        return _whole(bench, entry, shard, form, _Place(first=first, dropped=dropped))
    if (known := _remembered(bench, entry, dropped)) is not None:
        return known
    work = _rows if form.kind == "rows" else _lines
    made = work(bench, entry, shard, form, _Place(first=first, dropped=dropped))
    _remember(bench, entry, made)
    return made


def refuse_rows(entry: Entry, form: Form) -> None:
    """``InputError`` for rows of CSV (also packed Parquet), which are not cut out."""
    if form.kind == "rows" and form.packing != PARQUET:
        raise InputError(
            "step", entry.path, "holds its documents as rows of CSV or packed Parquet, which a step cannot cut out",
            hint="Convert the file to Parquet or JSON Lines, or leave it out of the source by a pattern.",
        )  # fmt: skip


def _left_out(entry: Entry, reason: str, dropped: BinaryIO) -> Processed:
    counts = Counts()
    counts.drop(reason, 1, entry.size)
    list_dropped(dropped, entry.path, 0, entry.sha256, reason)
    return Processed(entry=None, counts=counts, packing="", dropped=dropped)


def _whole(bench: Bench, entry: Entry, shard: Shard, form: Form, place: _Place) -> Processed:
    counts, dropped = Counts(), place.dropped
    made = Processed(entry=None, counts=counts, packing="", dropped=dropped)
    found = next(documents(entry, shard, form, texts=bench.chooser.texts, fields=bench.chooser.fields))
    if isinstance(found, Lost):
        counts.drop(found.reason, 1, entry.size)
        list_dropped(dropped, entry.path, 0, entry.sha256, found.reason, found.detail)
        return made
    if reason := bench.chooser.judge(found, place.first):
        counts.drop(reason, 1, entry.size)
        list_dropped(dropped, entry.path, 0, entry.sha256, reason)
        return made
    new = None if found.unit is None else bench.chooser.rewrite(found.unit)
    if new is None:
        made.entry = entry
        if bench.copies:
            copy(bench.store, entry, shard)
    else:
        made.packing = packing_of(shard)
        made.entry = written(bench.store, entry, new.encode(), made.packing)
        counts.changed_documents += 1
    counts.keep(entry.size, made.entry.size)
    return made


def _lines(bench: Bench, entry: Entry, shard: Shard, form: Form, place: _Place) -> Processed:
    counts, number, dropped = Counts(), place.first, place.dropped
    with cast("BinaryIO", tempfile.TemporaryFile()) as out:
        with packed(form.packing, out) as write:
            for found in documents(entry, shard, form, texts=True, fields=bench.chooser.fields):
                if isinstance(found, Lost):
                    counts.drop(found.reason, found.documents, found.size)
                    if found.documents:
                        list_dropped(dropped, found.path, found.line, "", found.reason, found.detail)
                    continue
                line = _line(bench, found, number, counts, dropped)
                number += 1
                if line:
                    write(line)
        kept = _kept(bench, entry, shard, counts, out)
    return Processed(
        entry=kept, counts=counts, packing=form.packing if kept and kept != entry else "", dropped=dropped
    )


def _rows(bench: Bench, entry: Entry, shard: Shard, form: Form, place: _Place) -> Processed:
    """The kept rows of a Parquet file: judged first, by their texts alone, then copied with all columns."""
    counts, number, dropped = Counts(), place.first, place.dropped
    keep = bytearray()  # a byte for each row up to the last one that is kept
    with (
        closing(spooled(entry, shard)) as spool,
        closing(cast("BinaryIO", tempfile.TemporaryFile())) as out,
    ):
        for found in of_rows(entry, spool, bench.chooser.fields):
            if isinstance(found, Lost):
                counts.drop(found.reason, found.documents, found.size)
                list_dropped(dropped, found.path, found.line, "", found.reason, found.detail)
                continue
            if reason := bench.chooser.judge(found, number):
                counts.drop(reason, 1, found.size)
                list_dropped(dropped, found.path, found.line, found.digest, reason)
            else:
                _refuse_rewriting(bench, found)
                counts.keep(found.size, found.size)
                keep.extend(bytes(found.line + 1 - len(keep)))
                keep[found.line] = 1
            number += 1
        if keep and counts.dropped.total():
            keep_rows(entry.path, spool, out, lambda row: row < len(keep) and bool(keep[row]))
        kept = _kept(bench, entry, shard, counts, out)
    return Processed(
        entry=kept, counts=counts, packing=form.packing if kept and kept != entry else "", dropped=dropped
    )


def _refuse_rewriting(bench: Bench, found: Doc) -> None:
    if found.unit is not None and bench.chooser.rewrite(found.unit) is not None:
        raise InputError(
            "step", f"{found.path}, row {found.line}", "would be rewritten, which is not done within Parquet",
            hint="Convert the file to JSON Lines, or leave it out of the source by a pattern.",
        )  # fmt: skip


def _line(bench: Bench, doc: Doc, number: int, counts: Counts, dropped: BinaryIO) -> bytes:
    """The line to write, empty if the document is left out."""
    if reason := bench.chooser.judge(doc, number):
        counts.drop(reason, 1, doc.size)
        list_dropped(dropped, doc.path, doc.line, doc.digest, reason)
        return b""
    unit = doc.unit
    if unit is None:
        raise AssertionError("a line is always read")
    new = bench.chooser.rewrite(unit)
    line = unit.record
    if new is not None:
        line = replace_text(line, bench.chooser.fields.text, new)
        counts.changed_documents += 1
    counts.keep(doc.size, len(line))
    return line


def _kept(bench: Bench, entry: Entry, shard: Shard, counts: Counts, out: BinaryIO) -> Entry | None:
    if not counts.documents_out:
        return None
    if (
        not any(counts.dropped_bytes.values())
        and not sum(counts.dropped.values())
        and not counts.changed_documents
    ):
        if bench.copies:
            copy(bench.store, entry, shard)
        return entry
    size = out.tell()
    out.seek(0)
    digest = hashlib.sha256()
    while block := out.read(BLOCK):
        digest.update(block)
    name = "sha256:" + digest.hexdigest()
    out.seek(0)
    put(bench.store, name, out)
    return Entry(path=entry.path, size=size, sha256=name)


def memo_key(application: str, entry: Entry) -> str:
    """Where the result for a finished list of documents is remembered until the version exists."""
    value = hashlib.sha256(f"{application}\n{entry.path}\n{entry.sha256}".encode()).hexdigest()
    return f"{memo_folder(application)}{value}.jsonl"


def memo_folder(application: str) -> str:
    """The prefix of all that is remembered of one application."""
    return f"processing/{application.removeprefix('sha256:')}/"


def _remember(bench: Bench, entry: Entry, made: Processed) -> None:
    header = {
        "format": FORMAT,
        "entry": None if made.entry is None else made.entry.line().decode(),
        "counts": made.counts.to_json(),
        "packing": made.packing,
    }
    with cast("BinaryIO", tempfile.TemporaryFile()) as out:
        out.write(canonical_bytes(header) + b"\n")
        made.dropped.seek(0)
        for line in made.dropped:
            out.write(line)
        out.seek(0)
        bench.store.put_if_absent(memo_key(bench.application, entry), out)


def _remembered(bench: Bench, entry: Entry, dropped: BinaryIO) -> Processed | None:
    key = memo_key(bench.application, entry)
    if bench.store.stat(key) is None:
        return None
    try:
        with closing(bench.store.open(key)) as stream:
            header = json.loads(stream.readline())
            kept = None if header["entry"] is None else Entry.parse(header["entry"].encode())
            if kept is not None:
                if bench.store.stat(layout.blob_key(kept.sha256)) is None:
                    return None
                prove(bench.store, layout.blob_key(kept.sha256), kept.sha256)
            dropped.writelines(stream)
    except StorageError:
        if bench.store.stat(key) is not None:
            raise
        # Another run that did the same came to its end and removed it: the list is read anew.
        dropped.seek(0)
        dropped.truncate()
        return None
    return Processed(
        entry=kept, counts=Counts.of(header["counts"]), packing=header["packing"], dropped=dropped
    )
