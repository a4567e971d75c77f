"""SHA-256 of a checkpoint's files, several at a time, and one digest over them.

hashlib drops the interpreter's lock for large blocks, so that threads hash on as many cores. The largest files begin
first: else one of them could be left for the end, alone. Memory is one block for each thread.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts.hash_stamps import HashStamps
from pretrain_archive.artifacts.readers import BucketReader, FileEntry, Reader, reader_of
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.kinds import FileDigest
from pretrain_archive.ledger.canonical import digest_of

BLOCK = 1 << 20
"""Bytes per read: calls are rare, and a block stays in the processor's cache."""

MOST_THREADS = 8
TOLD_SECONDS = 0.25

Progress = Callable[[int, int], None]
"""Called with files and bytes done so far, from the calling thread only."""


def files_digest(files: Iterable[FileDigest]) -> str:
    """``sha256:`` over the canonical JSON list of [path, size, sha256], sorted by path."""
    return digest_of(sorted([file.path, str(file.size), file.sha256] for file in files))


def threads() -> int:
    """Threads to hash with: at least two, as many as there are cores for this process, at most eight."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_THREADS, max(2, cores))


@dataclass(frozen=True, kw_only=True, slots=True)
class Hashed:
    """The digests in the given order; how many files were read for them, and how many were known by their stamps."""

    files: list[FileDigest]
    read: int
    known: int

    def told(self) -> str:
        """How the files were checked, for a record."""
        if not self.known:
            return f"every byte of {self.read} files read and hashed with SHA-256"
        return (
            f"{self.read} files read and hashed with SHA-256; {self.known} not written since they were (device, inode, "
            "size, mtime and ctime, or version id in a bucket)"
        )


def hash_files(
    place: Path | Reader | str, entries: Iterable[FileEntry], *, progress: Progress | None = None
) -> list[FileDigest]:
    """Read and hash each file, in the given order. See :func:`hash_checkpoint`."""
    return hash_checkpoint(place, entries, progress=progress).files


def hash_checkpoint(
    place: Path | Reader | str,
    entries: Iterable[FileEntry],
    *,
    stamps: HashStamps | None = None,
    progress: Progress | None = None,
    durable: bool = False,
) -> Hashed:
    """Hash each file; :class:`CheckpointError` if one is cut, grows or changes meanwhile.

    Files that ``stamps`` know are not opened. With ``durable`` each file's bytes are on the disk when this returns.
    """
    reader, files = reader_of(place), list(entries)
    location = reader.location
    known = {file.path: stamps.known(location, file) for file in files} if stamps else {}
    unknown = [file for file in files if known.get(file.path) is None]
    began = time.time_ns()
    found = _hash_all(reader, unknown, progress, durable=durable)
    if stamps is not None:
        for file in unknown:
            stamps.note(location, file, found[file.path], began_ns=began)
        stamps.keep()
    digests = [
        FileDigest(
            path=file.path,
            size=file.size,
            sha256=known.get(file.path) or found[file.path],
            version=file.version,
        )
        for file in files
    ]
    return Hashed(files=digests, read=len(unknown), known=len(files) - len(unknown))


class _Counter:
    """Bytes that threads have done; added to by each, read by one."""

    def __init__(self, progress: Progress | None, files: Sequence[FileEntry]) -> None:
        self._lock = threading.Lock()
        self._progress = progress
        self.size = 0
        self.stopped = False
        expect = getattr(progress, "expect", None)
        if expect is not None:
            expect(len(files), sum(file.size for file in files))

    def add(self, size: int) -> None:
        with self._lock:
            self.size += size

    def tell(self, files: int) -> None:
        if self._progress is not None:
            self._progress(files, self.size)


def hash_each(
    place: Path | Reader | str,
    entries: Iterable[FileEntry],
    *,
    stamps: HashStamps | None = None,
    progress: Progress | None = None,
) -> dict[str, str | CheckpointError]:
    """The hex SHA-256 of each file by path, or why it has none; files that ``stamps`` know are not opened."""
    reader, files = reader_of(place), list(entries)
    known = {file.path: stamps.known(reader.location, file) for file in files} if stamps else {}
    found: dict[str, str | CheckpointError] = {path: digest for path, digest in known.items() if digest}
    unknown = [file for file in files if file.path not in found]
    found.update(_results(reader, unknown, progress, durable=False, stop=False))
    return found


def _hash_all(
    reader: Reader, files: Sequence[FileEntry], progress: Progress | None, *, durable: bool
) -> dict[str, str]:
    digests: dict[str, str] = {}
    for path, result in _results(reader, files, progress, durable=durable, stop=True):
        if isinstance(result, CheckpointError):
            raise result
        digests[path] = result
    return digests


def _results(
    reader: Reader, files: Sequence[FileEntry], progress: Progress | None, *, durable: bool, stop: bool
) -> Iterator[tuple[str, str | CheckpointError]]:
    """Digest or fault of each file as it is done; with ``stop`` a fault ends the others' work."""
    counter, done_files = _Counter(progress, files), 0
    largest = sorted(files, key=lambda file: file.size, reverse=True)
    count = MOST_THREADS if isinstance(reader, BucketReader) else threads()
    with ThreadPoolExecutor(min(count, len(files)) or 1, thread_name_prefix="hash") as pool:
        pending: dict[Future[str], str] = {
            pool.submit(_hash_one, reader, file, counter, durable): file.path for file in largest
        }
        left = set(pending)
        try:
            while left:
                done, left = wait(left, timeout=TOLD_SECONDS, return_when=FIRST_COMPLETED)
                done_files += len(done)
                counter.tell(done_files)
                for future in done:
                    fault = future.exception()
                    if fault is not None and not isinstance(fault, CheckpointError):
                        raise fault
                    counter.stopped = counter.stopped or (stop and fault is not None)
                    yield pending[future], fault or future.result()
        finally:
            counter.stopped = True
            for future in left:
                future.cancel()


def _hash_one(reader: Reader, file: FileEntry, counter: _Counter, durable: bool) -> str:
    digest, buffer, size = hashlib.sha256(), memoryview(bytearray(min(BLOCK, file.size + 1))), 0
    with reader.open(file) as stream:
        # A file that grows faster than it is read has no end.
        while not counter.stopped and size <= file.size and (got := stream.readinto(buffer)):  # type: ignore[attr-defined]
            digest.update(buffer[:got])
            size += got
            counter.add(got)
        if size != file.size or not reader.same(file, stream):
            raise CheckpointError(f"{file.path} changed while it was read: {file.size} bytes, then {size}.")
        if durable:
            reader.settle(stream)
    return digest.hexdigest()


def changed_since(place: Path | Reader | str, files: Sequence[FileEntry]) -> list[str]:
    """What is not as in an earlier listing: files that are gone, came or were written, told one by one."""
    try:
        now = {file.path: file for file in reader_of(place).listing().files}
    except CheckpointError as error:
        return [error.message.rstrip(".")]
    before = {file.path: file for file in files}
    problems = [f"{path} vanished after it was read" for path in sorted(before.keys() - now.keys())]
    problems += [f"{path} came after the others were read" for path in sorted(now.keys() - before.keys())]
    for path in sorted(before.keys() & now.keys()):
        old, new = before[path], now[path]
        if old.size != new.size:
            problems.append(f"{path} changed after it was read: {old.size} bytes, now {new.size}")
        elif old.mark and old.mark != new.mark:
            problems.append(f"{path} changed after it was read: it was written again")
    return problems
