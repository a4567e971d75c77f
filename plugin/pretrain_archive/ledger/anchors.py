"""Anchors: places outside the database that remember signed checkpoints, so that removal shows.

An anchor keeps checkpoints in the order they were published and never removes one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.ledger.port import SignedCheckpoint
from pretrain_archive.ledger.signing import parse_checkpoint

_LONGEST = 64 * 1024
_SIZE = re.compile(rb'"note": "[^"\\]*\\n(\d{1,18})\\n')


class AnchorError(LedgerError):
    """An anchor cannot be reached or refused a checkpoint."""

    code = "anchor"


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """An entry of an anchor that is not believed yet: the size that it names, and how to read the rest.

    ``size`` is None where the entry names none. ``load`` gives None where the entry is no checkpoint.
    """

    size: int | None
    load: Callable[[], SignedCheckpoint | None]

    def entry(self) -> SignedCheckpoint | None:
        """The checkpoint, None if there is none or it is not over ``size`` records."""
        found = self.load()
        return found if found is not None and found.size == self.size else None


class Anchor(Protocol):
    """Remembers checkpoints. Does not promise: removal, order between anchors, or any judgement of them."""

    @property
    def name(self) -> str:
        """What messages call it, without secrets."""

    def publish(self, checkpoint: SignedCheckpoint) -> None:
        """Remember ``checkpoint`` durably unless it is the newest already; ``AnchorError`` on failure."""

    def latest(self) -> SignedCheckpoint | None:
        """The newest checkpoint, or None if there is none."""

    def entries(self) -> Iterator[SignedCheckpoint]:
        """Every checkpoint, oldest first."""

    def claims(self) -> Iterator[Claim]:
        """Every entry, oldest first, also what is no checkpoint; left out is only a last line that was cut short."""

    def token(self) -> object:
        """A value that is cheap to get and changes when a checkpoint is added; None if that is not cheap."""


def to_line(checkpoint: SignedCheckpoint) -> bytes:
    """One line of an anchor file."""
    entry = {"published_at": utc_now(), "note": checkpoint.text}
    return json.dumps(entry, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def from_line(line: bytes) -> SignedCheckpoint | None:
    """The checkpoint in a line, None for what a crash left behind."""
    try:
        return parse_checkpoint(json.loads(line)["note"])
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None


def to_claim(line: bytes) -> Claim:
    """The claim of a line. The size is read without decoding the line: an anchor has very many."""
    found = _SIZE.search(line)
    if found is not None:
        return Claim(size=int(found[1]), load=partial(from_line, line))
    entry = from_line(line)
    return Claim(size=entry.size if entry else None, load=lambda: entry)


def whole_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines without their end, cut at 64 KiB; a last line without end counts only if it is a checkpoint."""
    while line := stream.readline(_LONGEST):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(_LONGEST)
        if rest or from_line(line) is not None:
            yield line.removesuffix(b"\n")


class FileAnchor:
    """An append-only file of JSON lines, best owned by another user (``chattr +a`` where that exists)."""

    _TAIL = 64 * 1024

    def __init__(self, path: Path) -> None:
        self._path = path if path.suffix == ".jsonl" else path / "checkpoints.jsonl"
        self.name = f"file://{self._path}"

    def publish(self, checkpoint: SignedCheckpoint) -> None:
        """See :class:`Anchor`. Returns when file and folder are on the disk."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                self._append(descriptor, checkpoint)
            finally:
                os.close(descriptor)
            with _folder(self._path.parent) as folder:
                os.fsync(folder)
        except OSError as problem:
            raise AnchorError(f"The anchor {self.name} cannot be written: {problem}.") from problem

    def _append(self, descriptor: int, checkpoint: SignedCheckpoint) -> None:
        newest, whole = self._tail(descriptor)
        if newest == checkpoint:
            os.fsync(descriptor)  # a writer that died may have left it unsynced
            return
        # A torn line of an earlier crash is ended, not repaired: nothing here is ever rewritten.
        data = to_line(checkpoint) if whole else b"\n" + to_line(checkpoint)
        if os.write(descriptor, data) != len(data):
            raise OSError("the line was written in part")
        os.fsync(descriptor)

    def _tail(self, descriptor: int) -> tuple[SignedCheckpoint | None, bool]:
        """The newest checkpoint, and whether the file ends with a whole line."""
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, self._TAIL, max(0, size - self._TAIL))
        whole = not data or data.endswith(b"\n")
        for line in reversed(data.split(b"\n")):
            found = from_line(line)
            if found is not None:
                return found, whole
        return None, whole

    def latest(self) -> SignedCheckpoint | None:
        """See :class:`Anchor`."""
        try:
            with self._path.open("rb") as stream:
                return self._tail(stream.fileno())[0]
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise AnchorError(f"The anchor {self.name} cannot be read: {problem}.") from problem

    def entries(self) -> Iterator[SignedCheckpoint]:
        """See :class:`Anchor`."""
        yield from filter(None, (claim.load() for claim in self.claims()))

    def claims(self) -> Iterator[Claim]:
        """See :class:`Anchor`."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as stream:
                _require_file(descriptor)
                yield from map(to_claim, whole_lines(stream))
        except FileNotFoundError:
            return
        except OSError as problem:
            raise AnchorError(f"The anchor {self.name} cannot be read: {problem}.") from problem

    def token(self) -> object:
        """Identity, length and time of the file."""
        try:
            found = self._path.stat()
        except OSError:
            return "absent"
        return found.st_ino, found.st_size, found.st_mtime_ns


def _require_file(descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError("it is not a regular file")


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
