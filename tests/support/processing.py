"""Corpora and shorthands for tests of processing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import zstandard
from pydantic import TypeAdapter
from tests.support.data_track import ACTOR, origin, write_tree

from pretrain_archive.data import layout
from pretrain_archive.data.manifest import Entry, read_entries
from pretrain_archive.data.processing.applying import Applied, Applier, apply_steps
from pretrain_archive.data.snapshots import open_manifest
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.domain.processing import Step
from pretrain_archive.storage.port import ObjectStore

STEP: TypeAdapter[Any] = TypeAdapter(Step)


def step(kind: str, **fields: Any) -> Any:
    """A step called after its kind, version 1."""
    return STEP.validate_python({"name": f"{kind}-it", "version": 1, "kind": kind} | fields)


def line(text: str, **more: Any) -> bytes:
    """A record of a list of documents, with odd spaces and a number that no float holds."""
    rest = "".join(f", {json.dumps(key)}:{json.dumps(value)}" for key, value in more.items())
    return (
        f'{{ "n":1.00000000000000000001, "text" : {json.dumps(text, ensure_ascii=False)}{rest}}}\n'.encode()
    )


def pack(name: str, raw: bytes) -> bytes:
    """``raw`` packed as the ending of ``name`` says."""
    if name.endswith(".gz"):
        return gzip.compress(raw[: len(raw) // 2]) + gzip.compress(raw[len(raw) // 2 :])
    return zstandard.compress(raw) if name.endswith(".zst") else raw


def corpus(root: Path, lists: dict[str, list[bytes]], plain: dict[str, bytes] | None = None) -> Path:
    """Lists of documents (name → lines) and plain files below ``root``."""
    files = {name: pack(name, b"".join(lines)) for name, lines in lists.items()} | (plain or {})
    return write_tree(root, {name.encode(): raw for name, raw in files.items()})


def apply(
    store: ObjectStore, snapshot: SnapshotCreated, *steps: Any, ledger: Any = None, **more: Any
) -> list[Applied]:
    """Apply steps; recorded in ``ledger`` if there is one."""
    fields = {"actor": ACTOR, "origin": origin(task_id="process"), "project": "test"} | more
    return apply_steps(store, snapshot, steps, Applier(ledger=ledger, **fields))


def entries(store: ObjectStore, snapshot: SnapshotCreated) -> dict[str, Entry]:
    """The files of a snapshot by path."""
    with open_manifest(store, snapshot.manifest_digest) as stream:
        return {entry.path: entry for entry in read_entries(stream)}


def content(store: ObjectStore, snapshot: SnapshotCreated) -> dict[str, bytes]:
    """The bytes of every file of a snapshot, unpacked."""
    return {path: unpack(path, blob(store, entry.sha256)) for path, entry in entries(store, snapshot).items()}


def blob(store: ObjectStore, digest: str) -> bytes:
    """Stored bytes."""
    with store.open(layout.blob_key(digest)) as stream:
        return stream.read()


def unpack(name: str, raw: bytes) -> bytes:
    """Undo :func:`pack`."""
    if name.endswith(".gz"):
        return gzip.decompress(raw)
    return zstandard.ZstdDecompressor().decompressobj().decompress(raw) if name.endswith(".zst") else raw


def dropped(store: ObjectStore, applied: Applied) -> list[dict[str, Any]]:
    """The list of dropped documents."""
    digest = applied.account.dropped_digest
    assert digest is not None
    with store.open(layout.content_key("dropped", digest, ".jsonl")) as stream:
        return [json.loads(raw) for raw in stream.read().splitlines()[1:]]


def reasons(applied: Applied) -> dict[str, int]:
    """Documents dropped by reason."""
    return {item.reason: item.documents for item in applied.account.dropped}
