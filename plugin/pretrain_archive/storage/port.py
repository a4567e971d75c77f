"""Objects in a store: named by keys, written once, read as streams.

The port does not promise: rename, append, listing order beyond sorted keys, or atomic writes of several
objects. Keys are ``/``-separated texts as ``identity.path_to_text`` makes them; never ``..`` or empty parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectInfo:
    """A stored object: its key and size in bytes."""

    key: str
    size: int


class ObjectStore(Protocol):
    """A file system folder or an S3 prefix."""

    def put_if_absent(self, key: str, data: BinaryIO) -> bool:
        """Store ``data`` under ``key`` unless the key exists; True if this call stored it.

        Readers see the whole object or none; two writers cannot both win. Bytes are durable on return.
        Raises ``StorageError`` naming location and bytes needed when the store is full.
        """

    def open(self, key: str) -> BinaryIO:
        """Open an object for streamed reading; ``StorageError`` if it is not there."""

    def stat(self, key: str) -> ObjectInfo | None:
        """What is stored under ``key``, or None."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield the objects whose key starts with ``prefix``, sorted by key."""

    def delete(self, key: str) -> None:
        """Delete an object; nothing happens if it is absent. Absence is proven with :meth:`stat`."""

    def location(self, key: str) -> str:
        """The object's URL (``file://…`` or ``s3://…``), percent-encoded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketPlace:
    """What a store takes of an S3 service: every key of ``bucket`` that begins with ``prefix``."""

    endpoint: str
    bucket: str
    prefix: str


def bucket_place(store: ObjectStore) -> BucketPlace | None:
    """Where the store lies if it is in a bucket, else None."""
    found = getattr(store, "place", None)
    return found if isinstance(found, BucketPlace) else None


def local_path(store: ObjectStore, key: str) -> Path | None:
    """The object's path where the store is a local folder, else None."""
    folder = getattr(store, "folder", None)
    return None if folder is None else Path(folder) / key
