"""Open a file that somebody else may have put there: a regular file, or nothing."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


class NotRegularError(OSError):
    """In place of a regular file lies something else; ``found`` says what, its content is never read."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(errno.EINVAL, f"{found}, not a regular file", str(path))
        self.path = path
        self.found = found


def open_regular(path: Path) -> BufferedReader:
    """Open ``path`` for reading without following a link in its place and without waiting for a pipe's writer.

    Raises :class:`NotRegularError` for a link, pipe, socket, folder or device, and ``OSError`` like ``open``.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotRegularError(path, "a symbolic link") from None
        if error.errno == errno.ENXIO:
            raise NotRegularError(path, "a socket or device") from None
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise NotRegularError(path, _name_of(mode))
    return os.fdopen(handle, "rb")


def _name_of(mode: int) -> str:
    names = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISDIR, "a folder"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in names if test(mode)), "a device")
