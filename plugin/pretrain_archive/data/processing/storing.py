"""Put what a rule keeps into the store, and list what it leaves out."""

from __future__ import annotations

import hashlib
import io
import tempfile
from contextlib import closing
from typing import BinaryIO, cast

from pretrain_archive.data import layout
from pretrain_archive.data.hashing import BLOCK
from pretrain_archive.data.keeping import prove
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.processing.packing import packed
from pretrain_archive.data.processing.reading import Checked
from pretrain_archive.data.quality.documents import Shard
from pretrain_archive.domain.errors import SourceChangedError
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.storage.port import ObjectStore


def written(store: ObjectStore, entry: Entry, raw: bytes, packing: str) -> Entry:
    """Keep new text in the place of a whole file, packed as that was."""
    out = io.BytesIO()
    with packed(packing, out) as write:
        write(raw)
    data = out.getvalue()
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    put(store, digest, io.BytesIO(data))
    return Entry(path=entry.path, size=len(data), sha256=digest)


def put(store: ObjectStore, digest: str, data: BinaryIO) -> None:
    """Keep bytes under their digest; what is there already is proved."""
    key = layout.blob_key(digest)
    if not store.put_if_absent(key, data):
        prove(store, key, digest)


def copy(store: ObjectStore, entry: Entry, shard: Shard) -> None:
    """Keep a file of a source that is no copy, if its bytes are still those of the snapshot."""
    key = layout.blob_key(entry.sha256)
    if store.stat(key) is not None:
        prove(store, key, entry.sha256)
        return
    with closing(shard.open()) as opened, cast("BinaryIO", tempfile.TemporaryFile()) as spool:
        checked = Checked(opened)
        while block := checked.read(BLOCK):
            spool.write(block)
        if checked.digest() != entry.sha256:
            raise SourceChangedError(
                f"source file {entry.path}: changed since its snapshot; no version was made.",
                paths=(entry.path,), hint="Make a new snapshot of the source.",
            )  # fmt: skip
        spool.seek(0)
        store.put_if_absent(key, spool)


def list_dropped(out: BinaryIO, path: str, line: int, digest: str, reason: str, detail: str = "") -> None:  # noqa: PLR0917
    """Add a line to the list of what is left out: place, digest and reason, no text."""
    row = {"path": path, "line": line, "sha256": digest, "reason": reason}
    out.write(canonical_bytes(row | ({"detail": detail} if detail else {})) + b"\n")
