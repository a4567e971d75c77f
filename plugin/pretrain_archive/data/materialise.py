"""Lay a split out for a training program: one list that names every document by an absolute path.

Each document's bytes are hashed before it is listed. A folder store's own files are named; from an S3 store
the documents are downloaded, under their digest, so that no name in the data can leave the folder.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import BLOCK, Progress, hash_stream, in_order
from pretrain_archive.data.sources import live_tree
from pretrain_archive.data.splits import SplitEntry, read_split
from pretrain_archive.data.tree import FolderTree, Listed, Place
from pretrain_archive.domain.errors import ArchiveError, SourceError
from pretrain_archive.domain.identity import path_to_text, text_to_path
from pretrain_archive.domain.kinds import SnapshotCreated, SplitCreated
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.storage.port import ObjectStore, local_path

Located = Callable[[SplitEntry], bytes]


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

    def work(entry: SplitEntry) -> tuple[SplitEntry, bytes]:
        return entry, locate(entry)

    documents = size = 0
    target = folder.resolve() / "manifest.jsonl"
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".manifest-", delete=False) as out:
        try:
            for entry, place in in_order(work, read_split(store, split)):
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


def _locator(
    store: ObjectStore, snapshot: SnapshotCreated, folder: Path, source_root: Place | None
) -> Located:
    if snapshot.mode == "reference":
        tree = live_tree(snapshot, source_root)
        if not isinstance(tree, FolderTree):
            raise ArchiveError(f"{tree.uri}: is not a folder.", hint="Snapshot the source in copy mode.")
        stored = _locator(store, snapshot.model_copy(update={"mode": "copy"}), folder, None)
        # The halves of a list of documents are new files: they lie in the store in every mode.
        return lambda entry: _in_source(tree, entry) if entry.documents is None else stored(entry)
    if local_path(store, "blobs") is not None:
        return partial(_in_store, store)
    return partial(_downloaded, store, folder)


def _in_source(tree: FolderTree, entry: SplitEntry) -> bytes:
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


def _in_store(store: ObjectStore, entry: SplitEntry) -> bytes:
    key = layout.blob_key(entry.sha256)
    with store.open(key) as stream:
        _check(entry, *hash_stream(stream), where=store.location(key))
    return os.fsencode(cast("Path", local_path(store, key)))


def _downloaded(store: ObjectStore, folder: Path, entry: SplitEntry) -> bytes:
    name = entry.sha256.removeprefix("sha256:")
    target = folder / "documents" / name[:2] / name
    if target.is_file():
        with target.open("rb") as stream:
            if hash_stream(cast("BinaryIO", stream)) == (entry.sha256, entry.size):
                return os.fsencode(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    key = layout.blob_key(entry.sha256)
    # Documents with the same bytes may be fetched twice at once: each has its own file until the rename.
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".part-", delete=False) as out:
        try:
            with store.open(key) as source:
                while block := source.read(BLOCK):
                    out.write(block)
            out.flush()
            out.seek(0)
            _check(entry, *hash_stream(cast("BinaryIO", out.file)), where=store.location(key))
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
