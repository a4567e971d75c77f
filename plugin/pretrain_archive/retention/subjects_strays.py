"""What a comparison of records and storage found and a plan may let go: as subjects, so that policy and people decide.

Folders that no record names, checkpoints that came back after their tombstone, what planned snapshots left, content
that no version names. Whose project it is follows from recorded neighbours; where these disagree nobody's it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain_archive.artifacts.formats.folder import IN_PROGRESS
from pretrain_archive.artifacts.location import to_path
from pretrain_archive.data.leftovers import left_over
from pretrain_archive.domain.errors import ArchiveError, StorageError
from pretrain_archive.domain.identity import format_time
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.retention.files import ArtifactFiles, Look, Removed, Target
from pretrain_archive.retention.objects import Removal
from pretrain_archive.retention.references import carry_out_unnamed, needed, references
from pretrain_archive.retention.strays import folder_strays
from pretrain_archive.retention.subjects import Kept, Subject
from pretrain_archive.retention.trees import TreeFiles, measure
from pretrain_archive.storage.bulk import StoredVersion, versions_of
from pretrain_archive.storage.port import ObjectStore

if TYPE_CHECKING:
    from pretrain_archive.retention.world import World

CONTENT = ("blobs/", "manifests/")
UNNAMED = "content:unnamed"
OVER = frozenset({"closed", "failed"})
"""States of a run that makes nothing any more."""


class _Objects:
    """Removes what lies below a plan's folder, or content that no version names now."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._removal = Removal(store)

    def handles(self, location: str) -> bool:
        """See :class:`ArtifactFiles`."""
        return location.startswith(self._store.location("x")[:-1])

    def look(self, target: Target) -> Look:
        """See :class:`ArtifactFiles`."""
        try:
            journal = self._removal.begun(target.ref)
            found = self._left(target, journal.versions) if journal else self._found(target)
        except ArchiveError as error:
            return Look(presence="unreachable", detail=error.message)
        size = sum(entry.size for entry in found)
        begun = journal is not None
        return Look(
            presence="present" if found else "missing", bytes_present=size, bytes_held=size, begun=begun
        )

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """See :class:`ArtifactFiles`."""
        journal = self._removal.begun(target.ref)
        if journal is None:
            found = self._found(target)
            if not found:
                return Removed(bytes_released=0, already_missing=True)
            journal = self._removal.begin(target.ref, found, plan_digest=plan_digest)
        # Without its document nobody can go on with a plan whose pieces are half gone.
        first = [entry for entry in journal.versions if entry.key.endswith("/plan.json")]
        self._removal.carry_out(first, where=target.location)
        if _folder_of(target.ref):
            self._removal.carry_out(journal.versions, where=target.location)
            return Removed(bytes_released=journal.size, already_missing=False, versions=len(journal.versions))
        gone = carry_out_unnamed(self._store, self._removal, journal.versions, where=target.location)
        return Removed(
            bytes_released=sum(entry.size for entry in gone), already_missing=False, versions=len(gone)
        )

    def finish(self, target: Target) -> None:
        """See :class:`ArtifactFiles`."""
        self._removal.finish(target.ref)

    def _left(self, target: Target, versions: Sequence[StoredVersion]) -> list[StoredVersion]:
        """What of a removal under way is still to go: not what a version names by now."""
        there = list(self._removal.still_there(versions))
        if _folder_of(target.ref) or not there:
            return there
        with references(self._store) as counted:
            keys = self._removal.of_keys({entry.key for entry in there})
            spared = {(entry.key, entry.version) for entry in needed(keys, counted)}
        return [entry for entry in there if (entry.key, entry.version) not in spared]

    def _found(self, target: Target) -> list[StoredVersion]:
        folder = _folder_of(target.ref)
        return unnamed(self._store) if not folder else list(versions_of(self._store, f"{folder}/"))


def unnamed(store: ObjectStore) -> list[StoredVersion]:
    """Content and manifests of which no version knows, with hidden versions of what is named."""
    found: list[StoredVersion] = []
    with references(store) as counted:
        for prefix in CONTENT:
            for _, group in groupby(versions_of(store, prefix), key=lambda entry: entry.key):
                entries = list(group)
                spared = set(needed(entries, counted))
                found += [entry for entry in entries if entry not in spared]
    return found


