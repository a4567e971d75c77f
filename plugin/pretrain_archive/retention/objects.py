"""Artifacts in an object store: objects below one key, removed from the recorded list."""

from __future__ import annotations

import hashlib
import io
import json
from urllib.parse import unquote

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.retention.files import Look, Removed, Target
from pretrain_archive.storage.port import ObjectStore


class StoreFiles:
    """Addresses below those of one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._base = store.location("x").removesuffix("x")

    def handles(self, location: str) -> bool:
        """See :class:`ArtifactFiles`."""
        return location.startswith(self._base) and len(location) > len(self._base)

    def look(self, target: Target) -> Look:
        """See :class:`ArtifactFiles`."""
        try:
            begun = self._store.stat(_journal(target)) is not None
            found = {info.key: info.size for info in self._store.list(self._prefix(target))}
        except StorageError as error:
            return Look(presence="unreachable", detail=error.message)
        recorded = {self._prefix(target) + file.path: file.size for file in target.files}
        if not found:
            return Look(presence="missing", begun=begun)
        other = sorted(key for key, size in found.items() if recorded.get(key) != size)
        if other:
            detail = f"holds what was not recorded like this: {', '.join(other[:5])}"
            return Look(presence="changed", bytes_present=sum(found.values()), detail=detail, begun=begun)
        whole = len(found) == len(recorded)
        return Look(
            presence="present" if whole else "partial", bytes_present=sum(found.values()), begun=begun
        )

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """See :class:`ArtifactFiles`."""
        seen = self.look(target)
        if seen.presence in {"unreachable", "changed"}:
            raise StorageError(f"{target.location}: {seen.detail}.", hint="Nothing was deleted there.")
        journal = _journal(target)
        if not seen.begun:
            if seen.presence == "missing":
                return Removed(bytes_released=0, already_missing=True)
            body = {"ref": target.ref, "plan_digest": plan_digest, "bytes": seen.bytes_present}
            self._store.put_if_absent(journal, io.BytesIO(json.dumps(body).encode()))
        with self._store.open(journal) as file:
            begun_with = int(json.loads(file.read())["bytes"])
        faults = []
        for entry in target.files:
            key = self._prefix(target) + entry.path
            try:
                self._store.delete(key)
            except StorageError as error:  # the others go on; the next pass tries only what is left
                faults.append(error.message)
        left = [entry.path for entry in target.files if self._store.stat(self._prefix(target) + entry.path)]
        if left:
            raise StorageError(f"{target.location}: still there: {', '.join(left)}. {' '.join(faults)}")
        return Removed(bytes_released=begun_with, already_missing=False)

    def finish(self, target: Target) -> None:
        """See :class:`ArtifactFiles`."""
        self._store.delete(_journal(target))

    def _prefix(self, target: Target) -> str:
        return unquote(target.location[len(self._base) :]).rstrip("/") + "/"


def _journal(target: Target) -> str:
    return f"retention/journal/{hashlib.sha256(target.ref.encode()).hexdigest()}.json"
