"""How a checkpoint is read: list, size, ranged read and version id, from a folder or a bucket alike.

The port does not promise: writing, or that two calls see the same state. Whoever needs that compares two listings:
:attr:`FileEntry.mark` differs as soon as a file was written in between.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from pretrain_archive.artifacts.location import HINT, bucket_location, to_bucket, to_location, to_path
from pretrain_archive.domain.errors import (
    CheckpointError,
    InputError,
    SourceChangedError,
    SourceError,
    StorageError,
)
from pretrain_archive.domain.identity import path_to_text, text_to_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pretrain_archive.storage.s3_source import SourceBucket

Mark = tuple[str | int, ...]

MOST_FILES = 100_000
"""A folder with more files is no checkpoint, and its listing must not fill the memory."""

GRANULE_SECONDS = 0.02
"""Twice the coarsest tick of a Linux kernel: a write after so long moves the time of a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """A regular file or object: ``path`` relative to its folder as ``path_to_text`` writes it, size in bytes.

    ``version`` is the version id where a bucket keeps versions. ``mark`` tells one state of the file from another:
    device, inode, size, modification and change time, or what a listing says of an object.
    """

    path: str
    size: int
    version: str | None = None
    mark: Mark = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The files below a checkpoint's address by path, and what lies there and is no file."""

    files: tuple[FileEntry, ...]
    faults: tuple[str, ...] = ()


class Reader(Protocol):
    """One checkpoint's bytes."""

    @property
    def location(self) -> str:
        """The address, as records hold it."""

    @property
    def name(self) -> str:
        """The last part of the address: what a folder is called."""

    def listing(self) -> Listing:
        """What is there now. Raises :class:`CheckpointError` if nothing is."""

    def read(self, file: FileEntry, start: int, size: int) -> bytes:
        """Up to ``size`` bytes of that state of the file from ``start``; fewer only at its end."""

    def open(self, file: FileEntry) -> BinaryIO:
        """The bytes of that state of the file, front to end; :class:`CheckpointError` if it is another by now."""

    def same(self, file: FileEntry, stream: BinaryIO) -> bool:
        """Whether the file behind ``stream`` is still in the listed state."""

    def settle(self, stream: BinaryIO) -> None:
        """Make the bytes behind ``stream`` durable, as far as a reader may."""


def local(folder: Path, path: str) -> Path:
    """The path on this machine of a file that was named by ``path_to_text``."""
    return folder / os.fsdecode(text_to_path(path))


