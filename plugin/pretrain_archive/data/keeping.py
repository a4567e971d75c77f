"""Keep content under its digest, and never rest a new version on stored bytes that are not what they are called."""

from __future__ import annotations

import hashlib
import io
from functools import partial
from typing import BinaryIO, cast

from pretrain_archive.data import layout
from pretrain_archive.data.condemned import settle
from pretrain_archive.data.hashing import BLOCK, hash_stream, in_order
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.tree import Listed, Tree, changed, unreadable
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.storage.port import ObjectStore


class Copier:
    """Keeps the bytes of each read file under their digest; reads them again and hashes what it stores.

    ``found`` are the digests (32 raw bytes, since there may be millions) whose objects were there before: their bytes
    are not proven by this call.
    """

    def __init__(self, store: ObjectStore, tree: Tree) -> None:
        self._store = store
        self._tree = tree
        self._written: set[bytes] = set()
        self.found: set[bytes] = set()

    def __call__(self, listed: Listed, entry: Entry) -> None:
        """Keep a file that was hashed; called on several threads."""
        digest = bytes.fromhex(entry.sha256.removeprefix("sha256:"))
        if digest in self._written or digest in self.found:
            return
        key = layout.blob_key(entry.sha256)
        if self._store.stat(key) is not None:
            self.found.add(digest)
            return
        with self._tree.open(listed) as stream:
            copied = cast("BinaryIO", _Checked(stream, listed.path, entry.sha256))
            mine = self._store.put_if_absent(key, copied)
        (self._written if mine else self.found).add(digest)

    def prove(self) -> None:
        """Hash what was there before, each object once; ``StorageError`` names one that is damaged."""
        before = (f"sha256:{digest.hex()}" for digest in sorted(self.found) if digest not in self._written)
        proven = in_order(partial(_prove_blob, self._store), before)
        for _ in proven:
            pass

    def settle(self) -> None:
        """After a version names them: see :func:`condemned.settle`."""
        settle(self._store, {layout.blob_key(f"sha256:{digest.hex()}") for digest in self.found})


def _prove_blob(store: ObjectStore, digest: str) -> None:
    prove(store, layout.blob_key(digest), digest)


def prove(store: ObjectStore, key: str, digest: str) -> None:
    """Hash the object at ``key``; ``StorageError`` naming it and the remedy if it is not ``digest``."""
    with store.open(key) as stream:
        found, size = hash_stream(stream)
    if found != digest:
        raise StorageError(
            f"{store.location(key)}: holds {size} bytes with {found}, expected {digest}; no version was made.",
            hint="An object is never overwritten: move it away and try again (versions that name it are then whole "
            "again), and find out who changed it.",
        )


class _Checked(io.RawIOBase):
    """A stream that refuses to end unless its bytes have the expected digest."""

    def __init__(self, stream: BinaryIO, path: bytes, expected: str) -> None:
        self._stream = stream
        self._path = path
        self._expected = expected
        self._digest = hashlib.sha256()

    def read(self, size: int = BLOCK) -> bytes:
        try:
            block = self._stream.read(size)
        except OSError as error:
            raise unreadable(self._path, error) from error
        self._digest.update(block)
        if not block and "sha256:" + self._digest.hexdigest() != self._expected:
            raise changed(self._path)
        return block
