"""Artifacts in an object store: every version of the recorded objects, removed in batches, absence listed.

The journal names each version that is to go, so that a later pass neither takes what was written meanwhile for its
own nor needs what is gone already. Completion markers go first and alone.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import unquote

from pretrain_archive.artifacts.formats.folder import MARKER
from pretrain_archive.data.condemned import JOURNALS
from pretrain_archive.domain.errors import ArchiveError, StorageError
from pretrain_archive.domain.identity import text_to_path
from pretrain_archive.domain.kinds import FileDigest
from pretrain_archive.retention.files import Look, PartlyDeletedError, Removed, Target
from pretrain_archive.storage.bulk import KeyFault, StoredVersion, delete_many, versions_of
from pretrain_archive.storage.port import ObjectStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    """What a removal under way set out to delete. Written once, before the first byte goes."""

    ref: str
    plan_digest: str
    size: int
    versions: tuple[StoredVersion, ...]

    def to_json(self) -> bytes:
        """The object's bytes."""
        rows = [[entry.key, entry.version, entry.size, entry.marker] for entry in self.versions]
        document = {"ref": self.ref, "plan_digest": self.plan_digest, "bytes": self.size, "versions": rows}
        return json.dumps(document).encode()

    @classmethod
    def parse(cls, raw: bytes) -> Journal:
        """Read what :meth:`to_json` wrote; ``ValueError`` or ``KeyError`` for anything else."""
        document = json.loads(raw)
        rows = tuple(
            StoredVersion(key=str(key), version=version, size=int(size), marker=bool(marker))
            for key, version, size, marker in document["versions"]
        )
        return cls(
            ref=document["ref"],
            plan_digest=document["plan_digest"],
            size=int(document["bytes"]),
            versions=rows,
        )


class Removal:
    """Deletes versions of named objects of one ``store``; ``journals`` is where journals are kept."""

    def __init__(self, store: ObjectStore, *, journals: ObjectStore | None = None) -> None:
        self._store = store
        self._journals = store if journals is None else journals

    def begun(self, ref: str) -> Journal | None:
        """The journal of a removal that is under way."""
        key = journal_key(ref)
        if self._journals.stat(key) is None:
            return None
        try:
            with self._journals.open(key) as file:
                return Journal.parse(file.read())
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{self._journals.location(key)}: is no journal of a deletion: {error}.",
                hint="Look at what lies there before anything is deleted.",
            ) from error

    def begin(self, ref: str, versions: Sequence[StoredVersion], *, plan_digest: str) -> Journal:
        """Write down what is to go, before anything goes."""
        size = sum(entry.size for entry in versions)
        journal = Journal(ref=ref, plan_digest=plan_digest, size=size, versions=tuple(versions))
        self._journals.put_if_absent(journal_key(ref), io.BytesIO(journal.to_json()))
        return self.begun(ref) or journal  # a parallel pass may have written its own first

    def carry_out(self, versions: Iterable[StoredVersion], *, where: str) -> None:
        """Delete those of ``versions`` that are there, markers of completion first; prove that none is listed."""
        going = list(self.still_there(versions))
        first = [entry for entry in going if entry.key.endswith(f"/{MARKER}")]
        rest = [entry for entry in going if not entry.key.endswith(f"/{MARKER}")]
        answer = delete_many(self._store, first)
        if not answer.faults:  # without its marker nothing else goes: it would look whole
            answer += delete_many(self._store, rest)
        left = list(self.still_there(going))
        if left:
            self._tell(where, going, left, answer.faults)

    def finish(self, ref: str) -> None:
        """Forget the journal, with every version of it: in a versioned bucket a plain deletion only hides it."""
        answer = delete_many(self._journals, list(versions_of(self._journals, journal_key(ref))))
        for fault in answer.faults:
            log.warning("journal %s stays: %s %s", fault.key, fault.code, fault.message)

    def still_there(self, versions: Iterable[StoredVersion]) -> Iterator[StoredVersion]:
        """Those of ``versions`` that the store lists now."""
        wanted = {(entry.key, entry.version) for entry in versions}
        for entry in self.of_keys({key for key, _ in wanted}):
            if (entry.key, entry.version) in wanted:
                yield entry

    def of_keys(self, keys: Collection[str]) -> Iterator[StoredVersion]:
        """Every version of these keys that the store lists now."""
        for prefix in sorted({_listed(key) for key in keys}):
            for entry in versions_of(self._store, prefix):
                if entry.key in keys:
                    yield entry

    def _tell(
        self,
        where: str,
        going: Sequence[StoredVersion],
        left: Sequence[StoredVersion],
        faults: Sequence[KeyFault],
    ) -> None:
        """Raise for what stays, each with the code that the service gave (or that it gave none)."""
        told = {(fault.key, fault.version): fault for fault in faults}
        silent = KeyFault(key="", code="StillThere", message="deleted without an error, and still listed")
        named = [
            told.get((entry.key, entry.version), replace(silent, key=entry.key, version=entry.version))
            for entry in left
        ]
        gone = len(going) - len(left)
        bytes_gone = sum(entry.size for entry in going) - sum(entry.size for entry in left)
        raise PartlyDeletedError(where, faults=named, gone=gone, bytes_gone=bytes_gone)


