"""Read an object to its end although connections break."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

from pretrain_archive.domain.errors import SourceError

BLOCK = 1 << 20
RESUMES = 5
"""How often in a row reading goes on where a connection broke, without a byte in between."""
PAUSE = 0.2
"""Seconds before the second of these tries; doubled for each further one."""

Answer = dict[str, Any]
"""``Body`` (a stream), ``ContentLength``, and where there are any ``ContentRange``, ``ETag`` and ``VersionId``."""
Get = Callable[[int, str | None, str], Answer]
"""Asks for the bytes from a position, at a version (None: the newest) and an ETag ('': any)."""


class Resuming(io.RawIOBase):
    """An object's bytes, from one state of it, over as many connections as it takes."""

    def __init__(self, get: Get, *, where: str, version: str | None, etag: str) -> None:
        self._get = get
        self._where = where
        self._version = version
        self._etag = etag
        self._at = 0
        self._size = -1
        self._body: Any = None

    def connect(self) -> None:
        """Ask for the bytes from the one reached; the first answer fixes size, version and ETag."""
        answer = self._get(self._at, self._version, self._etag)
        if "ContentLength" not in answer:
            answer["Body"].close()
            raise self._broken("the service does not say how many bytes there are")
        size = self._at + answer["ContentLength"]
        started = not self._at or str(answer.get("ContentRange", "")).startswith(f"bytes {self._at}-")
        if self._size not in {-1, size} or not started:
            answer["Body"].close()
            raise SourceError(
                f"source {self._where}: the service does not go on at byte {self._at}.",
                hint="Try again on a steadier connection.",
            )
        self._size, self._body = size, answer["Body"]
        self._etag = self._etag or answer.get("ETag", "")
        if self._version is None:
            self._version = answer.get("VersionId")

    def readable(self) -> bool:
        """True: it is read from front to end."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as one block goes; ``SourceError`` where reading cannot go on."""
        tries = 0
        while self._at < self._size:
            try:
                block = self._body.read(min(len(buffer), self._size - self._at))
            except Exception as error:  # noqa: BLE001 - urllib3 and botocore raise unrelated types
                block, problem = b"", error
            else:
                problem = EOFError(f"{self._size - self._at} bytes are missing at the end")
            if block:
                buffer[: len(block)] = block
                self._at += len(block)
                return len(block)
            self._take_up(tries, problem)
            tries += 1
        return self._ended()

    def readall(self) -> bytes:
        """The bytes to the end, in larger blocks than the library's own of 8 KiB."""
        return b"".join(iter(lambda: self.read(BLOCK), b""))

    def _ended(self) -> int:
        # The client compares the service's own checksum, where there is one, with what it read at the very end.
        try:
            if self._body.read(1):
                problem = "more bytes than announced"
            else:
                return 0
        except Exception as error:  # noqa: BLE001 - as above
            problem = str(error)
        raise self._broken(problem)

    def _take_up(self, tries: int, problem: Exception) -> None:
        self._body.close()
        if tries >= RESUMES:
            raise self._broken(str(problem)) from problem
        if tries:
            time.sleep(PAUSE * 2 ** (tries - 1))
        self.connect()

    def _broken(self, problem: str) -> SourceError:
        return SourceError(
            f"source {self._where}: reading broke off at byte {self._at} of "
            f"{self._size}: {problem.rstrip('.')}.",
            hint="Try again.",
        )

    def close(self) -> None:
        """Close the connection too."""
        if not self.closed and self._body is not None:
            self._body.close()
        super().close()
