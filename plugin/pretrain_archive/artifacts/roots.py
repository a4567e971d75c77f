"""The place that a run's checkpoints lie in, side by side: a folder, or a prefix of a bucket."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from pretrain_archive.artifacts.readers import BucketReader, FolderReader, Reader, open_reader, translated
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.storage.regular import NotRegularError, open_regular

TRACKER_LIMIT = 4096
"""Bytes; a tracker holds a step or a folder's name."""

LINK, TEXT = "link", "text"


class Root(Protocol):
    """Where checkpoints lie side by side."""

    @property
    def location(self) -> str:
        """The address, for messages."""

    def children(self) -> list[str]:
        """The names of the folders directly below, without links; :class:`CheckpointError` if there is no root."""

    def child(self, name: str) -> Reader:
        """The reader of one of them."""

    def pointer(self, name: str) -> tuple[str, bytes]:
        """What lies under a pointer's name: (``link``, its target) or (``text``, its first bytes).

        Raises :class:`CheckpointError` with the reason where there is none.
        """


class FolderRoot:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def location(self) -> str:
        """See :class:`Root`."""
        return path_to_text(os.fsencode(self.folder))

    def children(self) -> list[str]:
        """See :class:`Root`."""
        if not self.folder.is_dir():
            raise CheckpointError(
                f"{self.location}: expected a folder with checkpoints, found none.",
                hint="Check the checkpoint location.",
            )
        try:
            return sorted(
                path.name for path in self.folder.iterdir() if path.is_dir() and not path.is_symlink()
            )
        except OSError as error:
            raise CheckpointError(f"{self.location}: cannot be read: {error.strerror}.") from error

    def child(self, name: str) -> Reader:
        """See :class:`Root`."""
        return FolderReader(self.folder / name)

    def pointer(self, name: str) -> tuple[str, bytes]:
        """See :class:`Root`. A link out of the folder is refused, and so is what is no file."""
        path = self.folder / name
        if path.is_symlink():
            target = path.readlink()
            if (self.folder / target).parent.resolve() != self.folder.resolve():
                shown = path_to_text(os.fsencode(target))
                raise CheckpointError(f"points outside the checkpoint folder, to {shown}.")
            return LINK, os.fsencode(target.name)
        try:
            with open_regular(path) as file:
                return TEXT, file.read(TRACKER_LIMIT + 1)
        except NotRegularError as error:
            raise CheckpointError(f"cannot be read: {error.found}, not a file.") from error
        except OSError as error:
            raise CheckpointError(f"cannot be read: {error.strerror}.") from error


class BucketRoot:
    """A prefix of a bucket; there are no links in one."""

    def __init__(self, reader: BucketReader) -> None:
        self._reader = reader

    @property
    def location(self) -> str:
        """See :class:`Root`."""
        return self._reader.location

    def children(self) -> list[str]:
        """See :class:`Root`."""
        above = self._reader.prefix + b"/"
        with translated(self.location):
            names = [name[len(above) : -1] for name in self._reader.bucket.folders(above)]
            if not names and next(self._reader.bucket.list(above), None) is None:
                raise CheckpointError(f"nothing lies below {self.location}.")
        return sorted(os.fsdecode(name) for name in names if name not in {b"", b".", b".."})

    def child(self, name: str) -> Reader:
        """See :class:`Root`."""
        return BucketReader(self._reader.bucket, self._reader.prefix + b"/" + os.fsencode(name))

    def pointer(self, name: str) -> tuple[str, bytes]:
        """See :class:`Root`."""
        key = self._reader.prefix + b"/" + os.fsencode(name)
        with translated(self.location):
            found = next(self._reader.bucket.list(key), None)  # keys come sorted: its own is the first
            if found is None or found.key != key:
                raise CheckpointError("cannot be read: no such object.")
            return TEXT, self._reader.bucket.read_range(
                key, start=0, size=min(found.size, TRACKER_LIMIT + 1), version=found.version, etag=found.etag
            )


def open_root(place: Path | str | Root, *, s3_options: Mapping[str, str] | None = None) -> Root:
    """The root that a folder or an address names."""
    if not isinstance(place, Path | str):
        return place
    reader = open_reader(place, s3_options=s3_options)
    if isinstance(reader, FolderReader):
        return FolderRoot(reader.folder)
    if not isinstance(reader, BucketReader):
        raise TypeError(f"no root of a {type(reader).__name__}")
    return BucketRoot(reader)
