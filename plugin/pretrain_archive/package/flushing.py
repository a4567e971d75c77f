"""Bring what was written to the disk: file by file, or the whole file system at once where that is many files.

``fsync`` waits for the disk once per file, which for a hundred thousand records is half a minute. ``syncfs`` waits
once. It tells of failed writes since Linux 5.8 (https://man7.org/linux/man-pages/man2/syncfs.2.html); before that,
and on other systems, every file is flushed by itself.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

MANY = 500
"""Files from which on the file system is flushed at once: it may hold what other programs wrote as well."""
TELLS_OF_FAILURE = (5, 8)


def flush_files(folder: Path, files: Sequence[str]) -> None:
    """Have ``files``, paths below ``folder``, on the disk with their content; ``OSError`` where that failed."""
    if len(files) >= MANY and (sync := _syncfs()) is not None:
        _at_once(folder, sync)
        return
    for path in files:
        handle = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def flush_folder(folder: Path) -> None:
    """Have the names in ``folder`` on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _at_once(folder: Path, sync: ctypes._NamedFuncPointer) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if sync(handle):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(handle)


@cache
def _syncfs() -> ctypes._NamedFuncPointer | None:
    """The system call, where it exists and tells of failed writes."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    if platform.system() != "Linux" or not found or tuple(map(int, found.groups())) < TELLS_OF_FAILURE:
        return None
    call: ctypes._NamedFuncPointer | None = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    return call
