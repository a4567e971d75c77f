"""Folders and files that no record lists (data copies, caches, leftovers, logs): removed as a whole, links unfollowed.

What is there is known by a digest over the paths and sizes, or for a file over its content; whoever removes it says
which digest was planned, and nothing goes if it is another one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.domain.identity import format_time, path_to_text
from pretrain_archive.retention.files import Look, PartlyDeletedError, Removed, Target
from pretrain_archive.retention.folders import JOURNAL
from pretrain_archive.retention.mounts import is_there, unmounted
from pretrain_archive.retention.unlinking import FOLDER, held_by, sync_folder
from pretrain_archive.storage.bulk import KeyFault
from pretrain_archive.storage.regular import open_regular

_CLOCK = 0.05
"""Seconds by which the kernel's time of a change may be rounded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """What lies at a path: sizes together, what its removal would release, how many files, and the digest.

    ``changed`` is the newest status change (ctime) in seconds since 1970.
    """

    size: int
    held: int
    files: int
    digest: str
    changed: float = 0.0

    @property
    def mark(self) -> str:
        """Twelve digits that name this state of it: the same content made again later has another."""
        return hashlib.sha256(f"{self.digest} {self.changed!r}".encode()).hexdigest()[:12]

    @property
    def changed_at(self) -> str:
        """``changed`` as RFC 3339."""
        return format_time(datetime.fromtimestamp(self.changed, UTC))


def measure(path: Path) -> Tree:
    """Walk a folder, or hash a file; ``OSError`` if something there cannot be read."""
    if not path.is_dir() or path.is_symlink():
        return _measured_file(path)
    infos, rows = [], hashlib.sha256()
    for name, info in sorted(_walk(path), key=lambda pair: pair[0]):
        infos.append(info)
        kind = "file" if stat.S_ISREG(info.st_mode) else "other"
        rows.update(json.dumps([path_to_text(name), kind, info.st_size]).encode() + b"\n")
    return Tree(
        size=sum(info.st_size for info in infos),
        held=held_by(info for info in infos if stat.S_ISREG(info.st_mode)),
        files=len(infos),
        digest=f"sha256:{rows.hexdigest()}",
        changed=max(info.st_ctime for info in (path.stat(), *infos)),
    )


class TreeFiles:
    """Whole trees with ``file://`` addresses. ``on_step`` is told before each durable step."""

    def __init__(self, *, on_step: Callable[[str], None] = lambda _step: None) -> None:
        self._on_step = on_step

    def handles(self, location: str) -> bool:
        """See :class:`ArtifactFiles`."""
        return to_path(location) is not None

    def look(self, target: Target) -> Look:
        """See :class:`ArtifactFiles`."""
        path = _path(target)
        try:
            begun = _is_ours(path, target)
            if not path.parent.is_dir():
                detail = f"{path_to_text(os.fsencode(path.parent))} is not there; is its disk mounted?"
                return Look(presence="unreachable", detail=detail)
            if not is_there(path):
                point = unmounted(path)
                detail = f"{point} is a mount point, and nothing is mounted there" if point else ""
                return Look(presence="unreachable" if point else "missing", detail=detail, begun=begun)
            tree = measure(path)
        except OSError as error:
            return Look(presence="unreachable", detail=f"{target.location}: {error.strerror}")
        return Look(presence="present", bytes_present=tree.size, bytes_held=tree.held, begun=begun)

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """See :class:`ArtifactFiles`."""
        path = _path(target)
        seen = self.look(target)
        if seen.presence == "unreachable":
            raise StorageError(f"{target.location}: {seen.detail}.", hint="Nothing was deleted there.")
        try:
            if not _journal(path).exists():
                if seen.presence == "missing":
                    return Removed(bytes_released=0, already_missing=True)
                self._on_step("journal")
                _write_journal(path, target, plan_digest, seen.bytes_held)
            begun_with = int(json.loads(_journal(path).read_bytes())["bytes"])
            if is_there(path):
                self._take(path, target)
            self._on_step("sync parent")
            sync_folder(path.parent)
        except (OSError, ValueError, KeyError) as error:
            raise StorageError(f"{target.location}: not deleted: {error}.") from error
        return Removed(bytes_released=begun_with, already_missing=False)

    def finish(self, target: Target) -> None:
        """See :class:`ArtifactFiles`."""
        journal = _journal(_path(target))
        if journal.exists():
            self._on_step("forget journal")
            journal.unlink(missing_ok=True)
            sync_folder(journal.parent)

    def _take(self, path: Path, target: Target) -> None:
        if path.is_symlink() or not path.is_dir():
            self._on_step(f"unlink {path.name}")
            path.unlink()
            return
        gone, faults = 0, list[KeyFault]()
        root = os.open(path, FOLDER)
        try:
            for base, folders, names, handle in os.fwalk(b".", topdown=False, dir_fd=root):
                linked = [name for name in folders if _is_link(name, handle)]
                for name in [*names, *linked]:
                    gone += self._unlink(base, name, handle, faults)
                for name in folders:
                    if name not in linked:
                        self._rmdir(base, name, handle, faults)
                os.fsync(handle)
        finally:
            os.close(root)
        if faults:
            raise PartlyDeletedError(target.location, faults=faults, gone=gone)
        self._on_step("rmdir")
        path.rmdir()

    def _unlink(self, base: bytes, name: bytes, handle: int, faults: list[KeyFault]) -> int:
        key = path_to_text(os.path.normpath(base + b"/" + name))
        try:
            self._on_step(f"unlink {key}")
            os.unlink(name, dir_fd=handle)
        except FileNotFoundError:
            return 0
        except OSError as error:
            faults.append(_fault(key, error))
            return 0
        return 1

    def _rmdir(self, base: bytes, name: bytes, handle: int, faults: list[KeyFault]) -> None:
        key = path_to_text(os.path.normpath(base + b"/" + name))
        try:
            self._on_step(f"rmdir {key}")
            os.rmdir(name, dir_fd=handle)
        except FileNotFoundError:
            return
        except OSError as error:
            faults.append(_fault(key, error))


