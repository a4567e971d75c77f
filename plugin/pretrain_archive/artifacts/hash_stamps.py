"""Which files of checkpoints need not be hashed again: those in the very state in which they were hashed before.

A local file's state is device, inode, size, modification time and change time. It is taken as proof only on file
systems of :mod:`storage.devices`, and only if the change time lay more than :data:`AGE_NS` before the hashing began: a
write within the clock's granularity of the hashing could else carry the same stamp, and such a file is hashed anew. The
change time cannot be set back, so an edit that restores size and modification time is read. An object's state is its
address, ETag, size and version id, and only a version id proves it: an ETag is no digest.

Stamps are a cache, bound to host and boot, in a folder and a file of this user's alone: whoever else could write them
could have a digest recorded that nothing was hashed to. They are no evidence. Without them all is read. A program that
goes on writing through a memory map moves the change time only when the page is written back.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pretrain_archive.artifacts.readers import FileEntry
from pretrain_archive.storage.devices import this_boot, trusted_devices

FORMAT = "pretrain-archive/checkpoint-stamps/1"
AGE_NS = 2_000_000_000
"""Two seconds: the coarsest clock of a file system that is still in use."""

MOST = 50_000
"""Stamps in one store, about 10 MB; the ones that were used least recently go first."""

MOST_BYTES = 64 << 20
HEX = re.compile(r"[0-9a-f]{64}")
LEFT_SECONDS = 3600
NAME = "checkpoint-stamps.json"
LOCAL_PARTS = 5
CLOCK_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class HashStamps:
    """The stamps in ``folder``, ``of`` one run or the like; :meth:`keep` writes what was noted since."""

    def __init__(self, folder: Path, *, of: str = "") -> None:
        self._place = folder / (f"{of}.{NAME}" if of else NAME)
        self._bound = {"format": FORMAT, **this_boot()}
        self._devices = trusted_devices()
        self._known = self._load()
        self._noted = False

    def known(self, location: str, file: FileEntry) -> str | None:
        """The hex SHA-256 of a file that need not be read, else None."""
        key = _key(location, file)
        found = self._known.pop(key, None) if key else None
        if found is not None:
            self._known[key] = found  # at the end: used last
        return found

    def note(self, location: str, file: FileEntry, sha256: str, *, began_ns: int) -> None:
        """Keep the digest of a file that was in this state before and after its hashing, begun at ``began_ns``."""
        key = _key(location, file)
        if not key or not self._trusted(file, began_ns):
            return
        self._known.pop(key, None)
        self._known[key] = sha256
        self._noted = True

    def keep(self) -> None:
        """Write the stamps, whole or not at all; what cannot be written is only a cache less."""
        if not self._noted:
            return
        while len(self._known) > MOST:
            self._known.pop(next(iter(self._known)))
        body = json.dumps(self._known)
        document = json.dumps(self._bound | {"digest": _digest(body), "stamps": body})
        with suppress(OSError):
            self._place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._place.parent, prefix=".stamps-", delete=False, encoding="utf-8"
            ) as draft:
                draft.write(document)
                draft.flush()
                os.fsync(draft.fileno())
            Path(draft.name).replace(self._place)
            self._noted = False
            self._clean()

    def _clean(self) -> None:
        """Remove what a writer left that was killed, and stamps of an earlier boot, which count no more."""
        now = time.time()
        for pattern, most in ((".stamps-*", LEFT_SECONDS), (f"*.{NAME}", time.clock_gettime(CLOCK_BOOTTIME))):
            for left in self._place.parent.glob(pattern):
                if now - left.stat().st_mtime > most:
                    left.unlink()

    def _trusted(self, file: FileEntry, began_ns: int) -> bool:
        if len(file.mark) == LOCAL_PARTS:
            return file.mark[0] in self._devices and int(file.mark[4]) + AGE_NS < began_ns
        # Where versioning is suspended the version "null" is written over in place.
        return file.version not in {None, "", "null"}

    def _load(self) -> dict[str, str]:
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            with os.fdopen(os.open(self._place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
                info = os.fstat(stream.fileno())
                ours = info.st_uid == os.geteuid() and not info.st_mode & 0o022
                raw = stream.read(MOST_BYTES + 1) if ours else b""
            document = json.loads(raw) if len(raw) <= MOST_BYTES else None
            if isinstance(document, Mapping) and self._bound.items() <= document.items():
                body = document["stamps"]
                if document["digest"] == _digest(body):
                    return {
                        key: sha256
                        for key, sha256 in json.loads(body).items()
                        if isinstance(sha256, str) and HEX.fullmatch(sha256)
                    }
        return {}


def _key(location: str, file: FileEntry) -> str:
    """What must be equal for a file to be the same; a local file is its inode, wherever it is named from."""
    if not file.mark:
        return ""
    where = [] if len(file.mark) == LOCAL_PARTS else [location, file.path]
    return json.dumps([*where, *file.mark])


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
