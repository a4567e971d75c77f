"""SHA-256 of a checkpoint's files, and one digest over them."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from pretrain_archive.artifacts.formats import FileEntry
from pretrain_archive.artifacts.formats.sharded import local
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.kinds import FileDigest
from pretrain_archive.ledger.canonical import digest_of


def files_digest(files: Iterable[FileDigest]) -> str:
    """``sha256:`` over the canonical JSON list of [path, size, sha256], sorted by path."""
    return digest_of(sorted([file.path, str(file.size), file.sha256] for file in files))


def hash_files(folder: Path, entries: Iterable[FileEntry]) -> list[FileDigest]:
    """Hash each file; :class:`CheckpointError` if one is cut, grows or changes while it is read."""
    found = []
    for entry in entries:
        size, sha256 = hash_file(local(folder, entry.path), where=entry.path)
        if size != entry.size:
            raise CheckpointError(f"{entry.path} changed while it was read: {entry.size} bytes, then {size}.")
        found.append(FileDigest(path=entry.path, size=size, sha256=sha256))
    return found


def hash_file(path: Path, *, where: str) -> tuple[int, str]:
    """Size and hex SHA-256 of a regular file; links are not followed. :class:`CheckpointError` otherwise."""
    try:
        with open(path, "rb", opener=_open_no_link) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise CheckpointError(f"{where}: expected a regular file.")
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(file.fileno())
    except OSError as error:
        raise CheckpointError(f"{where}: cannot be read: {error.strerror}.") from error
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise CheckpointError(f"{where} changed while it was read.")
    return after.st_size, digest


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe must not block the reader


def changed_since(folder: Path, files: Sequence[FileDigest]) -> list[str]:
    """Files that are gone or have another size than when they were hashed: a cheap last look."""
    problems = []
    for file in files:
        try:
            size = local(folder, file.path).lstat().st_size
        except OSError as error:
            problems.append(f"{file.path} vanished after it was read: {error.strerror}")
        else:
            if size != file.size:
                problems.append(f"{file.path} changed after it was read: {file.size} bytes, now {size}")
    return problems
