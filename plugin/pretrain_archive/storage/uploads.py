"""Uploads in parts that were begun and never completed: no listing of objects shows them, and they are paid for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from pretrain_archive.storage.port import ObjectStore


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """One that is not completed: the key that it is for, the service's id, when it began, bytes that are there."""

    key: str
    id: str
    begun_at: datetime
    size: int


@runtime_checkable
class UploadingStore(Protocol):
    """What a store can do beyond :class:`ObjectStore` if objects are written to it in parts."""

    def uploads(self) -> Iterator[Upload]:
        """Yield every upload below the store's prefix that is not completed."""

    def abort(self, upload: Upload) -> None:
        """Drop its parts; one that is not there any more is no error."""


def uploads_of(store: ObjectStore) -> Iterator[Upload]:
    """What was begun and not completed; nothing of a store without uploads. ``StorageError`` if it cannot list."""
    if isinstance(store, UploadingStore):
        yield from store.uploads()
