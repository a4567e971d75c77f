"""Files of one folder removed by name, without following any link, each folder made durable; and what that releases.

Bytes are counted by what the file system gives back: a file that has another name elsewhere releases nothing, holes
of a sparse file never took anything, and the rounding up to whole blocks is left out.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from pretrain_archive.artifacts.formats.folder import MARKER
from pretrain_archive.domain.identity import path_to_text, text_to_path
from pretrain_archive.storage.bulk import KeyFault

BLOCK = 512
"""``st_blocks`` counts these, whatever the file system's own block is (stat(2))."""
SMALL = 4096
"""Files below are counted by size: some file systems keep them in the inode and tell no blocks."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Unlinking:
    """Removals in one open folder; a fault of one file does not stop the others."""

    def __init__(self, folder: Path, *, on_step: Callable[[str], None]) -> None:
        self._folder = folder
        self._on_step = on_step
        self.faults: list[KeyFault] = []
        self.gone = 0
        self.bytes_gone = 0

    def __enter__(self) -> Self:
        self._root = os.open(self._folder, FOLDER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._root)

    def unlink(self, paths: Sequence[str], *, whole: bool) -> None:
        """Remove files by their recorded names; of a ``whole`` checkpoint the marker first, alone and durably."""
        first = [path for path in paths if whole and path == MARKER]
        for path in first:
            self._one(path)
            os.fsync(self._root)
        if self.faults:  # without its marker nothing else goes: it would look whole
            return
        for path in paths:
            if path not in first:
                self._one(path)

    def remove_folders(self, *, whole: bool) -> None:
        """Remove the folders below that are empty now, deepest first; of a ``whole`` checkpoint all must be."""
        for _, names, _, handle in os.fwalk(b".", topdown=False, dir_fd=self._root):
            for name in names:
                self._on_step(f"rmdir {path_to_text(name)}")
                try:
                    os.rmdir(name, dir_fd=handle)
                except OSError as error:
                    if whole or error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                        raise
            os.fsync(handle)

    def _one(self, path: str) -> None:
        try:
            self._step_down(_inside(path), path)
        except FileNotFoundError:
            return
        except OSError as error:
            code = errno.errorcode.get(error.errno or 0, "OSError")
            self.faults.append(KeyFault(key=path, code=code, message=error.strerror or str(error)))

    def _step_down(self, parts: list[bytes], path: str) -> None:
        handle = os.dup(self._root)
        try:
            for part in parts[:-1]:
                below = os.open(part, FOLDER, dir_fd=handle)
                os.close(handle)
                handle = below
            info = os.stat(parts[-1], dir_fd=handle, follow_symlinks=False)
            if not stat.S_ISREG(info.st_mode):
                raise OSError(errno.EINVAL, "is not the regular file that was recorded")
            self._on_step(f"unlink {path}")
            os.unlink(parts[-1], dir_fd=handle)
            self.gone += 1
            self.bytes_gone += held_by([info])
        finally:
            os.close(handle)


def _inside(path: str) -> list[bytes]:
    """The parts of a recorded name, none of which leads out of the folder."""
    parts = text_to_path(path).split(b"/")
    if any(part in {b"", b".", b".."} for part in parts):
        raise OSError(errno.EINVAL, "the recorded name leads out of the folder")
    return parts


def walk_files(folder: Path) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield everything below ``folder`` that is no folder, with its status; None for what is no regular file.

    Links are told and never followed. Raises ``OSError`` for a folder that cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise error

    root = os.fsencode(folder)
    for base, folders, names in os.walk(root, onerror=refuse):
        linked = [name for name in folders if os.path.islink(base + b"/" + name)]  # noqa: PTH114 - bytes
        for name in [*names, *linked]:
            with suppress(FileNotFoundError):
                info = os.lstat(base + b"/" + name)
                relative = path_to_text(os.path.relpath(base + b"/" + name, root))
                yield relative, info if stat.S_ISREG(info.st_mode) else None


def held_by(infos: Iterable[os.stat_result]) -> int:
    """Bytes that the removal of all these files releases together."""
    names: Counter[tuple[int, int]] = Counter()
    by_inode: dict[tuple[int, int], os.stat_result] = {}
    for info in infos:
        inode = (info.st_dev, info.st_ino)
        names[inode] += 1
        by_inode[inode] = info
    return sum(
        info.st_size if info.st_size < SMALL else min(info.st_size, info.st_blocks * BLOCK)
        for inode, info in by_inode.items()
        if info.st_nlink <= names[inode]
    )


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