class FolderReader:
    """A folder of this machine. Links and devices are faults and never followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def location(self) -> str:
        """See :class:`Reader`."""
        return to_location(self.folder)

    @property
    def name(self) -> str:
        """See :class:`Reader`."""
        return self.folder.name

    def listing(self) -> Listing:
        """See :class:`Reader`."""
        if self.folder.is_symlink():
            raise CheckpointError("the folder is a link; name the folder itself.")
        if not self.folder.is_dir():
            raise CheckpointError(
                "is not a folder." if self.folder.exists() else "the folder does not exist."
            )
        faults: list[str] = []
        try:
            found = sorted(self._walk(faults), key=lambda pair: pair[0])
        except OSError as error:
            raise CheckpointError(f"folder cannot be read: {error.strerror}.") from error
        files = tuple(
            FileEntry(path=path_to_text(raw), size=info.st_size, mark=_mark(info)) for raw, info in found
        )
        return Listing(files=files, faults=tuple(faults))

    def _walk(self, faults: MutableSequence[str]) -> Iterator[tuple[bytes, os.stat_result]]:
        root, pending, count = os.fsencode(self.folder), [b""], 0
        while pending:
            below = pending.pop()
            with os.scandir(root + b"/" + below) as entries:
                for entry in entries:
                    relative = below + entry.name
                    info = entry.stat(follow_symlinks=False)
                    count += 1
                    if count > MOST_FILES:
                        raise CheckpointError(
                            f"holds more than {MOST_FILES} files, which no checkpoint does."
                        )
                    if stat.S_ISDIR(info.st_mode):
                        pending.append(relative + b"/")
                    elif stat.S_ISREG(info.st_mode):
                        yield relative, info
                    else:
                        faults.append(f"{path_to_text(relative)} is a link or device, not a file")

    def read(self, file: FileEntry, start: int, size: int) -> bytes:
        """See :class:`Reader`."""
        with self.open(file) as stream:
            return os.pread(stream.fileno(), max(0, min(size, file.size - start)), start)

    def open(self, file: FileEntry) -> BinaryIO:
        """See :class:`Reader`."""
        path = local(self.folder, file.path)
        try:
            # Without waiting: where a file was, a pipe may be by now.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise CheckpointError(f"{file.path}: cannot be read: {error.strerror}.") from error
        info = os.fstat(handle)
        problem = "" if stat.S_ISREG(info.st_mode) else "expected a regular file"
        problem = "Is a directory" if stat.S_ISDIR(info.st_mode) else problem
        if not problem and file.mark and _mark(info) != file.mark:
            problem = "changed while it was read"
        if problem:
            os.close(handle)
            raise CheckpointError(f"{file.path}: {problem}.")
        return cast("BinaryIO", os.fdopen(handle, "rb", buffering=0))

    def same(self, file: FileEntry, stream: BinaryIO) -> bool:
        """See :class:`Reader`."""
        info = os.fstat(stream.fileno())
        return _mark(info) == file.mark if file.mark else info.st_size == file.size

    def settle(self, stream: BinaryIO) -> None:
        """See :class:`Reader`. What a read-only file system cannot sync is not written there either."""
        with suppress(OSError):
            os.fsync(stream.fileno())


class BucketReader:
    """The objects below a prefix of a bucket: newest versions, read by version id or by ETag."""

    def __init__(self, bucket: SourceBucket, prefix: bytes) -> None:
        self.bucket = bucket
        self.prefix = prefix.strip(b"/")

    @property
    def location(self) -> str:
        """See :class:`Reader`."""
        return bucket_location(self.bucket.name, self.prefix)

    @property
    def name(self) -> str:
        """See :class:`Reader`."""
        return os.fsdecode(self.prefix.rpartition(b"/")[2])

    def listing(self) -> Listing:
        """See :class:`Reader`. A key that no file system could hold is a fault."""
        files, faults = [], []
        start = len(self.prefix) + 1
        with translated(self.location):
            for seen in self.bucket.list(self.prefix + b"/"):
                raw = seen.key[start:]
                if seen.key.endswith(b"/") and not seen.size:
                    continue  # the marker of a folder
                path = path_to_text(raw)
                if any(part in {b"", b".", b".."} for part in raw.split(b"/")):
                    faults.append(f"{path}: an empty part or dots, which no folder could hold")
                    continue
                mark = (seen.etag, seen.modified, seen.size, seen.version or "")
                files.append(FileEntry(path=path, size=seen.size, version=seen.version, mark=mark))
                if len(files) > MOST_FILES:
                    raise CheckpointError(f"holds more than {MOST_FILES} objects, which no checkpoint does.")
        if not files and not faults:
            raise CheckpointError(f"nothing lies below {self.location}.")
        return Listing(files=tuple(files), faults=tuple(faults))

    def read(self, file: FileEntry, start: int, size: int) -> bytes:
        """See :class:`Reader`."""
        with translated(file.path):
            return self.bucket.read_range(
                self._key(file),
                start=start,
                size=min(size, file.size - start),
                version=file.version,
                etag=_etag(file),
            )

    def open(self, file: FileEntry) -> BinaryIO:
        """See :class:`Reader`."""
        with translated(file.path):
            return self.bucket.open(self._key(file), version=file.version, etag=_etag(file))

    def same(self, file: FileEntry, stream: BinaryIO) -> bool:  # noqa: ARG002 - the port's form
        """See :class:`Reader`: every byte came from the listed state, or reading was refused."""
        return True

    def settle(self, stream: BinaryIO) -> None:
        """See :class:`Reader`: what a bucket lists is durable."""

    def _key(self, file: FileEntry) -> bytes:
        return self.prefix + b"/" + text_to_path(file.path)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """What a source calls an error, in the words of a checkpoint or of a store.

    A bucket that does not answer says nothing about what lies in it: a later try may find it whole.
    """
    try:
        yield
    except SourceChangedError as error:
        raise CheckpointError(f"{what} changed while it was read.") from error
    except SourceError as error:
        raise StorageError(error.message.removeprefix("source "), hint=error.hint) from error


def open_reader(place: str | Path, *, s3_options: Mapping[str, str] | None = None) -> Reader:
    """The reader of a folder or an address; :class:`InputError` for an address of another kind.

    ``s3_options`` are endpoint, region and credentials by boto3's names; what is missing comes from its own chain.
    """
    folder = place if isinstance(place, Path) else to_path(place)
    if folder is not None:
        return FolderReader(folder)
    found = to_bucket(str(place))
    if found is None:
        raise InputError("location", str(place), "not the address of a checkpoint", hint=HINT)
    from pretrain_archive.storage import factory  # noqa: PLC0415 - boto3 costs half a second

    return BucketReader(factory.open_bucket(found[0], s3_options=s3_options), found[1])


def reader_of(place: Reader | Path | str) -> Reader:
    """``place`` if it is a reader, else the reader of that folder or address."""
    return open_reader(place) if isinstance(place, str | Path) else place


def wait_granule(files: Sequence[FileEntry]) -> None:
    """Wait until a later write must move the time of every listed local file, a few hundredths of a second at most.

    A write within the same tick of the clock as the one before would else leave the same mark.
    """
    times = [int(file.mark[4]) for file in files if len(file.mark) == 5]
    if times and time.time_ns() - max(times) < GRANULE_SECONDS * 1e9:
        time.sleep(GRANULE_SECONDS)


def _etag(file: FileEntry) -> str:
    return str(file.mark[0]) if file.mark else ""


def _mark(info: os.stat_result) -> Mark:
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
