"""One writer at a time in the folder that a package is assembled in; what a killed writer left is cleared."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone_in(temporary: Path) -> Iterator[Path]:
    """Make ``temporary`` and hold it, empty, until the block ends; another process that wants it waits.

    The lock is on the folder itself, so that nothing is left beside the package and the kernel lets go of it when
    a writer is killed. The block may rename the folder away; if it does not, the folder is removed.
    """
    handle = _hold(temporary)
    try:
        for path in temporary.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        yield temporary
    finally:
        if _is(temporary, handle):
            shutil.rmtree(temporary, ignore_errors=True)
        os.close(handle)


def _hold(temporary: Path) -> int:
    """A locked handle of the folder that stands at ``temporary`` now."""
    while True:
        temporary.mkdir(exist_ok=True)
        try:
            handle = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:  # another writer has just finished with it
            continue
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is(temporary, handle):
            return handle
        os.close(handle)


def _is(path: Path, handle: int) -> bool:
    """Whether ``path`` still names the folder behind ``handle``."""
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(handle))
    except FileNotFoundError:
        return False
