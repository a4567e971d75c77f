"""A store that is a folder: whole objects appear by ``link(2)``, which refuses an existing name.

An object is written to a locked temporary file, flushed to the disk, linked to its name, and the folder is
flushed too. A writer that dies leaves a temporary file that nobody lists; the lock dies with it, so the next
writer sees that it is dead and removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import quote

from pretrain_archive.domain.errors import ArchiveError, StorageError
from pretrain_archive.storage.keys import TEMPORARY, check_key
from pretrain_archive.storage.port import ObjectInfo

BLOCK = 1 << 20
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class FileStore:
    """Objects as files below ``folder`` (made when first written to)."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow links
        self._sweep_once = threading.Lock()
        self._swept = False

    def put_if_absent(self, key: str, data: BinaryIO) -> bool:
        """See :meth:`ObjectStore.put_if_absent`."""
        target = self._path(key)
        if target.is_file():
            return False
        taken = 0
        try:
            self._make_folders(target.parent)
            temporary, handle = self._temporary()
            try:
                while block := data.read(BLOCK):
                    taken += len(block)
                    _write_all(handle, block)
                os.fsync(handle)
                return _link(temporary, target)
            finally:
                with suppress(FileNotFoundError):
                    temporary.unlink()
                os.close(handle)
        except OSError as error:
            raise self._refused("write", key, error, taken=taken, data=data) from error

    def open(self, key: str) -> BinaryIO:
        """See :meth:`ObjectStore.open`."""
        try:
            return cast("BinaryIO", self._path(key).open("rb"))
        except OSError as error:
            raise self._refused("read", key, error) from error

    def stat(self, key: str) -> ObjectInfo | None:
        """See :meth:`ObjectStore.stat`."""
        try:
            found = self._path(key).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._refused("look up", key, error) from error
        return ObjectInfo(key=key, size=found.st_size)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See :meth:`ObjectStore.list`."""
        yield from self._walk("", prefix)

    def delete(self, key: str) -> None:
        """See :meth:`ObjectStore.delete`."""
        path = self._path(key)
        try:
            path.unlink()
            _sync_folder(path.parent)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._refused("delete", key, error) from error

    def location(self, key: str) -> str:
        """See :meth:`ObjectStore.location`."""
        return "file://" + quote(os.fsencode(self._path(key)))

    def _path(self, key: str) -> Path:
        return self.folder / check_key(key)

    def _walk(self, below: str, prefix: str) -> Iterator[ObjectInfo]:
        """Yield keys in the order of whole keys: a folder sorts as its name with ``/``."""
        try:
            with os.scandir(self.folder / below) as entries:
                named = [(e.name + "/" * e.is_dir(follow_symlinks=False), e) for e in entries]
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._refused("list", below or ".", error) from error
        for name, entry in sorted(named, key=lambda pair: pair[0]):
            key = below + name
            if key == TEMPORARY + "/" or not (key.startswith(prefix) or prefix.startswith(key)):
                continue
            if name.endswith("/"):
                yield from self._walk(key, prefix)
            elif key.startswith(prefix):
                with suppress(FileNotFoundError):
                    yield ObjectInfo(key=key, size=entry.stat(follow_symlinks=False).st_size)

    def _make_folders(self, folder: Path) -> None:
        """Make ``folder`` and its parents durable: a new folder's own name is flushed in its parent."""
        if folder.is_dir():
            return
        if folder != folder.parent:
            self._make_folders(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir()
        _sync_folder(folder.parent)

    def _temporary(self) -> tuple[Path, int]:
        """A new temporary file that this process holds locked."""
        folder = self.folder / TEMPORARY
        self._make_folders(folder)
        self._sweep(folder)
        while True:
            path = folder / uuid.uuid4().hex
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
            with suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A sweeper may have taken the file for a dead one before the lock was ours.
                if os.fstat(handle).st_nlink:
                    return path, handle
            os.close(handle)

    def _sweep(self, folder: Path) -> None:
        """Remove once what dead writers left: files whose lock is free."""
        with self._sweep_once:
            if self._swept:
                return
            self._swept = True
            for path in folder.iterdir():
                with suppress(OSError):
                    _remove_if_dead(path)

    def _refused(
        self, act: str, key: str, error: OSError, *, taken: int = 0, data: BinaryIO | None = None
    ) -> StorageError:
        path = self.folder / key
        if error.errno not in FULL:
            reason = "not there" if isinstance(error, FileNotFoundError) else (error.strerror or str(error))
            return StorageError(
                f"{path}: cannot {act}: {reason}.", hint="Check the store's folder and its rights."
            )
        needed = taken + _rest_of(data)
        free = shutil.disk_usage(self.folder if self.folder.exists() else "/").free
        return StorageError(
            f"{path}: cannot {act}: {error.strerror}; the object needs {needed} bytes, {free} are free.",
            hint="Free space in the store or choose another, then try again; nothing half-written is visible.",
        )


def _write_all(handle: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[os.write(handle, view) :]


def _link(temporary: Path, target: Path) -> bool:
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    _sync_folder(target.parent)
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_if_dead(path: Path) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(handle)


def _rest_of(data: BinaryIO | None) -> int:
    """Bytes that were not taken yet, counted by reading on as far as that works."""
    rest = 0
    if data is not None:
        with suppress(OSError, ValueError, ArchiveError):
            while block := data.read(BLOCK):
                rest += len(block)
    return rest