def _walk(path: Path) -> Iterator[tuple[bytes, os.stat_result]]:
    def refuse(error: OSError) -> None:
        raise error

    root = os.fsencode(path)
    for base, folders, names in os.walk(root, onerror=refuse):
        linked = [name for name in folders if stat.S_ISLNK(os.lstat(base + b"/" + name).st_mode)]
        for name in [*names, *linked]:
            yield os.path.relpath(base + b"/" + name, root), os.lstat(base + b"/" + name)


def _measured_file(path: Path) -> Tree:
    info = path.lstat()
    if not stat.S_ISREG(info.st_mode):
        empty = f"sha256:{hashlib.sha256(b'').hexdigest()}"
        return Tree(size=0, held=0, files=1, digest=empty, changed=info.st_ctime)
    with open_regular(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Tree(
        size=info.st_size, held=held_by([info]), files=1, digest=f"sha256:{digest}", changed=info.st_ctime
    )


def _path(target: Target) -> Path:
    path = to_path(target.location)
    if path is None or path == path.parent:
        raise StorageError(f"{target.location}: not the address of a folder or file.")
    return path


def _journal(path: Path) -> Path:
    return path.with_name(JOURNAL.format(name=path.name))


def _write_journal(path: Path, target: Target, plan_digest: str, size: int) -> None:
    journal = _journal(path)
    draft = journal.with_name(journal.name + ".tmp")
    with draft.open("w", encoding="utf-8") as file:
        json.dump({"ref": target.ref, "plan_digest": plan_digest, "bytes": size}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(journal)
    sync_folder(journal.parent)


def _is_ours(path: Path, target: Target) -> bool:
    """Whether a removal of exactly this is under way, and nothing was written there since it began.

    What is half gone looks like another thing than was planned. So does what somebody wrote there meanwhile, and that
    was never planned.
    """
    journal = _journal(path)
    try:
        began = journal.stat().st_mtime
        if json.loads(journal.read_bytes())["ref"] != target.ref:
            return False
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return False
    if path.is_symlink() or not path.is_dir():
        return not is_there(path) or path.lstat().st_ctime <= began + _CLOCK
    return all(info.st_ctime <= began + _CLOCK for _, info in _walk(path))


def _is_link(name: bytes, handle: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)


def _fault(key: str, error: OSError) -> KeyFault:
    return KeyFault(
        key=key, code=errno.errorcode.get(error.errno or 0, "OSError"), message=error.strerror or ""
    )
