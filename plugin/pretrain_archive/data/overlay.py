"""A store whose content lies somewhere else for a while: what a recipe gives is worked on and not kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pretrain_archive.storage.files import FileStore
from pretrain_archive.storage.port import ObjectInfo, ObjectStore

CONTENT = "blobs/"


class Overlay:
    """An object store in which the bytes of files are in ``folder`` and all else is in ``store``.

    With ``apart`` nothing is ever written to ``store``: what is not in the folder is read from there.
    """

    def __init__(self, store: ObjectStore, folder: Path, *, apart: bool = False) -> None:
        self._store = store
        self._scratch = FileStore(folder)
        self._apart = apart
        self.folder = self._scratch.folder

    def _to(self, key: str) -> ObjectStore:
        return self._scratch if self._apart or key.startswith(CONTENT) else self._store

    def _from(self, key: str) -> ObjectStore:
        there = self._apart and self._scratch.stat(key) is None and not key.startswith(CONTENT)
        return self._store if there else self._to(key)

    def put_if_absent(self, key: str, data: BinaryIO) -> bool:
        """See :meth:`ObjectStore.put_if_absent`."""
        return self._to(key).put_if_absent(key, data)

    def open(self, key: str) -> BinaryIO:
        """See :meth:`ObjectStore.open`."""
        return self._from(key).open(key)

    def stat(self, key: str) -> ObjectInfo | None:
        """See :meth:`ObjectStore.stat`."""
        return self._from(key).stat(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See :meth:`ObjectStore.list`, of where things are written; content is not listed."""
        found = (self._scratch if self._apart else self._store).list(prefix)
        return (info for info in found if not info.key.startswith(CONTENT))

    def delete(self, key: str) -> None:
        """See :meth:`ObjectStore.delete`."""
        self._to(key).delete(key)

    def location(self, key: str) -> str:
        """See :meth:`ObjectStore.location`."""
        return self._to(key).location(key)