@dataclass(frozen=True, kw_only=True)
class Strays:
    """Finds and removes them. ``roots`` are folders to look in beside those of recorded checkpoints."""

    store: ObjectStore
    roots: Sequence[Path] = ()
    owner: str = ""
    files: ArtifactFiles = field(default_factory=TreeFiles)

    def find(self, world: World) -> Iterator[Subject]:
        """See :class:`SubjectSource`."""
        refused = {str(r.payload["location"]) for r in world.ledger.records(kinds=["checkpoint.refused"])}
        for stray in folder_strays(world, self.roots):
            path = to_path(stray.location)
            if path is not None and not IN_PROGRESS.search(path.name):
                failed = not refused.isdisjoint({stray.location, str(path)})
                name = "failed registration" if failed else "unregistered checkpoint"
                yield self._folder(world, path, stray.location, name)
        for ref in world.tombstones:
            subject = world.liveness.facts.checkpoints.get(ref)
            path = to_path(subject.location) if subject else None
            free = subject is not None and subject.location not in world.liveness.facts.at_location
            if subject is not None and free and path is not None and path.is_dir():
                yield self._folder(world, path, subject.location, "came back after its deletion")
        yield from self._plans(world)
        yield from self._content(world)

    def handles(self, item: Mapping[str, Any]) -> bool:
        """See :class:`Undertaker`."""
        return str(item["id"]).startswith(("leftover:stray/", "leftover:parts/", f"leftover:{UNNAMED}"))

    def target(self, item: Mapping[str, Any]) -> tuple[Target, ArtifactFiles]:
        """See :class:`Undertaker`."""
        target = Target(ref=str(item["id"]), location=str(item["location"]), files=(), digest_of="listing")
        inside = to_path(target.location) is not None and target.ref.startswith("leftover:stray/")
        return target, self.files if inside else _Objects(self.store)

    def _folder(self, world: World, path: Path, location: str, name: str) -> Subject:
        gaps: tuple[str, ...] = ()
        digest, held, changed, mark = "sha256:" + "0" * 64, 0, world.newest, "unread"
        try:
            tree = measure(path)
            digest, held, changed, mark = tree.digest, tree.held, tree.changed_at, tree.mark
        except OSError as error:
            gaps = (f"cannot be read: {error.strerror}",)
        runs = self._neighbours(world, location)
        projects = {world.liveness.facts.run(uid).project for uid in runs}
        return Subject(
            ref=f"leftover:stray/{digest_of(location)[7:19]}@{mark}", kind="leftover", artifact_class=name,
            project=projects.pop() if len(projects) == 1 else self.owner, run_uid="", registered_at=changed,
            size=held, location=location, digest=digest, gaps=gaps, live=tuple(self._needs(world, location, runs)),
        )  # fmt: skip

    def _neighbours(self, world: World, location: str) -> set[str]:
        """The runs of the recorded checkpoints beside it, and those in whose work folder it lies."""
        home = location.rpartition("/")[0]
        runs = set(location.split("/")) & world.runs.keys()
        checkpoints = world.liveness.facts.checkpoints.values()
        return runs | {s.run_uid for s in checkpoints if s.location.rpartition("/")[0] == home}

    def _needs(self, world: World, location: str, runs: Collection[str]) -> Iterator[Kept]:
        """A run that may be writing it or may register it yet, and whoever names it though no record registers it."""
        facts = world.liveness.facts
        for uid in sorted(runs):
            run = facts.run(uid)
            if run.state not in OVER or run.jobs or run.attempts:
                yield Kept(reason=f"run {uid} is {run.state} and may still need it", by=f"run:{uid}")
        for user in sorted(set(facts.named.users((location,)))):
            yield Kept(reason=f"used by run:{user}", by=f"run:{user}")

    def _plans(self, world: World) -> Iterator[Subject]:
        for left in left_over(self.store):
            stream = left.folder.removeprefix("parts/").rpartition("/")[0]
            run = world.runs.get(stream)
            yield Subject(
                ref=f"leftover:{left.folder}", kind="leftover", artifact_class="plan of a snapshot",
                project=run.project if run else self.owner, run_uid=stream if run else "",
                registered_at=format_time(left.planned_at), size=left.size,
                location=self.store.location(f"{left.folder}/plan.json"),
                digest=digest_of([left.folder, left.objects, left.size]),
            )  # fmt: skip

    def _content(self, world: World) -> Iterator[Subject]:
        try:
            found = unnamed(self.store)
        except StorageError:
            return  # a broken version is the comparison's finding; until then nothing can be called unnamed
        if not found:
            return
        busy = [uid for uid, run in world.runs.items() if run.state not in OVER]
        live = (
            [Kept(reason=f"run {busy[0]} is open and may be making a snapshot", by=f"run:{busy[0]}")]
            if busy
            else []
        )
        if any(True for _ in left_over(self.store)):
            live.append(Kept(reason="a snapshot in parts is under way", by="plan"))
        digest = digest_of(sorted([entry.key, entry.version or "", entry.size] for entry in found))
        yield Subject(
            ref=f"leftover:{UNNAMED}@{digest[7:19]}", kind="leftover", artifact_class="content without a version",
            project=self.owner, run_uid="", registered_at=_quiet_since(world), live=tuple(live), digest=digest,
            size=sum(entry.size for entry in found), location=self.store.location(found[0].key),
        )  # fmt: skip


def _quiet_since(world: World) -> str:
    """When a run or a snapshot was last heard of: content without a version is at least as old as that is quiet."""
    made = (record.recorded_at for record in world.ledger.records(kinds=["snapshot.created"]))
    return max((*made, *(run.changed_at for run in world.runs.values())), default=world.newest)


def _folder_of(ref: str) -> str:
    """The plan's folder of a reference; empty for content."""
    name = ref.removeprefix("leftover:")
    return name if name.startswith("parts/") else ""
