"""A listing that waits on disk: who is there, with which marks, and whether the tree still looks like it."""

from __future__ import annotations

import hashlib
import marshal
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import BinaryIO, Self, cast

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.merging import merge
from pretrain_archive.data.tree import Listed, Tree
from pretrain_archive.domain.identity import path_to_text

CHUNK = 512
BATCH_FILES, BATCH_BYTES = 128, 4 << 20
"""A job of hashing: enough small files that handing it to a thread costs little, or about one large one."""


class Listing:
    """A tree's listing in an unnamed file, in its order; close it when done.

    Memory does not grow with it, and a killed process leaves nothing behind. ``digest`` stands for all paths and
    marks; it is no evidence, and a different Python may give another.
    """

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self.files = self.links = self.size = self.pinned = 0
        self.digest = ""

    @classmethod
    def take(cls, tree: Tree, chosen: Filter) -> Self:
        """List ``tree`` to its end."""
        made = cls(cast("BinaryIO", tempfile.TemporaryFile()))  # noqa: SIM115 - closed with the listing
        digest = hashlib.sha256()
        try:
            for chunk in _chunks(tree.list(chosen)):
                made._count(chunk)
                raw = _encoded(chunk)
                digest.update(raw)
                made._spool.write(len(raw).to_bytes(4, "big") + raw)
        except BaseException:
            made.close()
            raise
        made.digest = "sha256:" + digest.hexdigest()
        return made

    def _count(self, chunk: list[Listed]) -> None:
        for item in chunk:
            if item.target is None:
                self.files += 1
                self.size += item.size
                self.pinned += item.version is not None
            else:
                self.links += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the file."""
        self._spool.close()

    def __iter__(self) -> Iterator[Listed]:
        for raw in self._raw():
            yield from _decoded(raw)

    def changed_since(self, tree: Tree, chosen: Filter) -> list[str]:
        """List ``tree`` anew and return the paths, as text, that came, went or carry another mark."""
        before = self._raw()
        now = (_encoded(chunk) for chunk in _chunks(tree.list(chosen)))
        if all(old == new for old, new in zip(chain(before, [b""]), chain(now, [b""]), strict=False)):
            return []
        pairs = merge(self, tree.list(chosen), left=lambda item: item.path, right=lambda item: item.path)
        return [path_to_text((new or old).path) for old, new in pairs if old != new]  # type: ignore[union-attr]

    def _raw(self) -> Iterator[bytes]:
        self._spool.seek(0)
        while length := self._spool.read(4):
            yield self._spool.read(int.from_bytes(length, "big"))


def batches(listing: Iterable[Listed], *, files: int = BATCH_FILES) -> Iterator[list[Listed]]:
    """Cut a listing into jobs of hashing, of at most ``files`` files."""
    batch: list[Listed] = []
    size = 0
    for item in listing:
        batch.append(item)
        size += item.size
        if size >= BATCH_BYTES or len(batch) == files:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _chunks(listing: Iterator[Listed]) -> Iterator[list[Listed]]:
    return iter(lambda: list(islice(listing, CHUNK)), [])


def _encoded(chunk: list[Listed]) -> bytes:
    # Version 2 writes no references, so that equal values are equal bytes.
    return marshal.dumps([(i.path, i.size, i.mark, i.target, i.version) for i in chunk], 2)


def _decoded(raw: bytes) -> Iterator[Listed]:
    return (Listed(*fields) for fields in marshal.loads(raw))  # noqa: S302 - written by this process, never read by another
