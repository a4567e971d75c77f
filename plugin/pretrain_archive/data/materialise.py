"""Lay a split out for a training program: one list that names every document by an absolute path.

Each document's bytes are hashed before it is listed. A folder store's own files are named; from an S3 store, or a
bucket that was snapshot by reference, the documents are downloaded, under their digest, so that no name in the data
can leave the folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import BLOCK, Progress, hash_stream, in_order
from pretrain_archive.data.manifest import read_entries
from pretrain_archive.data.snapshots import open_manifest
from pretrain_archive.data.sources import live_tree
from pretrain_archive.data.splits import SplitEntry, read_split
from pretrain_archive.data.tree import FolderTree, Listed, Place, Tree
from pretrain_archive.domain.errors import ArchiveError, SourceError
from pretrain_archive.domain.identity import path_to_text, text_to_path
from pretrain_archive.domain.kinds import SnapshotCreated, SplitCreated
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.storage.port import ObjectStore, local_path


@dataclass(frozen=True, slots=True)
class Wanted:
    """A document of the split, and the version at which the snapshot pins it."""

    entry: SplitEntry
    version: str | None = None


Located = Callable[[Wanted], bytes]


def materialise(
    store: ObjectStore,
    snapshot: SnapshotCreated,
    split: SplitCreated,
    folder: Path,
    *,
    source_root: Place | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write ``folder/manifest.jsonl`` and return its path.

    A line is ``{"path", "location", "sha256", "size", "split"}``: name, absolute path to read, digest, bytes,
    train or validation. A snapshot by reference is read from ``source_root`` or its recorded source.
    Raises ``ArchiveError`` naming the document whose bytes are not those of the snapshot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    locate = _locator(store, snapshot, folder.resolve(), source_root)

    def work(wanted: Wanted) -> tuple[SplitEntry, bytes]:
        return wanted.entry, locate(wanted)

    documents = size = 0
    target = folder.resolve() / "manifest.jsonl"
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".manifest-", delete=False) as out:
        try:
            for entry, place in in_order(work, _wanted(store, snapshot, split)):
                out.write(_line(entry, place))
                documents, size = documents + 1, size + entry.size
                if progress is not None:
                    progress(documents, size)
            out.flush()
            os.fsync(out.fileno())
            Path(out.name).replace(target)
        finally:
            with suppress(FileNotFoundError):
                Path(out.name).unlink()
    return target


def _line(entry: SplitEntry, place: bytes) -> bytes:
    fields = {"path": entry.path, "sha256": entry.sha256, "size": entry.size, "split": entry.split}
    return canonical_bytes(fields | {"location": os.fsdecode(place)}) + b"\n"


def _wanted(store: ObjectStore, snapshot: SnapshotCreated, split: SplitCreated) -> Iterator[Wanted]:
    """The documents of the split, those of a snapshot by reference with their version."""
    entries = read_split(store, split)
    if snapshot.mode != "reference":
        yield from map(Wanted, entries)
        return
    with open_manifest(store, snapshot.manifest_digest) as stream:
        files = read_entries(stream)
        for entry in entries:
            # Files of the snapshot stand in its order; halves of a list between them are in no manifest.
            if _is_half(entry):
                yield Wanted(entry)
            elif (pinned := next((f for f in files if f.path == entry.path), None)) is not None:
                yield Wanted(entry, pinned.version)
            else:
                raise _not_in(snapshot, entry)


def _not_in(snapshot: SnapshotCreated, entry: SplitEntry) -> ArchiveError:
    """The error for a document without a place in the manifest: nothing would say at which version to read it."""
    return ArchiveError(
        f"document {entry.path}: stands in the split, and not in the manifest of {snapshot.name}@{snapshot.version}, "
        "or not in its order.",
        hint="Split this snapshot anew.",
    )


def _is_half(entry: SplitEntry) -> bool:
    """Whether the entry is the lines of one part of a list: made by the split, kept in the store in every mode."""
    return entry.documents is not None


def _locator(
    store: ObjectStore, snapshot: SnapshotCreated, folder: Path, source_root: Place | None
) -> Located:
    kept = (
        partial(_in_store, store)
        if local_path(store, "blobs") is not None
        else partial(_downloaded, store, folder)
    )
    if snapshot.mode != "reference":
        return kept
    tree = live_tree(snapshot, source_root)
    live = partial(_in_folder, tree) if isinstance(tree, FolderTree) else partial(_fetched, tree, folder)
    return lambda wanted: kept(wanted) if _is_half(wanted.entry) else live(wanted)


def _in_folder(tree: FolderTree, wanted: Wanted) -> bytes:
    entry = wanted.entry
    path = text_to_path(entry.path)
    place = tree.absolute(path)
    try:
        place.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(
            f"document {entry.path}: its name is not UTF-8, so no JSON can name it to the training program.",
            hint="Snapshot the source in copy mode.",
        ) from error
    with tree.open(Listed(path, entry.size)) as stream:
        _check(entry, *hash_stream(stream), where=path_to_text(place))
    return place


def _fetched(tree: Tree, folder: Path, wanted: Wanted) -> bytes:
    listed = Listed(text_to_path(wanted.entry.path), wanted.entry.size, version=wanted.version)
    return _kept(wanted.entry, folder, lambda: tree.open(listed), where=tree.uri)


def _in_store(store: ObjectStore, wanted: Wanted) -> bytes:
    key = layout.blob_key(wanted.entry.sha256)
    with store.open(key) as stream:
        _check(wanted.entry, *hash_stream(stream), where=store.location(key))
    return os.fsencode(cast("Path", local_path(store, key)))


def _downloaded(store: ObjectStore, folder: Path, wanted: Wanted) -> bytes:
    key = layout.blob_key(wanted.entry.sha256)
    return _kept(wanted.entry, folder, lambda: store.open(key), where=store.location(key))


def _kept(entry: SplitEntry, folder: Path, opened: Callable[[], BinaryIO], *, where: str) -> bytes:
    """The document as a file of ``folder`` under its digest, fetched unless it is there and whole."""
    name = entry.sha256.removeprefix("sha256:")
    target = folder / "documents" / name[:2] / name
    if target.is_file():
        with target.open("rb") as stream:
            if hash_stream(cast("BinaryIO", stream)) == (entry.sha256, entry.size):
                return os.fsencode(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Documents with the same bytes may be fetched twice at once: each has its own file until the rename.
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".part-", delete=False) as out:
        try:
            with opened() as source:
                while block := source.read(BLOCK):
                    out.write(block)
            out.flush()
            out.seek(0)
            _check(entry, *hash_stream(cast("BinaryIO", out.file)), where=where)
            Path(out.name).replace(target)
        finally:
            with suppress(FileNotFoundError):
                Path(out.name).unlink()
    return os.fsencode(target)


def _check(entry: SplitEntry, digest: str, size: int, *, where: str) -> None:
    if (digest, size) != (entry.sha256, entry.size):
        raise ArchiveError(
            f"document {entry.path}: {where} holds {size} bytes with {digest}, expected {entry.size} bytes "
            f"with {entry.sha256}.",
            hint="Verify the snapshot; restore the object or make a new version.",
        )
