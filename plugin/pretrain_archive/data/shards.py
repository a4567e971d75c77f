"""The files of a snapshot or a folder, each with a way to open it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, cast

from pretrain_archive.data import layout
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.manifest import Entry, read_entries
from pretrain_archive.data.quality.documents import Shard
from pretrain_archive.data.snapshots import open_manifest
from pretrain_archive.data.sources import resolve_source
from pretrain_archive.data.tree import list_tree, open_listed
from pretrain_archive.domain.identity import path_to_text, text_to_path
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.storage.port import ObjectStore


def of_snapshot(
    store: ObjectStore, snapshot: SnapshotCreated, source_root: str | bytes | None = None
) -> Iterator[tuple[Entry, Shard]]:
    """Yield the files of a snapshot, links left out; one by reference is read from ``source_root`` or its source."""
    opener = _opener(store, snapshot, source_root)
    with open_manifest(store, snapshot.manifest_digest) as stream:
        for entry in read_entries(stream):
            if entry.link is None:
                yield entry, Shard(path=entry.path, size=entry.size, open=partial(opener, entry))


def of_path(root: bytes, chosen: Filter) -> Iterator[Shard]:
    """Yield the files that ``chosen`` takes below ``root``."""
    for listed in list_tree(root, chosen):
        if listed.target is None:
            opener = partial(_opened, root, listed.path)
            yield Shard(path=path_to_text(listed.path), size=listed.stamp.size, open=opener)


def _opener(
    store: ObjectStore, snapshot: SnapshotCreated, source_root: str | bytes | None
) -> Callable[[Entry], BinaryIO]:
    if snapshot.mode != "reference":
        return lambda entry: store.open(layout.blob_key(entry.sha256))
    root = os.path.realpath(os.fsencode(source_root or resolve_source(snapshot.source_uri).root))
    return lambda entry: _opened(root, text_to_path(entry.path))


def _opened(root: bytes, path: bytes) -> BinaryIO:
    # Lines are read from it: the unbuffered stream of the hasher would ask the system for every byte.
    return io.BufferedReader(cast("io.RawIOBase", open_listed(root, path)), buffer_size=BLOCK)
