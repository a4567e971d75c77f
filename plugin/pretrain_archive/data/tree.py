"""What a source holds: the port :class:`Tree`, and the folder behind it.

A folder is listed as bytes and read so that a change while reading is noticed. Symbolic links are listed with
their target and never followed; sockets, pipes and devices are refused. Empty folders hold no data and are not
listed. A root that is one regular file is a tree with one entry.
"""

# ruff: noqa: PTH112, PTH115, PTH116, PTH118, PTH119 - pathlib cannot hold paths as bytes

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, Protocol, Self
from urllib.parse import quote

from pretrain_archive.data.globs import Filter
from pretrain_archive.domain.errors import SourceChangedError, SourceError
from pretrain_archive.domain.identity import path_to_text, text_to_path

Mark = tuple[int | str, ...]
"""What tells that a file was touched; equal marks of one path mean that nobody wrote it in between.

It is no proof of content and is kept in no manifest. A folder's is device, inode, size, and modification and
change time in ns: the change time cannot be set back by a program, so an edit that restores size and modification
time is still seen.
"""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REPLACED = {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR, errno.EMLINK}
"""What the system answers for a file that is gone, or where a link, folder or socket took its place."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A file or link of a tree: path relative to the root, bytes, mark, and the target if it is a link.

    Without a mark (a file of a manifest) whatever lies at the path is meant. ``version`` is the id of the one
    version that is meant, where the source keeps versions.
    """

    path: bytes
    size: int
    mark: Mark = ()
    target: bytes | None = None
    version: str | None = None

    def to_json(self) -> list[Any]:
        """The file as plain JSON, for a listing that is kept or handed on."""
        target = None if self.target is None else path_to_text(self.target)
        return [path_to_text(self.path), self.size, list(self.mark), target, self.version]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Read what :meth:`to_json` wrote."""
        path, size, mark, target, version = fields
        return cls(
            text_to_path(path), size, tuple(mark), None if target is None else text_to_path(target), version
        )


class Tree(Protocol):
    """The files of a source: a folder, or a prefix of a bucket.

    It does not promise that a listing shows one moment: list again after reading, and compare marks.
    """

    @property
    def uri(self) -> str:
        """The address to record; :func:`sources.resolve_source` finds the same tree by it."""

    def list(self, chosen: Filter) -> Iterator[Listed]:
        """Yield what ``chosen`` takes, sorted by the raw bytes of the path, with bounded memory.

        Raises ``SourceError`` for what is missing, unreadable or no file.
        """

    def open(self, listed: Listed) -> BinaryIO:
        """Open a file for reading (``read`` and ``readinto``, not buffered); the caller closes it.

        Raises ``SourceChangedError`` if it is not what was listed any more, ``SourceError`` if it cannot be
        read. A version that is named is opened or refused: no other takes its place.
        """

    def same(self, listed: Listed, stream: BinaryIO) -> bool:
        """Whether the file behind ``stream``, from :meth:`open` and read to its end, was not written meanwhile."""


class FolderTree:
    """The files below the folder ``root`` (absolute, without links), or the one file ``root``."""

    def __init__(self, root: bytes, *, uri: str = "") -> None:
        self.root = root
        self.uri = uri or "file://" + quote(root)

    @classmethod
    def at(cls, place: str | bytes | os.PathLike[str]) -> Self:
        """The tree at a path; links on the way to it are followed once, here."""
        return cls(os.path.realpath(os.fsencode(place)))

    def list(self, chosen: Filter) -> Iterator[Listed]:
        """See :meth:`Tree.list`."""
        try:
            found = os.stat(self.root)
        except OSError as error:
            raise unreadable(self.root, error) from error
        if stat.S_ISREG(found.st_mode):
            yield Listed(os.path.basename(self.root), found.st_size, _mark(found))
        elif stat.S_ISDIR(found.st_mode):
            yield from _walk(self.root, b"", chosen)
        else:
            raise SourceError(
                f"source {path_to_text(self.root)}: is neither a folder nor a regular file.",
                hint="Name a folder or a file.",
            )

    def open(self, listed: Listed) -> BinaryIO:
        """See :meth:`Tree.open`; no link in its place is followed, and no pipe waited for."""
        place = self.absolute(listed.path)
        try:
            handle = os.open(place, _READ)
        except OSError as error:
            if listed.mark and error.errno in _REPLACED:
                raise changed(listed.path) from error
            raise unreadable(place, error) from error
        stream = os.fdopen(handle, "rb", buffering=0)
        if listed.mark and not self.same(listed, stream):
            stream.close()
            raise changed(listed.path)
        return stream

    def same(self, listed: Listed, stream: BinaryIO) -> bool:
        """See :meth:`Tree.same`."""
        return _marked(os.fstat(stream.fileno()), listed)

    def content(self, listed: Listed) -> bytes:
        """All bytes of a small file: :meth:`open`, read and :meth:`same` in as few system calls as that takes."""
        try:
            handle = os.open(self.absolute(listed.path), _READ)
        except OSError as error:
            if error.errno in _REPLACED:
                raise changed(listed.path) from error
            raise
        try:
            content = os.read(handle, listed.size + 1)
            while len(content) < listed.size and (more := os.read(handle, listed.size - len(content))):
                content += more
            same = len(content) == listed.size and _marked(os.fstat(handle), listed)
        finally:
            os.close(handle)
        if not same:
            raise changed(listed.path)
        return content

    def absolute(self, path: bytes) -> bytes:
        """Where the listed ``path`` lies; a root that is a file is its own only entry."""
        return self._before + path if self._before else self.root

    @cached_property
    def _before(self) -> bytes:
        """What stands before a path; nothing for a root that is a file."""
        return os.path.join(self.root, b"") if os.path.isdir(self.root) else b""


Place = Tree | str | bytes | os.PathLike[str]
"""A tree, or the path of a folder or file."""


def tree_of(place: Place) -> Tree:
    """The tree itself, or that of a path."""
    return FolderTree.at(place) if isinstance(place, str | bytes | os.PathLike) else place


def _mark(found: os.stat_result) -> Mark:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


_KIND = 0o170000
"""The bits of a mode that tell a file from a folder or link (S_IFMT)."""

Named = tuple[bytes, os.DirEntry[bytes]]


def _marked(found: os.stat_result, listed: Listed) -> bool:
    """Whether a file still has its mark, or its :func:`portable` one."""
    mark = _mark(found)
    return listed.mark == mark or listed.mark == mark[1:]


def portable(listed: Listed) -> Listed:
    """The file with a mark that another machine finds too: each has numbers of its own for what is mounted."""
    if not listed.mark or isinstance(listed.mark[0], str):
        return listed
    return Listed(listed.path, listed.size, listed.mark[1:], listed.target, listed.version)


def _walk(root: bytes, below: bytes, chosen: Filter) -> Iterator[Listed]:
    # A stack of its own: folders may be nested deeper than the interpreter lets calls be.
    open_folders: list[tuple[bytes, Iterator[Named]]] = [(below, _scanned(root, below))]
    while open_folders:
        above, entries = open_folders[-1]
        for name, entry in entries:
            path = above + name
            if name.endswith(b"/"):
                if chosen.enters(path[:-1]):
                    open_folders.append((path, _scanned(root, path)))
                    break
            elif chosen.takes(path):
                yield _listed(entry, path)
        else:
            open_folders.pop()


def _scanned(root: bytes, below: bytes) -> Iterator[Named]:
    """The entries of a folder in the order of the whole paths below it: a folder sorts as its name with '/'."""
    folder = os.path.join(root, below)
    try:
        with os.scandir(folder) as entries:
            return iter(sorted((e.name + b"/" * e.is_dir(follow_symlinks=False), e) for e in entries))
    except OSError as error:
        raise unreadable(folder, error) from error


def _listed(entry: os.DirEntry[bytes], path: bytes) -> Listed:
    try:
        found = entry.stat(follow_symlinks=False)
        kind = found.st_mode & _KIND
        if kind == stat.S_IFREG:
            return Listed(path, found.st_size, _mark(found))
        if kind == stat.S_IFLNK:
            return Listed(path, found.st_size, _mark(found), os.readlink(entry.path))
    except OSError as error:
        raise unreadable(entry.path, error) from error
    raise SourceError(
        f"source file {path_to_text(path)}: is a pipe, socket or device, expected a regular file.",
        hint="Remove it or exclude it by a pattern.",
    )


def changed(path: bytes) -> SourceChangedError:
    """The error for a file that is not what was listed any more."""
    text = path_to_text(path)
    return SourceChangedError(
        f"source file {text}: changed while it was read; no version was made.",
        paths=(text,),
        hint="Stop what writes there and try again.",
    )


def unreadable(place: bytes, error: OSError) -> SourceError:
    """The error for a path of a source that cannot be read."""
    reason = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    return SourceError(
        f"source {path_to_text(place)}: {reason}.", hint="Check the path and the rights of the reading user."
    )
