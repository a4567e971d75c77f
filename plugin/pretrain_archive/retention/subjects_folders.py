"""What runs and tasks leave on this machine's disk: data copies, caches, scratch, half-written things (R154).

Where it lies says what it is: nothing else is taken for temporary. What belongs to a run is as old as the run's end,
by the ledger. What belongs to none is as old as its newest status change (ctime), which the kernel alone sets: a copy
or a set modification time makes nothing older than it is; one that lies in the future is a gap.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_from_bytes

from pretrain_archive.artifacts.formats.folder import IN_PROGRESS
from pretrain_archive.artifacts.location import to_location, to_path
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.domain.identity import format_time, path_to_text
from pretrain_archive.retention.files import ArtifactFiles, Target
from pretrain_archive.retention.subjects import Kept, Subject, SubjectKind
from pretrain_archive.retention.trees import Tree, TreeFiles, measure

if TYPE_CHECKING:
    from pretrain_archive.retention.world import World

RUN_FOLDERS: tuple[tuple[str, SubjectKind, str], ...] = (
    (r"data", "temporary", "data copy"),
    (r"quality", "temporary", "quality scratch"),
    (r"evaluation-.*", "leftover", "evaluation scratch"),
)
"""Names in a run's work folder, what kind of subject each is, and its class."""

WORK_FOLDERS: tuple[tuple[str, SubjectKind, str], ...] = (
    (r"stamps", "cache", "stamps of read files"),
    (r"(?:overlap|near|content|recipe)-.*", "leftover", "scratch of a task"),
)
"""Names in the work folder that belong to no run."""

CLOCKS = timedelta(minutes=1)
UNREAD = Tree(size=0, held=0, files=0, digest="sha256:" + "0" * 64)

PART = re.compile(r"\.(?P<name>.+)\.[0-9]+\.part")
"""A package under way: see ``package.workfolder``."""
OWNED = re.compile(r".*-[0-9a-f]{8}-(?P<pid>[0-9]+)-.*")
"""A scratch folder that names its process: see ``data.scratch``."""


@dataclass(frozen=True, kw_only=True)
class WorkFolders:
    """Finds and removes them. ``owner`` is the project that answers for what belongs to no run, empty if none does."""

    work: Path
    runs: Path
    packages: Path
    owner: str = ""
    files: ArtifactFiles = field(default_factory=TreeFiles)

    def find(self, world: World) -> Iterator[Subject]:
        """See :class:`SubjectSource`."""
        yield from self._of_runs(world)
        for path in _entries(self.packages):
            if found := PART.fullmatch(path.name):
                live = _locked(path)
                yield self._subject(world, path, "leftover", "half-written package", found["name"], live=live)
        for path in _entries(self.work):
            for shape, kind, name in WORK_FOLDERS:
                if re.fullmatch(shape, path.name):
                    yield self._subject(world, path, kind, name, "", live=_owned(path))

    def handles(self, item: Mapping[str, Any]) -> bool:
        """See :class:`Undertaker`."""
        path = to_path(str(item["location"]))
        return item.get("kind") in {"temporary", "cache", "leftover"} and path is not None

    def target(self, item: Mapping[str, Any]) -> tuple[Target, ArtifactFiles]:
        """See :class:`Undertaker`. Nothing outside the folders of this program is ever a target."""
        path = to_path(str(item["location"]))
        homes = (self.work, self.runs, self.packages)
        if path is None or not any(home in path.parents for home in homes):
            raise StorageError(f"{item['location']}: is in none of this program's folders.")
        whole = path.is_file() and not path.is_symlink()
        target = Target(
            ref=str(item["id"]), location=str(item["location"]), files=(),
            digest_of="content" if whole else "listing",
        )  # fmt: skip
        return target, self.files

    def _of_runs(self, world: World) -> Iterator[Subject]:
        for run in _entries(self.runs):
            for path in _entries(run):
                for shape, kind, name in RUN_FOLDERS:
                    if re.fullmatch(shape, path.name):
                        yield self._subject(world, path, kind, name, run.name)
            for path in _entries(run / "checkpoints"):
                registered = to_location(path) in world.liveness.facts.at_location
                if IN_PROGRESS.search(path.name) and not registered and not _journal(path.name):
                    yield self._subject(world, path, "leftover", "half-written checkpoint", run.name)

    def _subject(
        self, world: World, path: Path, kind: SubjectKind, name: str, run_uid: str, *, live: Kept | None = None
    ) -> Subject:  # fmt: skip
        run = world.runs.get(run_uid) if run_uid else None
        gaps = []
        if run_uid and run is None:
            gaps.append(f"no record names the run {path_to_text(os.fsencode(run_uid))}")
        try:
            tree = measure(path)
        except OSError as error:
            gaps.append(f"cannot be read: {error.strerror}")
            tree = UNREAD
        changed = tree.changed_at
        if run is None and changed > format_time(world.now + CLOCKS):
            gaps.append(f"its time lies in the future ({changed})")
        shown = path_to_text(os.fsencode(path.name))
        owner = f"{run_uid}/" if run_uid else ""
        return Subject(
            ref=f"{kind}:{owner}{shown}@{tree.mark}", kind=kind, artifact_class=name, purpose=name,
            project=run.project if run else self.owner, run_uid=run_uid if run else "",
            registered_at=run.changed_at if run else changed, size=tree.held,
            location=to_location(path.parent) + "/" + _quoted(path.name), digest=tree.digest,
            live=(live,) if live else (), gaps=tuple(gaps),
        )  # fmt: skip


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _journal(name: str) -> bool:
    return name.startswith(".") and ".retention.json" in name


def _locked(path: Path) -> Kept | None:
    """Whether a writer holds the folder; where folders cannot be locked nobody can tell, so it stays."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return Kept(reason="cannot be looked into", by="folder")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return Kept(reason="a writer holds it", by="lock")
    finally:
        os.close(handle)
    return None


def _owned(path: Path) -> Kept | None:
    """Whether the process that made it lives."""
    found = OWNED.fullmatch(path.name)
    if found is None:
        return None
    alive = Path(f"/proc/{found['pid']}").exists()
    return Kept(reason=f"process {found['pid']} works there", by="process") if alive else None


def _quoted(name: str) -> str:
    return quote_from_bytes(os.fsencode(name))
