"""Expired snapshots: a version's document, its manifest and the content that no other version names (R155).

The newest version of a name always stays: the number of the next one is counted from it, and a number that was used
once must never name something else. The document goes first, so that nobody opens a version that is half gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pretrain_archive.data.layout import parse_snapshot, version_key
from pretrain_archive.data.leftovers import left_over
from pretrain_archive.data.snapshots import latest_version
from pretrain_archive.domain.errors import ArchiveError, StorageError
from pretrain_archive.retention.files import ArtifactFiles, Look, Removed, Target
from pretrain_archive.retention.objects import Journal, Removal
from pretrain_archive.retention.references import References, carry_out_unnamed, references
from pretrain_archive.retention.subjects import Kept, Subject
from pretrain_archive.storage.bulk import StoredVersion
from pretrain_archive.storage.port import ObjectStore

if TYPE_CHECKING:
    from pretrain_archive.domain.records import Record
    from pretrain_archive.retention.world import World


class SnapshotFiles:
    """Removes versions from one store; what another version names stays, also if it was named meanwhile."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._removal = Removal(store)

    def handles(self, location: str) -> bool:
        """See :class:`ArtifactFiles`."""
        return location.startswith(self._store.location("snapshots/x").removesuffix("x"))

    def look(self, target: Target) -> Look:
        """See :class:`ArtifactFiles`."""
        try:
            journal = self._removal.begun(target.ref)
            if journal is None:
                there = any(self._removal.of_keys({_document(target)}))
                return Look(presence="present" if there else "missing")
            left = self._left(journal)
        except ArchiveError as error:
            return Look(presence="unreachable", detail=error.message)
        size = sum(entry.size for entry in left)
        return Look(
            presence="partial" if left else "missing", bytes_present=size, begun=True, bytes_held=size
        )

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """See :class:`ArtifactFiles`."""
        document = _document(target)
        journal = self._removal.begun(target.ref)
        if journal is None:
            if not any(self._removal.of_keys({document})):
                return Removed(bytes_released=0, already_missing=True)
            with references(self._store) as counted:
                keys = {document, *(key for key, _ in counted.own(target.ref.partition(":")[2]))}
            versions = list(self._removal.of_keys(keys))
            journal = self._removal.begin(target.ref, versions, plan_digest=plan_digest)
        self._removal.carry_out([e for e in journal.versions if e.key == document], where=target.location)
        with references(self._store) as counted:  # the document is gone, so whoever names content is another
            before = set(counted.versions)
        going = carry_out_unnamed(self._store, self._removal, journal.versions, where=target.location)
        self._regret(target, going, before)
        released = sum(entry.size for entry in going)
        return Removed(bytes_released=released, already_missing=False, versions=len(going))

    def finish(self, target: Target) -> None:
        """See :class:`ArtifactFiles`."""
        self._removal.finish(target.ref)

    def _left(self, journal: Journal) -> list[StoredVersion]:
        """What of a removal under way is still to go."""
        own = journal.ref.partition(":")[2]
        document = version_key(*_split(own))
        with references(self._store) as counted:
            owned = {document, *(key for key, _ in counted.own(own))}
            going = [e for e in journal.versions if e.key in owned or not counted.named(e.key)]
        return list(self._removal.still_there(going))

    def _regret(self, target: Target, gone: Sequence[StoredVersion], before: set[str]) -> None:
        """Say so if a version was made meanwhile that names what went: it had found the content there."""
        with references(self._store) as counted:
            if set(counted.versions) == before:
                return
            lost = [entry.key for entry in gone if counted.named(entry.key)]
        absent = [key for key in lost if self._store.stat(key) is None]
        if absent:
            raise StorageError(
                f"{target.location}: {len(absent)} objects went that a version made meanwhile names: {absent[0]}.",
                hint="Make that version again from its source, then verify it.",
            )


@dataclass(frozen=True, kw_only=True)
class Snapshots:
    """Finds versions in the records, and in the store what only they name. ``owner`` is as for folders."""

    store: ObjectStore
    owner: str = ""

    def find(self, world: World) -> Iterator[Subject]:
        """See :class:`SubjectSource`."""
        recorded = _recorded(world)
        if not recorded:
            return
        try:
            plans = [left.folder for left in left_over(self.store)]
            with references(self.store) as counted:
                found = [self._subject(world, *each, counted, plans) for each in recorded.items()]
        except ArchiveError as error:
            found = [self._subject(world, *each, None, [], gap=error.message) for each in recorded.items()]
        yield from found

    def handles(self, item: Mapping[str, Any]) -> bool:
        """See :class:`Undertaker`."""
        return item.get("kind") == "snapshot"

    def target(self, item: Mapping[str, Any]) -> tuple[Target, ArtifactFiles]:
        """See :class:`Undertaker`."""
        target = Target(ref=str(item["id"]), location=str(item["location"]), files=(), digest_of="manifest")
        return target, SnapshotFiles(self.store)

    def _subject(
        self, world: World, name: str, record: Record, counted: References | None, plans: Sequence[str], *,
        gap: str = "",
    ) -> Subject:  # fmt: skip
        run = world.runs.get(record.stream)
        key, gaps = version_key(*_split(name)), [gap] if gap else []
        if not str(record.payload["manifest_uri"]).startswith(self.store.location("manifests/x")[:-1]):
            gaps.append(f"{record.payload['manifest_uri']} is in another store")
        return Subject(
            ref=f"snapshot:{name}", kind="snapshot", artifact_class="snapshot",
            purpose=str(record.payload["mode"]), project=run.project if run and run.project else self.owner,
            run_uid=record.stream if run else "", registered_at=record.recorded_at,
            size=self._size(key, name, counted) if counted else 0, location=self.store.location(key),
            digest=str(record.payload["manifest_digest"]), live=tuple(self._needs(name, plans)),
            missing=counted is not None and name not in counted.versions, gaps=tuple(gaps),
        )  # fmt: skip

    def _needs(self, name: str, plans: Sequence[str]) -> Iterator[Kept]:
        label, version = _split(name)
        if plans:
            yield Kept(reason=f"a snapshot in parts is under way: {plans[0]}", by="plan")
        if latest_version(self.store, label) == version:
            reason = "the newest of its name: the next number is counted from it"
            yield Kept(reason=reason, by=f"snapshot:{name}")

    def _size(self, key: str, name: str, counted: References) -> int:
        document = self.store.stat(key)
        return counted.own_size(name) + (document.size if document else 0)


def _recorded(world: World) -> dict[str, Record]:
    """The first record of each version."""
    found: dict[str, Record] = {}
    for record in world.ledger.records(kinds=["snapshot.created"]):
        found.setdefault(f"{record.payload['name']}@{record.payload['version']}", record)
    return found


def _split(name: str) -> tuple[str, int]:
    label, version = parse_snapshot(name)
    return label, version or 0


def _document(target: Target) -> str:
    return version_key(*_split(target.ref.partition(":")[2]))
