"""The manifest of a snapshot: JSON Lines, each line canonical JSON, sorted by the raw bytes of the path.

First line ``{"format", "files", "links", "total_bytes"}``; then per file ``{"path", "sha256", "size"}`` and
per symbolic link ``{"link", "path"}``, names written by :func:`identity.path_to_text`. The digest over the
manifest's bytes stands for the whole content; two trees with the same files give the same bytes.

Format 2 is for sources that keep versions and is else the same: each file has ``"version"``, the id to read it by.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Self

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.identity import text_to_path
from pretrain_archive.ledger.canonical import canonical_bytes

FORMAT = "pretrain-archive/manifest/1"
PINNED = "pretrain-archive/manifest/2"
"""The format in which every file names the version it was read at."""
MAX_SIZE = 2**53 - 1
"""Bytes of a file: what canonical JSON can say exactly."""
NAMED = 20
"""How many changed files an error names; their count is always told."""
_quoted = json.encoder.encode_basestring


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A line of a manifest. ``sha256`` is empty for a link, ``link`` (target as text) None for a file.

    ``version`` is the id of the version that was read, None where the source keeps none.
    """

    path: str
    size: int = 0
    sha256: str = ""
    link: str | None = None
    version: str | None = None

    def line(self) -> bytes:
        """The entry as a line."""
        if self.link is not None:
            return canonical_bytes({"path": self.path, "link": self.link}) + b"\n"
        if self.version is None:
            # The same bytes as canonical JSON has, written several times faster: there are very many lines.
            return f'{{"path":{_quoted(self.path)},"sha256":"{self.sha256}","size":{self.size}}}\n'.encode()
        fields = {"path": self.path, "size": self.size, "sha256": self.sha256, "version": self.version}
        return canonical_bytes(fields) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Read a line; ``ValueError``, ``TypeError`` or ``KeyError`` if it is none."""
        fields = json.loads(line)
        path, link, version = fields["path"], fields.get("link"), fields.get("version")
        # What a line holds may be anything; the checks are the quickest there are, for there are very many lines.
        if type(path) is not str or (link is not None and type(link) is not str):
            raise TypeError(f"path and link are texts, got {str(fields)[:80]}")
        if link is not None:
            return cls(path=path, link=link)
        size, sha256 = fields["size"], fields["sha256"]
        if type(size) is not int or not 0 <= size <= MAX_SIZE or type(sha256) is not str:
            raise ValueError(f"a file has a size and a digest, got {str(fields)[:80]}")
        if version is not None and type(version) is not str:
            raise TypeError(f"a version is a text, got {str(version)[:80]}")
        return cls(path=path, size=size, sha256=sha256, version=version)

    def sort_key(self) -> bytes:
        """The raw bytes of the path: the order of manifests."""
        return text_to_path(self.path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """First line of a manifest; ``format`` is :data:`PINNED` where files name versions."""

    files: int
    links: int
    total_bytes: int
    format: str = FORMAT

    def line(self) -> bytes:
        """The header as a line."""
        return (
            canonical_bytes(
                {
                    "format": self.format,
                    "files": self.files,
                    "links": self.links,
                    "total_bytes": self.total_bytes,
                }
            )
            + b"\n"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """A manifest in an unnamed temporary file, with its digest; close ``file`` when done."""

    header: Header
    digest: str
    file: BinaryIO

    def entries(self) -> Iterator[Entry]:
        """The entries, from the beginning."""
        self.file.seek(0)
        return read_entries(self.file)


def read_entries(stream: BinaryIO) -> Iterator[Entry]:
    """Yield the entries of a manifest; ``ArchiveError`` where it is cut, unordered or not one."""
    try:
        yield from _parsed(stream)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(
            f"manifest cannot be read: {error}.", hint="Verify the snapshot and restore its manifest."
        ) from error


def read_header(stream: BinaryIO) -> Header:
    """Read the first line of a manifest; ``ArchiveError`` if it is none."""
    try:
        fields = json.loads(stream.readline())
        return Header(**{name: fields[name] for name in ("files", "links", "total_bytes", "format")})
    except (ValueError, KeyError, TypeError) as error:
        raise ArchiveError(
            f"manifest cannot be read: {error}.", hint="Verify the snapshot and restore its manifest."
        ) from error


def _parsed(stream: BinaryIO) -> Iterator[Entry]:
    header = json.loads(stream.readline())
    if header["format"] not in {FORMAT, PINNED}:
        raise ValueError(f"format {header['format']!r}, expected {FORMAT!r} or {PINNED!r}")
    seen, last = 0, b""
    for line in stream:
        entry = Entry.parse(line)
        key = entry.sort_key()
        if key <= last:
            raise ValueError(f"entry {entry.path!r} is out of order")
        if (entry.version is not None) != (header["format"] == PINNED and entry.link is None):
            raise ValueError(f"entry {entry.path!r} has version {entry.version!r} in {header['format']!r}")
        seen, last = seen + 1, key
        yield entry
    if seen != header["files"] + header["links"]:
        raise ValueError(f"{seen} entries, expected {header['files'] + header['links']}")
