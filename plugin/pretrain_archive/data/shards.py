"""The files of a snapshot or a source, each with a way to open it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, cast

from pretrain_archive.data import layout
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.manifest import Entry, read_entries
from pretrain_archive.data.quality.documents import Shard
from pretrain_archive.data.snapshots import open_manifest
from pretrain_archive.data.sources import live_tree
from pretrain_archive.data.tree import FolderTree, Listed, Place, Tree
from pretrain_archive.domain.identity import path_to_text, text_to_path
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.storage.port import ObjectStore


def of_snapshot(
    store: ObjectStore, snapshot: SnapshotCreated, source_root: Place | None = None
) -> Iterator[tuple[Entry, Shard]]:
    """Yield the files of a snapshot, links left out.

    One by reference is read from its recorded source, or from ``source_root``, a tree or the path of a folder.
    """
    opener = _opener(store, snapshot, source_root)
    with open_manifest(store, snapshot.manifest_digest) as stream:
        for entry in read_entries(stream):
            if entry.link is None:
                yield entry, Shard(path=entry.path, size=entry.size, open=partial(opener, entry))


def of_path(root: bytes, chosen: Filter) -> Iterator[Shard]:
    """Yield the files that ``chosen`` takes below the folder ``root``."""
    return of_tree(FolderTree(root), chosen)


def of_tree(tree: Tree, chosen: Filter) -> Iterator[Shard]:
    """Yield the files that ``chosen`` takes of ``tree``, links left out."""
    for listed in tree.list(chosen):
        if listed.target is None:
            opener = partial(_opened, tree, listed)
            yield Shard(path=path_to_text(listed.path), size=listed.size, open=opener)


def _opener(
    store: ObjectStore, snapshot: SnapshotCreated, source_root: Place | None
) -> Callable[[Entry], BinaryIO]:
    if snapshot.mode != "reference":
        return lambda entry: store.open(layout.blob_key(entry.sha256))
    tree = live_tree(snapshot, source_root)
    return lambda entry: _opened(tree, Listed(text_to_path(entry.path), entry.size, version=entry.version))


def _opened(tree: Tree, listed: Listed) -> BinaryIO:
    # Lines are read from it: the unbuffered stream of the hasher would ask the system for every byte.
    return io.BufferedReader(cast("io.RawIOBase", tree.open(listed)), buffer_size=BLOCK)
