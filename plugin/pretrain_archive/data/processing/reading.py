"""The documents of a snapshot's file with the bytes that they take, and what is no document."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, cast

from pretrain_archive.data.containers import HEAD, bare_name, is_list, kind_of, looks_like_json_lines
from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.quality.documents import (
    Broken,
    Fields,
    Oversized,
    Shard,
    Text,
    domain_of,
    read_stream,
)
from pretrain_archive.data.quality.readers.base import DamagedError
from pretrain_archive.data.quality.readers.json_lines import read_json_lines
from pretrain_archive.data.quality.readers.packed import unpacked
from pretrain_archive.data.quality.readers.parquet import read_parquet
from pretrain_archive.domain.errors import StorageError

PACKED = ("gzip", "zstd")
PARQUET = "parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Doc:
    """A document: where it stands, the bytes that it takes there, the digest of its text, and its domain.

    ``line`` is 0 for a whole file. ``unit`` is its text, None where a step does not read whole files.
    """

    path: str
    line: int
    size: int
    digest: str
    domain: str
    unit: Text | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """What cannot be a document: ``reason`` is counted, ``detail`` is listed; blank lines are 0 documents."""

    path: str
    line: int
    reason: str
    documents: int
    size: int
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """How a file holds documents: ``whole`` (one), ``lines`` (JSON Lines) or ``rows`` (CSV, or Parquet by packing)."""

    kind: Literal["whole", "lines", "rows"]
    packing: str = ""


def form_of(shard: Shard) -> Form:
    """The form of a file; its beginning is read only where the name leaves a doubt."""
    named, bare = kind_of(shard.path, b""), bare_name(shard.path)
    if not is_list(bare) and named not in {*PACKED, "parquet"}:
        return Form(kind="whole")
    head = _head(shard)
    kind = kind_of(shard.path, head)
    if kind == "parquet" or (kind not in PACKED and bare.lower().endswith(".parquet")):
        return Form(kind="rows", packing=PARQUET)
    if bare.lower().endswith((".csv", ".parquet")):
        return Form(kind="rows")
    if kind not in PACKED:
        return Form(kind="lines" if is_list(bare) and not kind else "whole")
    if is_list(bare) or looks_like_json_lines(bare, _head(shard, kind)):
        return Form(kind="lines", packing=kind)
    return Form(kind="whole", packing=kind)


def packing_of(shard: Shard) -> str:
    """How a file is packed by its first bytes, whatever its name says; empty if it is not."""
    kind = kind_of(shard.path, _head(shard))
    return kind if kind in PACKED else ""


def documents(entry: Entry, shard: Shard, form: Form, *, texts: bool, fields: Fields) -> Iterator[Doc | Lost]:
    """Yield what a file holds, in order. A whole file is read only with ``texts``.

    ``StorageError`` if bytes that are read are not those of the manifest.
    """
    if form.kind == "lines":
        yield from _of_lines(entry, shard, form, fields)
    elif form.kind == "rows":
        with closing(spooled(entry, shard)) as spool:
            yield from of_rows(entry, spool, fields)
    elif texts:
        yield _of_whole(entry, shard, form, fields)
    else:
        yield Doc(path=entry.path, line=0, size=entry.size, digest=entry.sha256, domain=domain_of(entry.path))


def _of_whole(entry: Entry, shard: Shard, form: Form, fields: Fields) -> Doc | Lost:
    with closing(shard.open()) as opened:
        checked = Checked(opened)
        stream = cast("BinaryIO", io.BufferedReader(checked, buffer_size=BLOCK))
        unit = next(iter(read_stream(shard.path, stream, fields=fields)), None)
        # What is said of other bytes than the snapshot's is no reason to keep or to drop.
        if checked.digest() != entry.sha256:
            raise _damaged(entry)
    if not isinstance(unit, Text) or not unit.raw:
        broken = unit if isinstance(unit, Broken) else None
        reason = f"not text: {broken.kind}" if broken else "empty"
        if isinstance(unit, Oversized):
            reason = "oversized"
        detail = broken.reason if broken else reason
        return Lost(path=entry.path, line=0, reason=reason, documents=1, size=entry.size, detail=detail)
    whole = not form.packing and len(unit.raw) == entry.size
    digest = entry.sha256 if whole else _sha256(unit.raw)
    return Doc(path=entry.path, line=0, size=entry.size, digest=digest, domain=unit.domain, unit=unit)


def spooled(entry: Entry, shard: Shard) -> BinaryIO:
    """A copy of a file that seeks, whose bytes are those of the manifest; the caller closes it."""
    spool = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - handed on
    with closing(shard.open()) as opened:
        checked = Checked(opened)
        while block := checked.read(BLOCK):
            spool.write(block)
        if checked.digest() != entry.sha256:
            spool.close()
            raise _damaged(entry)
    spool.seek(0)
    return spool


def of_rows(entry: Entry, spool: BinaryIO, fields: Fields) -> Iterator[Doc | Lost]:
    """The documents of a Parquet file, by row; a document takes the bytes of its text."""
    # The reader closes what it reads from; the copy is read again afterwards.
    twin = os.fdopen(os.dup(spool.fileno()), "rb")
    for unit in read_parquet(entry.path, cast("BinaryIO", twin), fields):
        if isinstance(unit, Text):
            yield Doc(
                path=entry.path, line=unit.line, size=len(unit.raw), digest=_sha256(unit.raw), domain=unit.domain,
                unit=unit,
            )  # fmt: skip
        else:
            yield Lost(path=entry.path, line=unit.line, reason=f"broken: {unit.kind}", documents=1, size=0,
                       detail=unit.reason)  # fmt: skip


def _of_lines(entry: Entry, shard: Shard, form: Form, fields: Fields) -> Iterator[Doc | Lost]:
    taken = broken = 0
    with closing(shard.open()) as opened:
        checked = Checked(opened)
        buffered = cast("BinaryIO", io.BufferedReader(checked, buffer_size=BLOCK))
        lines = _Counted(unpacked(form.packing, buffered) if form.packing else buffered)
        try:
            for unit in read_json_lines(entry.path, cast("BinaryIO", lines), fields):
                if isinstance(unit, Text):
                    taken += len(unit.record)
                    yield Doc(
                        path=entry.path, line=unit.line, size=len(unit.record), digest=_sha256(unit.raw),
                        domain=unit.domain, unit=unit,
                    )  # fmt: skip
                else:
                    broken += 1
                    yield Lost(path=entry.path, line=unit.line, reason=f"broken: {unit.kind}", documents=1, size=0,
                               detail=unit.reason)  # fmt: skip
        except DamagedError as error:
            broken += 1
            yield Lost(path=entry.path, line=0, reason=f"broken: {error.kind}", documents=1, size=0,
                       detail=str(error))  # fmt: skip
        if checked.digest() != entry.sha256:
            raise _damaged(entry)
    if rest := lines.count - taken:
        # The reader tells where a broken record stands, not how long it is: their bytes are counted together.
        reason = "bytes of broken records" if broken else "blank lines"
        yield Lost(path=entry.path, line=0, reason=reason, documents=0, size=rest)


def _head(shard: Shard, packing: str = "") -> bytes:
    with closing(shard.open()) as opened:
        stream = unpacked(packing, opened) if packing else opened
        head = b""
        try:
            while len(head) < HEAD and (block := stream.read(HEAD - len(head))):
                head += block
        except DamagedError:
            return head
        return head


def _sha256(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def _damaged(entry: Entry) -> StorageError:
    return StorageError(
        f"{entry.path}: its bytes are not those of the snapshot ({entry.sha256}).",
        hint="Verify the snapshot; restore the object, or make a new version of the source.",
    )


class Checked(io.RawIOBase):
    """A stream that hashes everything that is read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` and hash what it gets."""
        block = self._stream.read(len(buffer))
        self._digest.update(block)
        buffer[: len(block)] = block
        return len(block)

    def digest(self) -> str:
        """Read to the end and return the digest of the whole."""
        while block := self._stream.read(BLOCK):
            self._digest.update(block)
        return "sha256:" + self._digest.hexdigest()


class _Counted:
    """The lines of a stream, and how many bytes they were."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.count = 0

    def readline(self, limit: int = -1) -> bytes:
        """The next line, or its first ``limit`` bytes."""
        line = self._stream.readline(limit)
        self.count += len(line)
        return line
