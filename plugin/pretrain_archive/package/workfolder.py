"""A folder of its own for each writer, beside the place of the package; what killed writers left is swept.

A writer holds a lock on its folder while it works, so that a sweep tells a folder in use from one that was
left: the kernel lets go of the lock when a process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEFT_AFTER = 86_400.0
"""Seconds without a new entry after which a folder counts as left, where the file system has no such locks."""


@contextmanager
def own_folder(place: Path) -> Iterator[Path]:
    """Make an empty folder beside ``place`` that no other writer uses, and sweep those that nobody uses.

    The block may rename the folder away; if it does not, the folder is removed at the end.
    """
    _sweep(place)
    path, handle = _make(place)
    try:
        yield path
    finally:
        if _is(path, handle):
            shutil.rmtree(path, ignore_errors=True)
        os.close(handle)


def _make(place: Path) -> tuple[Path, int]:
    """A new folder under the first free number, and its locked handle."""
    for number in itertools.count(1):
        path = place.with_name(f".{place.name}.{number}.part")
        try:
            path.mkdir()
            handle = _open(path)
        except (FileExistsError, FileNotFoundError):  # in use, or swept before it could be locked
            continue
        _lock(handle, fcntl.LOCK_EX)
        if _is(path, handle):
            return path, handle
        os.close(handle)
    raise AssertionError("there is always a next number")


def _sweep(place: Path) -> None:
    """Remove the folders of writers that are no more."""
    shape = re.compile(re.escape(f".{place.name}.") + r"[0-9]+\.part")
    for path in [path for path in place.parent.iterdir() if shape.fullmatch(path.name)]:
        try:
            handle = _open(path)
        except OSError:  # a link or a file of somebody else, or gone by now
            continue
        try:
            if _left(handle) and _is(path, handle):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(handle)


def _left(handle: int) -> bool:
    """Whether no writer holds the folder; where locks do not work, whether it is old."""
    try:
        if _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return True
    except BlockingIOError:
        return False
    return time.time() - os.fstat(handle).st_mtime > LEFT_AFTER


def _lock(handle: int, how: int) -> bool:
    """Whether the file system locks folders; ``BlockingIOError`` where another writer has it."""
    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _is(path: Path, handle: int) -> bool:
    """Whether ``path`` still names the folder behind ``handle``."""
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(handle))
    except FileNotFoundError:
        return False
