"""Immutable data versions: read everything, keep the content, and name it by the next free number.

Order of writing: blobs, manifest, version document, record. A process that dies leaves content that no
version names; the next try finds and uses it. Every byte is read every time: size and time are never taken
as proof that a file is unchanged, nor that an object, stored before, is whole when a new version rests on it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import BinaryIO, Literal

from pretrain_archive.data import layout
from pretrain_archive.data.building import build
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import Progress
from pretrain_archive.data.keeping import Copier, prove
from pretrain_archive.data.manifest import Built, Entry, read_entries
from pretrain_archive.data.merging import merge
from pretrain_archive.data.tree import Place, tree_of
from pretrain_archive.domain.errors import ArchiveError, InputError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/snapshot/1"
Mode = Literal["copy", "reference"]
_NO_CHANGES = {"added": 0, "removed": 0, "modified": 0}


def create_snapshot(
    store: ObjectStore, ledger: Ledger | None, *, name: str, source_root: Place, mode: Mode,
    actor: Actor, origin: Origin, stream: str = "", include: Sequence[str] = (), exclude: Sequence[str] = (),
    source_id: str | None = None, source_uri: str = "", attempt: int = 0, progress: Progress | None = None,
) -> SnapshotCreated:  # fmt: skip
    """Snapshot the files of ``source_root``, a tree or the path of a folder, as a version of ``name``, and record it.

    ``copy`` keeps every file's bytes in ``store`` (once per content); ``reference`` keeps the manifest only.
    Content equal to the newest version gives that version again with ``unchanged``. ``stream`` is the run's
    uid or, by default, ``data/NAME``; ``ledger`` None records nothing. Raises ``InputError``, ``SourceError``,
    ``SourceChangedError`` and ``StorageError``; then no version exists.
    """
    layout.check_name(name)
    if mode not in ("copy", "reference"):
        raise InputError("snapshot mode", mode, "neither copy nor reference")
    tree = tree_of(source_root)
    uri = source_uri or tree.uri
    keep = Copier(store, tree) if mode == "copy" else None
    chosen = Filter(include=tuple(include), exclude=tuple(exclude))
    built = build(tree, chosen, progress=progress, each=keep)
    with built.file:
        wish = SnapshotCreated(
            name=name, version=1, manifest_digest=built.digest,
            manifest_uri=store.location(manifest_key(built.digest)), file_count=built.header.files,
            total_bytes=built.header.total_bytes, parent=None, unchanged=False, mode=mode, source_id=source_id,
            source_uri=uri, include=list(include), exclude=list(exclude),
        )  # fmt: skip
        payload = _unchanged(_parent(store, name), wish) or _make(store, wish, built, keep)
    if ledger is not None:
        where = stream or f"data/{name}"
        payload = _record(ledger, payload, stream=where, attempt=attempt, actor=actor, origin=origin)
    return payload


def open_version(store: ObjectStore, name: str, version: int | None = None) -> SnapshotCreated:
    """Read a version's document, by default the newest; ``InputError`` if there is none."""
    number = latest_version(store, name) if version is None else version
    key = layout.version_key(name, number or 1)
    if not number or store.stat(key) is None:
        known = ", ".join(str(v) for v in versions(store, name)) or "none"
        raise InputError("snapshot", f"{name}@{number or ''}".rstrip("@"), f"not there (versions: {known})")
    with store.open(key) as stream:
        raw = stream.read()
    try:
        return _parsed(raw, name, number)
    except (ValueError, KeyError, TypeError) as error:
        raise ArchiveError(
            f"{store.location(key)}: not a snapshot's document: {error}.",
            hint="Restore the object from a copy.",
        ) from error


def _parsed(raw: bytes, name: str, version: int) -> SnapshotCreated:
    document = json.loads(raw)
    if document.pop("format") != FORMAT or (document["name"], document["version"]) != (name, version):
        raise ValueError("it is the document of something else")
    return SnapshotCreated(**document, unchanged=False)


def versions(store: ObjectStore, name: str) -> list[int]:
    """The versions of ``name``, ascending."""
    prefix = f"snapshots/{layout.check_name(name)}/"
    names = (info.key.removeprefix(prefix).removesuffix(".json") for info in store.list(prefix))
    return sorted(int(text) for text in names if text.isascii() and text.isdigit())


