"""Stable ids, references at pinned versions, and names that are bytes.

UUIDv7 follows RFC 9562 section 5.7: 48 bits of Unix milliseconds, then random bits. Ids sort by time.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

RUN_UID = re.compile(r"run_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REF_TYPE = re.compile(r"[a-z_]+")


def uuid7() -> uuid.UUID:
    """Return a new UUID version 7."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)


def new_id(prefix: str) -> str:
    """Return ``prefix_`` followed by a UUIDv7, for example ``run_0198…``."""
    return f"{prefix}_{uuid7()}"


def utc_now() -> str:
    """Return the time as RFC 3339 in UTC with microseconds, for example ``2026-11-29T10:00:00.000000Z``."""
    return format_time(datetime.now(UTC))


def format_time(moment: datetime) -> str:
    """Format an aware ``moment`` as RFC 3339 in UTC with microseconds; refuse a naive one."""
    if moment.tzinfo is None:
        raise ValueError(f"a time needs a zone, got {moment!r}")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """Read what :func:`format_time` wrote, or any RFC 3339 time with a zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"a time needs a zone, got {text!r}")
    return moment


@dataclass(frozen=True, kw_only=True, slots=True)
class Ref:
    """A thing at a pinned version: ``type:id@version``; the version is empty for what has none.

    An id that holds ``@`` (a person's address) and has no version is written with an ``@`` at its end.

    Types in use: source, snapshot, split, run, configuration, environment, checkpoint, evaluation,
    candidate, release, package, decision, person, tombstone.
    """

    type: str
    id: str
    version: str = ""

    def __post_init__(self) -> None:
        if not REF_TYPE.fullmatch(self.type):
            raise ValueError(f"a reference type is lower-case letters, got {self.type!r}")
        if not self.id or "@" in self.version:
            raise ValueError(
                f"a reference needs an id and a version without '@', got {self.id!r}@{self.version!r}"
            )

    def __str__(self) -> str:
        pinned = self.version or "@" in self.id
        return f"{self.type}:{self.id}@{self.version}" if pinned else f"{self.type}:{self.id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``type:id@version``; an id may hold ``:`` and ``@``, a version no ``@``."""
        kind, _, rest = text.partition(":")
        name, at, version = rest.rpartition("@")
        return cls(type=kind, id=name if at else rest, version=version if at else "")


def path_to_text(raw: bytes) -> str:
    """Return a printable, reversible name for a path given as bytes.

    UTF-8 names stay readable; ``%``, control characters and bytes that are not UTF-8 become ``%XX``, so
    two different names never look the same and every name fits JSON, SQL, XCom and a log line.
    """
    decoded = raw.decode("utf-8", "surrogateescape")
    if "%" not in decoded and decoded.isprintable():
        return decoded
    out: list[str] = []
    for char in decoded:
        code = ord(char)
        if 0xDC80 <= code <= 0xDCFF:
            out.append(f"%{code - 0xDC00:02X}")
        elif char == "%" or not char.isprintable():
            out.append("".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass")))
        else:
            out.append(char)
    return "".join(out)


def text_to_path(text: str) -> bytes:
    """Undo :func:`path_to_text`; raise ``ValueError`` on a broken escape."""
    encoded = text.encode("utf-8")
    if b"%" not in encoded:
        return encoded
    raw = bytearray()
    at = 0
    while at < len(encoded):
        if encoded[at] == 0x25:
            pair = encoded[at + 1 : at + 3]
            if not re.fullmatch(rb"[0-9A-F]{2}", pair):
                raise ValueError(f"broken escape in path {text!r}")
            raw.append(int(pair, 16))
            at += 3
        else:
            raw.append(encoded[at])
            at += 1
    return bytes(raw)
