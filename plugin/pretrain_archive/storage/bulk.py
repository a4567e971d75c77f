"""Delete many objects with every version that a store keeps of them, and say of each that stays why.

Absence is never concluded from an answer to a deletion: whoever deletes lists :func:`versions_of` afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.storage.port import ObjectStore

BATCH = 1000
"""Keys of one request: the limit of DeleteObjects
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredVersion:
    """One version of an object, or a delete marker (0 bytes). ``version`` None: the store keeps no versions.

    ``latest`` says whether it is what readers of the key see (of a marker: that they see nothing).
    """

    key: str
    size: int
    version: str | None = None
    marker: bool = False
    latest: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyFault:
    """A version that could not be deleted, with the service's code for the reason and its words."""

    key: str
    code: str
    message: str
    version: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkAnswer:
    """What a deletion of many said: ``asked`` versions, ``missing`` of them were not there, ``faults`` stay."""

    asked: int = 0
    missing: int = 0
    faults: tuple[KeyFault, ...] = ()

    def __add__(self, other: BulkAnswer) -> BulkAnswer:
        """Both together."""
        return BulkAnswer(
            asked=self.asked + other.asked,
            missing=self.missing + other.missing,
            faults=self.faults + other.faults,
        )


@runtime_checkable
class VersionedStore(Protocol):
    """What a store can do beyond :class:`ObjectStore` if it keeps versions or deletes in bulk."""

    def versions(self, prefix: str) -> Iterator[StoredVersion]:
        """Yield every version and delete marker whose key begins with ``prefix``, by key; markers last in a key."""

    def delete_versions(self, versions: Iterable[StoredVersion]) -> BulkAnswer:
        """Delete exactly these; what is not there counts as missing, what cannot go is a fault."""


def versions_of(store: ObjectStore, prefix: str) -> Iterator[StoredVersion]:
    """Every version below ``prefix``; of a store without versions its objects. ``StorageError`` if it cannot list."""
    if isinstance(store, VersionedStore):
        yield from store.versions(prefix)
        return
    for info in store.list(prefix):
        yield StoredVersion(key=info.key, size=info.size)


def delete_many(store: ObjectStore, versions: Iterable[StoredVersion]) -> BulkAnswer:
    """Delete exactly ``versions``; one that cannot go does not stop the others."""
    if isinstance(store, VersionedStore):
        return store.delete_versions(versions)
    asked, faults = 0, []
    for entry in versions:
        asked += 1
        try:
            store.delete(entry.key)
        except StorageError as error:
            code = getattr(error.__cause__, "errno", None)
            faults.append(KeyFault(key=entry.key, code=_errno_name(code), message=error.message))
    return BulkAnswer(asked=asked, faults=tuple(faults))


def _errno_name(code: int | None) -> str:
    import errno  # noqa: PLC0415 - a table that only this line needs

    return errno.errorcode.get(code or 0, "StorageError")