class StoreFiles:
    """Addresses below those of one store. ``journals`` is where journals are kept, by default there, too."""

    def __init__(self, store: ObjectStore, *, journals: ObjectStore | None = None) -> None:
        self._store = store
        self._base = store.location("x").removesuffix("x")
        self._removal = Removal(store, journals=journals)

    def handles(self, location: str) -> bool:
        """See :class:`ArtifactFiles`."""
        return location.startswith(self._base) and len(location) > len(self._base)

    def look(self, target: Target) -> Look:
        """See :class:`ArtifactFiles`. What is hidden behind a delete marker is present: it is still paid for."""
        try:
            journal = self._removal.begun(target.ref)
            found = list(versions_of(self._store, self._prefix(target)))
        except StorageError as error:
            return Look(presence="unreachable", detail=error.message)
        begun = journal is not None
        current = _current(found)
        own = self._keys(target, target.files)
        held = [entry for entry in found if entry.key in own]
        total = sum(entry.size for entry in held)
        if other := self._strange(target, current, journal):
            detail = f"holds what was not recorded like this: {', '.join(other[:5])}"
            return Look(presence="changed", bytes_present=total, detail=detail, begun=begun)
        if not held:
            return Look(presence="missing", begun=begun)
        there = own.keys() & current.keys()
        whole = {own[key].path for key in there} == {file.path for file in target.files}
        return Look(
            presence="present" if whole else "partial",
            bytes_present=sum(current[key].size for key in there),
            begun=begun,
            bytes_held=total,
        )

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """See :class:`ArtifactFiles`."""
        seen = self.look(target)
        if seen.presence in {"unreachable", "changed"}:
            raise StorageError(f"{target.location}: {seen.detail}.", hint="Nothing was deleted there.")
        journal = self._removal.begun(target.ref)
        if journal is None:
            own = self._keys(target, target.files)
            versions = [entry for entry in versions_of(self._store, self._prefix(target)) if entry.key in own]
            if not versions:
                return Removed(bytes_released=0, already_missing=True)
            journal = self._removal.begin(target.ref, versions, plan_digest=plan_digest)
        self._removal.carry_out(journal.versions, where=target.location)
        return Removed(bytes_released=journal.size, already_missing=False, versions=len(journal.versions))

    def finish(self, target: Target) -> None:
        """See :class:`ArtifactFiles`."""
        self._removal.finish(target.ref)

    def _strange(
        self, target: Target, current: Mapping[str, StoredVersion], journal: Journal | None
    ) -> list[str]:
        """Current objects that are not as recorded. While a removal is under way its own versions are not strange."""
        recorded = self._keys(target, (*target.files, *target.keep))
        ours = {(entry.key, entry.version) for entry in journal.versions} if journal else set()
        return sorted(
            key
            for key, entry in current.items()
            if (key not in recorded or not _is_recorded(recorded[key], entry))
            and not (entry.version and (key, entry.version) in ours)
            and not (key.endswith("/") and not entry.size)  # the marker of a folder
        )

    def _keys(self, target: Target, files: Sequence[FileDigest]) -> dict[str, FileDigest]:
        """The recorded files by key: as the record spells a name, and as the bytes that it stands for."""
        prefix = self._prefix(target)
        found = {prefix + file.path: file for file in files}
        for file in files:
            if "%" in file.path:
                with suppress(ValueError):
                    found[prefix + text_to_path(file.path).decode("utf-8", "surrogateescape")] = file
        return found

    def _prefix(self, target: Target) -> str:
        return unquote(target.location[len(self._base) :]).rstrip("/") + "/"


class BucketFiles:
    """Any ``s3://`` address, each bucket opened when it is first met; journals are kept in the archive's own store."""

    def __init__(self, opened: Callable[[str], ObjectStore], *, journals: ObjectStore) -> None:
        self._opened = opened
        self._journals = journals
        self._buckets: dict[str, StoreFiles] = {}

    def handles(self, location: str) -> bool:
        """See :class:`ArtifactFiles`."""
        return location.startswith("s3://") and "/" in location[len("s3://") :].rstrip("/")

    def look(self, target: Target) -> Look:
        """See :class:`ArtifactFiles`."""
        try:
            return self._of(target).look(target)
        except ArchiveError as error:
            return Look(presence="unreachable", detail=error.message)

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """See :class:`ArtifactFiles`."""
        return self._of(target).remove(target, plan_digest=plan_digest)

    def finish(self, target: Target) -> None:
        """See :class:`ArtifactFiles`."""
        self._of(target).finish(target)

    def _of(self, target: Target) -> StoreFiles:
        bucket = target.location[len("s3://") :].partition("/")[0]
        if bucket not in self._buckets:
            self._buckets[bucket] = StoreFiles(self._opened(f"s3://{bucket}"), journals=self._journals)
        return self._buckets[bucket]


def journal_key(ref: str) -> str:
    """The key of the journal of a removal."""
    return f"{JOURNALS}{hashlib.sha256(ref.encode()).hexdigest()}.json"


def _is_recorded(file: FileDigest, entry: StoredVersion) -> bool:
    """Whether a reader gets what was recorded, as far as a listing tells: the version if both are known, the size."""
    other = file.version and entry.version and file.version != entry.version
    return file.size == entry.size and not other


def _listed(key: str) -> str:
    """The folder that is listed to see a key: one listing serves all the keys in it."""
    return key.rpartition("/")[0] + "/" if "/" in key else key


def _current(found: Iterable[StoredVersion]) -> dict[str, StoredVersion]:
    """What readers see: the newest version of each key, unless a delete marker hides it.

    Versions come oldest first; a marker is only in the way if it is the newest, which the store says.
    """
    newest: dict[str, StoredVersion] = {}
    hidden: set[str] = set()
    for entry in found:
        if entry.marker:
            hidden |= {entry.key} if entry.latest else set()
        else:
            newest[entry.key] = entry
    return {key: entry for key, entry in newest.items() if key not in hidden}
