"""Cut a list of documents into a file of training lines and one of validation lines."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, Literal, cast

from pretrain_archive.data import layout
from pretrain_archive.data.containers import bare_name
from pretrain_archive.data.hashing import hash_stream
from pretrain_archive.data.keeping import prove
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.processing.packing import Write, packed
from pretrain_archive.data.processing.reading import Form, Lost, documents, of_rows, spooled
from pretrain_archive.data.quality.documents import Fields, Shard
from pretrain_archive.data.quality.parquet_rows import keep_rows
from pretrain_archive.storage.port import ObjectStore

Part = Literal["train", "validation"]
CODES: dict[Part, int] = {"train": 1, "validation": 2}


@dataclass(frozen=True, kw_only=True, slots=True)
class Half:
    """One of the two new files; ``path`` is the list's with the part before its ending."""

    part: Part
    path: str
    size: int
    sha256: str
    documents: int


@dataclass(kw_only=True)
class Halves:
    """What a list was cut into, at most one file a part.

    ``lines`` are records of it that are no document; ``kind`` says why there is none at all, as for any file.
    """

    made: list[Half] = field(default_factory=list)
    lines: int = 0
    kind: str = "no data"


def cut(
    store: ObjectStore, entry: Entry, shard: Shard, form: Form, part_of: Callable[[str], Part], *, text_field: str
) -> Halves:  # fmt: skip
    """Write each line, byte for byte, into the file of its part, and keep both in ``store``.

    ``part_of`` is given the digest of a document's text, so that equal documents stay on one side whatever else
    their lines say. ``text_field`` is the field that holds the text.
    """
    found, count = Halves(), Counter[str]()
    with ExitStack() as stack:
        files: dict[Part, BinaryIO] = {}
        writers: dict[Part, Write] = {}
        with ExitStack() as packers:
            for doc in documents(entry, shard, form, texts=True, fields=Fields(text=text_field)):
                if isinstance(doc, Lost):
                    if doc.documents:
                        found.lines += doc.documents
                        found.kind = doc.reason.removeprefix("broken: ")
                    continue
                if doc.unit is None or not doc.unit.raw:
                    found.lines += 1
                    continue
                part = part_of(doc.digest)
                if part not in files:
                    files[part] = cast("BinaryIO", stack.enter_context(tempfile.TemporaryFile()))
                    writers[part] = packers.enter_context(packed(form.packing, files[part]))
                writers[part](doc.unit.record)
                count[part] += 1
        for part in sorted(files):
            found.made.append(_kept(store, entry.path, part, files[part], count[part]))
    return found


def cut_rows(
    store: ObjectStore, entry: Entry, shard: Shard, part_of: Callable[[str], Part], *, text_field: str
) -> Halves:  # fmt: skip
    """Copy the rows of a Parquet file, with all columns, into the file of their part; else as :func:`cut`."""
    found, count = Halves(), Counter[Part]()
    parts = bytearray()  # a byte for each row up to the last document: its part, 0 for none
    with closing(spooled(entry, shard)) as spool:
        for doc in of_rows(entry, spool, Fields(text=text_field)):
            if isinstance(doc, Lost):
                found.lines += doc.documents
                found.kind = doc.reason.removeprefix("broken: ")
            elif doc.unit is None or not doc.unit.raw:
                found.lines += 1
            else:
                part = part_of(doc.digest)
                count[part] += 1
                parts.extend(bytes(doc.line + 1 - len(parts)))
                parts[doc.line] = CODES[part]
        for part in sorted(count):
            with closing(cast("BinaryIO", tempfile.TemporaryFile())) as out:
                keep_rows(entry.path, spool, out, partial(_is_in, parts, CODES[part]))
                found.made.append(_kept(store, entry.path, part, out, count[part]))
    return found


def _is_in(parts: bytearray, code: int, row: int) -> bool:
    return row < len(parts) and parts[row] == code


def _kept(store: ObjectStore, path: str, part: Part, file: BinaryIO, count: int) -> Half:
    file.seek(0)
    digest, size = hash_stream(file)
    file.seek(0)
    key = layout.blob_key(digest)
    if not store.put_if_absent(key, file):
        prove(store, key, digest)
    return Half(part=part, path=named(path, part), size=size, sha256=digest, documents=count)


def named(path: str, part: str) -> str:
    """``a/b.train.jsonl.gz`` for ``a/b.jsonl.gz``: the ending stays, by which the file is read."""
    bare = bare_name(path)
    folder, slash, name = bare.rpartition("/")
    stem, dot, ends = name.rpartition(".")
    made = f"{stem}.{part}.{ends}" if dot else f"{name}.{part}"
    return f"{folder}{slash}{made}{path[len(bare) :] if path.startswith(bare) else ''}"
