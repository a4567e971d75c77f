"""List a folder as bytes and read its files so that a change while reading is noticed.

Symbolic links are listed with their target and never followed; sockets, pipes and devices are refused. Empty
folders hold no data and are not listed. A root that is one regular file is a tree with one entry.
"""

# ruff: noqa: PTH112, PTH115, PTH116, PTH118, PTH119 - pathlib cannot hold paths as bytes

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Self

from pretrain_archive.data.globs import Filter
from pretrain_archive.domain.errors import SourceError
from pretrain_archive.domain.identity import path_to_text


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells that a file was touched: device, inode, size, and modification and change time in ns.

    The change time cannot be set back by a program, so an edit that restores size and modification time
    is still seen.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """The stamp of a stat result."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file or link of a tree: path relative to the root, stamp, and the target if it is a link."""

    path: bytes
    stamp: Stamp
    target: bytes | None = None


def list_tree(root: bytes, chosen: Filter) -> Iterator[Listed]:
    """Yield what ``chosen`` takes below ``root``, sorted by the raw bytes of the path, one folder at a time.

    Raises ``SourceError`` for a missing or unreadable root, an unreadable folder, or a special file.
    """
    try:
        found = os.stat(root)
    except OSError as error:
        raise unreadable(root, error) from error
    if stat.S_ISREG(found.st_mode):
        yield Listed(os.path.basename(root), Stamp.of(found))
    elif stat.S_ISDIR(found.st_mode):
        yield from _walk(root, b"", chosen)
    else:
        raise SourceError(
            f"source {path_to_text(root)}: is neither a folder nor a regular file.",
            hint="Name a folder or a file.",
        )


def _walk(root: bytes, below: bytes, chosen: Filter) -> Iterator[Listed]:
    folder = os.path.join(root, below)
    try:
        with os.scandir(folder) as entries:
            # A folder sorts as its name with '/': that is the order of the whole paths below it.
            named = sorted((e.name + b"/" * e.is_dir(follow_symlinks=False), e) for e in entries)
    except OSError as error:
        raise unreadable(folder, error) from error
    for name, entry in named:
        path = below + name
        if name.endswith(b"/"):
            if chosen.enters(path[:-1]):
                yield from _walk(root, path, chosen)
        elif chosen.takes(path):
            yield _listed(entry, path)


def _listed(entry: os.DirEntry[bytes], path: bytes) -> Listed:
    try:
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return Listed(path, Stamp.of(found), os.readlink(entry.path))
    except OSError as error:
        raise unreadable(entry.path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise SourceError(
            f"source file {path_to_text(path)}: is a pipe, socket or device, expected a regular file.",
            hint="Remove it or exclude it by a pattern.",
        )
    return Listed(path, Stamp.of(found))


def absolute(root: bytes, path: bytes) -> bytes:
    """Where the listed ``path`` lies; a root that is a file is its own only entry."""
    return os.path.join(root, path) if os.path.isdir(root) else root


def open_listed(root: bytes, path: bytes) -> BinaryIO:
    """Open a listed file for unbuffered reading without following a link in its place, or waiting on a pipe."""
    place = absolute(root, path)
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(place, error) from error
    return os.fdopen(handle, "rb", buffering=0)


def unreadable(place: bytes, error: OSError) -> SourceError:
    """The error for a path of a source that cannot be read."""
    reason = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    return SourceError(
        f"source {path_to_text(place)}: {reason}.", hint="Check the path and the rights of the reading user."
    )
