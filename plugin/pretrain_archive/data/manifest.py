"""The manifest of a snapshot: JSON Lines, each line canonical JSON, sorted by the raw bytes of the path.

First line ``{"format", "files", "links", "total_bytes"}``; then per file ``{"path", "sha256", "size"}`` and
per symbolic link ``{"link", "path"}``, names written by :func:`identity.path_to_text`. The digest over the
manifest's bytes stands for the whole content; two trees with the same files give the same bytes.

Format 2 is for sources that keep versions and is else the same: each file has ``"version"``, the id to read it by.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Self, cast

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import Progress, hash_stream, in_order
from pretrain_archive.data.lines import with_header
from pretrain_archive.data.merging import merge
from pretrain_archive.data.tree import Listed, Tree, unreadable
from pretrain_archive.domain.errors import ArchiveError, SourceChangedError, SourceError
from pretrain_archive.domain.identity import path_to_text, text_to_path
from pretrain_archive.ledger.canonical import canonical_bytes

FORMAT = "pretrain-archive/manifest/1"
PINNED = "pretrain-archive/manifest/2"
"""The format in which every file names the version it was read at."""
NAMED = 20
"""How many changed files an error names; their count is always told."""


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
        fields = {"path": self.path, "size": self.size, "sha256": self.sha256}
        return canonical_bytes(fields if self.version is None else fields | {"version": self.version}) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Read a line; ``ValueError``, ``TypeError`` or ``KeyError`` if it is none."""
        fields = json.loads(line)
        if "link" in fields:
            return cls(path=fields["path"], link=fields["link"])
        version = fields.get("version")
        return cls(path=fields["path"], size=fields["size"], sha256=fields["sha256"], version=version)

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


Hashed = Callable[[Listed, Entry], None]


def build(
    tree: Tree, chosen: Filter, *, progress: Progress | None = None, each: Hashed | None = None
) -> Built:
    """Read and hash every chosen file of ``tree`` and return the manifest.

    ``each`` is called on a hashing thread with every file that was read (to copy it). Raises
    ``SourceError`` for an empty or unreadable source and ``SourceChangedError`` naming the files that
    changed between the first listing and the last look at the whole tree.
    """

    def work(listed: Listed) -> tuple[Listed, Entry | None]:
        entry = _read(tree, listed)
        if each is not None and entry is not None and entry.link is None:
            each(listed, entry)
        return listed, entry

    changed: list[str] = []
    files = links = size = pinned = 0
    # The work file has no name: a killed process leaves nothing behind.
    with cast("BinaryIO", tempfile.TemporaryFile()) as spool:
        for listed, entry in in_order(work, tree.list(chosen)):
            if entry is None:
                changed.append(path_to_text(listed.path))
                continue
            spool.write(json.dumps(listed.mark).encode() + b"\t" + entry.line())
            files, links, size, pinned = (
                files + (entry.link is None),
                links + (entry.link is not None),
                size + entry.size,
                pinned + (entry.version is not None),
            )
            if progress is not None:
                progress(files, size)
        changed += _changed_since(tree, chosen, spool)
        _refuse(tree, changed, files)
        form = PINNED if pinned else FORMAT
        return _finish(Header(files=files, links=links, total_bytes=size, format=form), spool)


def read_entries(stream: BinaryIO) -> Iterator[Entry]:
    """Yield the entries of a manifest; ``ArchiveError`` where it is cut, unordered or not one."""
    try:
        yield from _parsed(stream)
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


def _read(tree: Tree, listed: Listed) -> Entry | None:
    """Hash one file; None if it changed between listing and end of reading."""
    text = path_to_text(listed.path)
    if listed.target is not None:
        return Entry(path=text, link=path_to_text(listed.target))
    try:
        with tree.open(listed) as stream:
            digest, size = hash_stream(stream, at_most=listed.size)
            if size != listed.size or not tree.same(listed, stream):
                return None
    except SourceChangedError:
        return None
    except OSError as error:
        raise unreadable(listed.path, error) from error
    return Entry(path=text, size=size, sha256=digest, version=listed.version)


def _changed_since(tree: Tree, chosen: Filter, spool: BinaryIO) -> list[str]:
    """Compare what was read with a fresh listing of the whole tree; return the paths that differ."""
    spool.seek(0)
    read = ((tuple(json.loads(a)), Entry.parse(b)) for a, _, b in (line.partition(b"\t") for line in spool))
    now = tree.list(chosen)
    changed: list[str] = []
    for before, after in merge(read, now, left=lambda pair: pair[1].sort_key(), right=lambda item: item.path):
        if before is None and after is not None:
            changed.append(path_to_text(after.path))
        elif before is not None and (after is None or after.mark != before[0]):
            changed.append(before[1].path)
    return changed


def _refuse(tree: Tree, changed: list[str], files: int) -> None:
    names = tuple(sorted(set(changed)))
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        raise SourceChangedError(
            f"source {tree.uri}: {len(names)} files changed while they were read: "
            f"{', '.join(names[:NAMED])}{more}; no version was made.",
            paths=names,
            hint="Stop what writes there and try again.",
        )
    if not files:
        raise SourceError(
            f"source {tree.uri}: no file is left to read.",
            hint="Check the source and the include and exclude patterns.",
        )


def _finish(header: Header, spool: BinaryIO) -> Built:
    """Put the header before the entries and digest the whole."""
    spool.seek(0)
    file, digest = with_header(header.line(), (line.partition(b"\t")[2] for line in spool))
    return Built(header=header, digest=digest, file=file)