def latest_version(store: ObjectStore, name: str) -> int | None:
    """The newest version of ``name``, or None."""
    return max(versions(store, name), default=None)


def open_manifest(store: ObjectStore, manifest_digest: str) -> BinaryIO:
    """Open a stored manifest for :func:`manifest.read_entries`; the caller closes it."""
    return store.open(manifest_key(manifest_digest))


def manifest_key(digest: str) -> str:
    """The key of a manifest."""
    return layout.content_key("manifests", digest, ".jsonl")


def snapshot_ref(snapshot: SnapshotCreated) -> Ref:
    """``snapshot:NAME@VERSION``."""
    return Ref(type="snapshot", id=snapshot.name, version=str(snapshot.version))


def diff(store: ObjectStore, left: SnapshotCreated, right: SnapshotCreated) -> dict[str, int]:
    """Count what ``right`` added, removed and modified against ``left``."""
    counts = dict(_NO_CHANGES)
    with (
        open_manifest(store, left.manifest_digest) as old,
        open_manifest(store, right.manifest_digest) as new,
    ):
        for a, b in merge(read_entries(old), read_entries(new), left=Entry.sort_key, right=Entry.sort_key):
            if a is None:
                counts["added"] += 1
            elif b is None:
                counts["removed"] += 1
            elif a != b:
                counts["modified"] += 1
    return counts


def _parent(store: ObjectStore, name: str) -> SnapshotCreated | None:
    number = latest_version(store, name)
    return None if number is None else open_version(store, name, number)


def _unchanged(newest: SnapshotCreated | None, wish: SnapshotCreated) -> SnapshotCreated | None:
    """The newest version, if it already says the same."""
    if newest is None or (newest.manifest_digest, newest.mode) != (wish.manifest_digest, wish.mode):
        return None
    same = wish.model_dump(include={"source_id", "source_uri", "include", "exclude"})
    return newest.model_copy(update={"unchanged": True, "changes": _NO_CHANGES, **same})


def _make(store: ObjectStore, wish: SnapshotCreated, built: Built, keep: Copier | None) -> SnapshotCreated:
    """Prove what was stored before, store the manifest, and take the next free version for ``wish``."""
    if keep is not None:
        keep.prove()
    key = manifest_key(built.digest)
    built.file.seek(0)
    if not store.put_if_absent(key, built.file):
        prove(store, key, built.digest)
    # Looked up once a round: a version that another writer made in between must not become a parent unseen.
    while not (same := _unchanged(parent := _parent(store, wish.name), wish)):
        changes = diff(store, parent, wish) if parent else {"added": built.header.files + built.header.links}
        payload = wish.model_copy(
            update={
                "version": parent.version + 1 if parent else 1,
                "parent": str(snapshot_ref(parent)) if parent else None,
                "changes": _NO_CHANGES | changes,
            }
        )
        document = {"format": FORMAT, **payload.to_json()}
        del document["unchanged"]
        key = layout.version_key(wish.name, payload.version)
        if store.put_if_absent(key, io.BytesIO(canonical_bytes(document))):
            return payload
    return same


def _record(
    ledger: Ledger, payload: SnapshotCreated, *, stream: str, attempt: int, actor: Actor, origin: Origin
) -> SnapshotCreated:
    subject = snapshot_ref(payload)
    edges = []
    if payload.source_id:
        source = Ref(type="source", id=payload.source_id)
        edges.append(Edge(subject=subject, relation=Relation.WAS_DERIVED_FROM, object=source))
    if payload.parent and not payload.unchanged:
        parent = Ref.parse(payload.parent)
        edges.append(Edge(subject=subject, relation=Relation.WAS_DERIVED_FROM, object=parent))
    if stream.startswith("run_"):
        edges.append(Edge(subject=Ref(type="run", id=stream), relation=Relation.USED, object=subject))
    draft = Draft(
        stream=stream,
        kind="snapshot.created",
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        attempt=attempt,
        edges=tuple(edges),
    )
    for record in ledger.records(streams=[stream], kinds=["snapshot.created"]):
        # The same step was written before and its answer lost: what it said then stands.
        if record.origin == origin and record.attempt == attempt:
            before = SnapshotCreated(**record.payload)
            if snapshot_ref(before) == snapshot_ref(payload):
                return before
    return SnapshotCreated(**ledger.append([draft])[0].payload)
