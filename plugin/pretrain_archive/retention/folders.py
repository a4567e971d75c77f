"""Checkpoint folders on a file system, removed file by file from the recorded list."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.retention.files import Look, PartlyDeletedError, Removed, Target
from pretrain_archive.retention.mounts import is_there, unmounted
from pretrain_archive.retention.sameness import differs
from pretrain_archive.retention.unlinking import Unlinking, held_by, sync_folder, walk_files

JOURNAL = ".{name}.retention.json"
__all__ = ["FolderFiles", "sync_folder"]


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
            begun = _is_begun(target)
            if not folder.parent.is_dir():
                detail = f"{_shown(folder.parent)} is not there; is its disk mounted?"
                return Look(presence="unreachable", detail=detail)
            if (now := folder.parent.resolve()) != folder.parent:  # an address in a record has no link in it
                detail = f"{_shown(folder.parent)} is a link to {_shown(now)} now"
                return Look(presence="changed", detail=detail, begun=begun)
            if not is_there(folder):
                return _not_found(folder, begun=begun)
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
            if seen.presence != "missing" and (other := differs(folder, target, begun=seen.begun)):
                raise StorageError(
                    f"{target.location}: {other} is not the content that was recorded.",
                    hint="Nothing was deleted there. Register what lies there now, or move it away.",
                )
            if not seen.begun:
                if seen.presence == "missing":
                    return Removed(bytes_released=0, already_missing=True)
                self._on_step("journal")
                _write_journal(target, plan_digest, seen.bytes_held)
            begun_with = int(json.loads(_journal(target).read_bytes())["bytes"])
            self._unlink(folder, target, undo=not seen.begun)
        except (OSError, ValueError, KeyError) as error:
            raise StorageError(f"{target.location}: not deleted: {error}.") from error
        left = self.look(target)
        if left.presence != "missing":
            raise StorageError(f"{target.location}: still there after deletion: {left.presence}.")
        return Removed(bytes_released=begun_with, already_missing=False)

    def finish(self, target: Target) -> None:
        """See :class:`ArtifactFiles`."""
        journal = _journal(target)
        if journal.exists():
            self._on_step("forget journal")
            journal.unlink(missing_ok=True)
            sync_folder(journal.parent)

    def _unlink(self, folder: Path, target: Target, *, undo: bool) -> None:
        if not folder.exists():
            sync_folder(folder.parent)  # a cut pass may have removed it without making that durable
            return
        with Unlinking(folder, on_step=self._on_step) as work:
            work.unlink([file.path for file in target.files], whole=not target.parts)
            if work.faults and not work.gone and undo:  # nothing went, so nothing is under way
                _journal(target).unlink(missing_ok=True)
                first = work.faults[0]
                raise StorageError(f"{target.location}: not deleted: {first.key}: {first.message}.")
            if work.faults:
                raise PartlyDeletedError(
                    target.location, faults=work.faults, gone=work.gone, bytes_gone=work.bytes_gone
                )
            work.remove_folders(whole=not target.parts)
        if target.parts:
            return
        self._on_step("rmdir")
        folder.rmdir()
        self._on_step("sync parent")
        sync_folder(folder.parent)


def _not_found(folder: Path, *, begun: bool) -> Look:
    """Gone, unless its disk is: an empty mount point looks like a folder from which everything was deleted."""
    if (point := unmounted(folder)) is not None:
        return Look(
            presence="unreachable", detail=f"{_shown(point)} is a mount point, and nothing is mounted there"
        )
    return Look(presence="missing", begun=begun)


def _folder(target: Target) -> Path:
    folder = to_path(target.location)
    if folder is None or folder == folder.parent:
        raise StorageError(f"{target.location}: not the address of a folder.")
    return folder


def _journal(target: Target) -> Path:
    folder = _folder(target)
    name = "-".join((folder.name, *target.parts))
    return folder.with_name(JOURNAL.format(name=name))


def _is_begun(target: Target) -> bool:
    """Whether a removal of exactly this is under way: the journal may be of what lay there before."""
    try:
        return bool(json.loads(_journal(target).read_bytes())["ref"] == target.ref)
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(errno.EINVAL, f"{_shown(_journal(target))} is no journal of a deletion") from error


def _write_journal(target: Target, plan_digest: str, size: int) -> None:
    journal = _journal(target)
    draft = journal.with_name(journal.name + ".tmp")
    body = json.dumps({"ref": target.ref, "plan_digest": plan_digest, "bytes": size})
    with draft.open("w", encoding="utf-8") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(journal)
    sync_folder(journal.parent)


def _compare(folder: Path, target: Target, *, begun: bool) -> Look:
    going = {file.path: file.size for file in target.files}
    staying = {file.path: file.size for file in target.keep}
    found, other = [], []
    for relative, info in walk_files(folder):
        if info is not None and going.get(relative) == info.st_size:
            found.append(info)
        elif info is None or staying.get(relative) != info.st_size:
            other.append(relative)
    total = sum(info.st_size for info in found)
    if other:
        detail = f"holds what was not recorded like this: {', '.join(sorted(other)[:5])}"
        return Look(presence="changed", bytes_present=total, detail=detail, begun=begun)
    if not found and target.parts:
        return Look(presence="missing", begun=begun)
    return Look(
        presence="present" if len(found) == len(going) else "partial",
        bytes_present=total,
        begun=begun,
        bytes_held=held_by(found),
    )


def _shown(path: Path) -> str:
    return path_to_text(os.fsencode(path))
