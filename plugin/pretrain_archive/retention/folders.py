"""Checkpoint folders on a file system, removed file by file from the recorded list."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

from pretrain_archive.artifacts.formats.folder import MARKER
from pretrain_archive.artifacts.formats.sharded import local
from pretrain_archive.artifacts.location import to_path
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.retention.files import Look, Removed, Target

JOURNAL = ".{name}.retention.json"


def _ignore(step: str) -> None:
    del step


class FolderFiles:
    """Folders with ``file://`` addresses. ``on_step`` is told before each durable step, for progress."""

    def __init__(self, *, on_step: Callable[[str], None] = _ignore) -> None:
        self._on_step = on_step

    def handles(self, location: str) -> bool:
        """See :class:`ArtifactFiles`."""
        return to_path(location) is not None

    def look(self, target: Target) -> Look:
        """See :class:`ArtifactFiles`. A missing parent is an unmounted disk, not a deletion."""
        folder = _folder(target)
        try:
            begun = _journal(folder).exists()
            if not folder.parent.is_dir():
                detail = f"{_shown(folder.parent)} is not there; is its disk mounted?"
                return Look(presence="unreachable", detail=detail)
            if not os.path.lexists(folder):
                return Look(presence="missing", begun=begun)
            if folder.is_symlink() or not folder.is_dir():
                return Look(presence="changed", detail="is a link or a file, not a folder", begun=begun)
            return _compare(folder, target, begun=begun)
        except OSError as error:
            return Look(presence="unreachable", detail=f"{_shown(folder)}: {error.strerror}")

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """See :class:`ArtifactFiles`."""
        folder = _folder(target)
        seen = self.look(target)
        if seen.presence in {"unreachable", "changed"}:
            raise StorageError(f"{target.location}: {seen.detail}.", hint="Nothing was deleted there.")
        try:
            if not seen.begun:
                if seen.presence == "missing":
                    return Removed(bytes_released=0, already_missing=True)
                self._on_step("journal")
                _write_journal(folder, target, plan_digest, seen.bytes_present)
            begun_with = int(json.loads(_journal(folder).read_bytes())["bytes"])
            self._unlink(folder, target, undo=not seen.begun)
        except (OSError, ValueError, KeyError) as error:
            raise StorageError(f"{target.location}: not deleted: {error}.") from error
        if os.path.lexists(folder):
            raise StorageError(f"{target.location}: still there after deletion.")
        return Removed(bytes_released=begun_with, already_missing=False)

    def finish(self, target: Target) -> None:
        """See :class:`ArtifactFiles`."""
        folder = _folder(target)
        journal = _journal(folder)
        if journal.exists():
            self._on_step("forget journal")
            journal.unlink(missing_ok=True)
            sync_folder(folder.parent)

    def _unlink(self, folder: Path, target: Target, *, undo: bool) -> None:
        if not folder.exists():
            sync_folder(folder.parent)  # a cut pass may have removed it without making that durable
            return
        removed = False
        try:
            for file in sorted(target.files, key=lambda entry: entry.path != MARKER):
                path = local(folder, file.path)
                if os.path.lexists(path):
                    self._on_step(f"unlink {file.path}")
                    path.unlink()
                    removed = True
                    if file.path == MARKER:
                        sync_folder(folder)
        except OSError:
            if undo and not removed:  # nothing went, so nothing is under way
                _journal(folder).unlink(missing_ok=True)
            raise
        folders = sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True)
        for below in folders:
            below.rmdir()
        sync_folder(folder)
        self._on_step("rmdir")
        folder.rmdir()
        self._on_step("sync parent")
        sync_folder(folder.parent)


def _folder(target: Target) -> Path:
    folder = to_path(target.location)
    if folder is None or folder == folder.parent:
        raise StorageError(f"{target.location}: not the address of a folder.")
    return folder


def _journal(folder: Path) -> Path:
    return folder.with_name(JOURNAL.format(name=folder.name))


def _write_journal(folder: Path, target: Target, plan_digest: str, size: int) -> None:
    journal = _journal(folder)
    draft = journal.with_name(journal.name + ".tmp")
    body = json.dumps({"ref": target.ref, "plan_digest": plan_digest, "bytes": size})
    with draft.open("w", encoding="utf-8") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(journal)
    sync_folder(folder.parent)


def _compare(folder: Path, target: Target, *, begun: bool) -> Look:
    recorded = {file.path: file.size for file in target.files}
    present, total, other = 0, 0, []
    for base, folders, names in os.walk(os.fsencode(folder)):
        for name in [
            *names,
            *(each for each in folders if Path(os.fsdecode(base + b"/" + each)).is_symlink()),
        ]:
            path = base + b"/" + name
            info = os.lstat(path)
            relative = path_to_text(os.path.relpath(path, os.fsencode(folder)))
            if not stat.S_ISREG(info.st_mode) or recorded.get(relative) != info.st_size:
                other.append(relative)
            else:
                present, total = present + 1, total + info.st_size
    if other:
        detail = f"holds what was not recorded like this: {', '.join(sorted(other)[:5])}"
        return Look(presence="changed", bytes_present=total, detail=detail, begun=begun)
    whole = present == len(recorded)
    return Look(presence="present" if whole else "partial", bytes_present=total, begun=begun)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _shown(path: Path) -> str:
    return path_to_text(os.fsencode(path))
