"""Uploads in parts that a killed writer left in the archive's store: found, judged, dropped and buried like the rest.

Whether a writer is still at work cannot be seen in a bucket: while a run is open or a snapshot in parts is under way,
and for as long as the rule about leftovers says, an upload stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pretrain_archive.data.leftovers import left_over
from pretrain_archive.domain.errors import ArchiveError, StorageError
from pretrain_archive.domain.identity import format_time
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.retention.files import ArtifactFiles, Look, Removed, Target
from pretrain_archive.retention.objects import Removal
from pretrain_archive.retention.subjects import Kept, Subject
from pretrain_archive.retention.subjects_strays import OVER
from pretrain_archive.storage.bulk import StoredVersion
from pretrain_archive.storage.port import ObjectStore
from pretrain_archive.storage.uploads import Upload, UploadingStore, uploads_of

if TYPE_CHECKING:
    from pretrain_archive.retention.world import World

NAME = "leftover:upload/"


def upload_ref(upload: Upload) -> str:
    """The reference of an upload, the same as long as it is there."""
    return f"{NAME}{digest_of([upload.key, upload.id])[7:31]}"


class UploadFiles:
    """Drops uploads of one store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._removal = Removal(store)

    def handles(self, location: str) -> bool:
        """See :class:`ArtifactFiles`."""
        return location.startswith(self._store.location("x")[:-1])

    def look(self, target: Target) -> Look:
        """See :class:`ArtifactFiles`."""
        try:
            begun = self._removal.begun(target.ref) is not None
            found = self._found(target)
        except ArchiveError as error:
            return Look(presence="unreachable", detail=error.message)
        size = found.size if found else 0
        return Look(
            presence="present" if found else "missing", bytes_present=size, bytes_held=size, begun=begun
        )

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """See :class:`ArtifactFiles`."""
        found, journal = self._found(target), self._removal.begun(target.ref)
        if journal is None:
            if found is None:
                return Removed(bytes_released=0, already_missing=True)
            entry = StoredVersion(key=found.key, version=found.id, size=found.size)
            journal = self._removal.begin(target.ref, [entry], plan_digest=plan_digest)
        if found is not None and isinstance(self._store, UploadingStore):
            self._store.abort(found)
        if self._found(target) is not None:
            raise StorageError(
                f"{target.location}: its upload is listed after it was dropped.", hint="Try again."
            )
        return Removed(bytes_released=journal.size, already_missing=False)

    def finish(self, target: Target) -> None:
        """See :class:`ArtifactFiles`."""
        self._removal.finish(target.ref)

    def _found(self, target: Target) -> Upload | None:
        return next((each for each in uploads_of(self._store) if upload_ref(each) == target.ref), None)


@dataclass(frozen=True, kw_only=True)
class Uploads:
    """Finds and removes them. ``owner`` is as for folders."""

    store: ObjectStore
    owner: str = ""

    def find(self, world: World) -> Iterator[Subject]:
        """See :class:`SubjectSource`."""
        live = tuple(self._needs(world))
        try:
            found = list(uploads_of(self.store))
        except (
            StorageError
        ) as error:  # another right than listing objects: without it the rest is still judged
            home = self.store.location("x")[:-2]
            yield Subject(
                ref=f"{NAME}unlisted", kind="leftover", artifact_class="unfinished upload", project=self.owner,
                run_uid="", registered_at=world.newest, size=0, location=home, digest=digest_of(home),
                gaps=(error.message,),
            )  # fmt: skip
            return
        for upload in found:
            yield Subject(
                ref=upload_ref(upload), kind="leftover", artifact_class="unfinished upload", project=self.owner,
                run_uid="", registered_at=format_time(upload.begun_at), size=upload.size, live=live,
                location=self.store.location(upload.key), digest=digest_of([upload.key, upload.id]),
            )  # fmt: skip

    def handles(self, item: Mapping[str, Any]) -> bool:
        """See :class:`Undertaker`."""
        return str(item["id"]).startswith(NAME)

    def target(self, item: Mapping[str, Any]) -> tuple[Target, ArtifactFiles]:
        """See :class:`Undertaker`."""
        target = Target(ref=str(item["id"]), location=str(item["location"]), files=(), digest_of="listing")
        return target, UploadFiles(self.store)

    def _needs(self, world: World) -> Iterator[Kept]:
        busy = next((uid for uid, run in world.runs.items() if run.state not in OVER), None)
        if busy is not None:
            yield Kept(reason=f"run {busy} is open and may be uploading", by=f"run:{busy}")
        if any(True for _ in left_over(self.store)):
            yield Kept(reason="a snapshot in parts is under way", by="plan")
