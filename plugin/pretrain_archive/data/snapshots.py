"""Immutable data versions: read everything, keep the content, and name it by the next free number.

Order of writing: blobs, manifest, version document, record. A process that dies leaves content that no
version names; the next try finds and uses it. Every byte is read every time, unless the caller allows stamps
(:mod:`stamps`); size and time alone are never taken as proof that a file is unchanged, nor that an object, stored
before, is whole when a new version rests on it.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from pretrain_archive.data import layout
from pretrain_archive.data.building import build
from pretrain_archive.data.fetching import fetched_once
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import Progress, in_order
from pretrain_archive.data.keeping import Copier, prove
from pretrain_archive.data.listing import Listing
from pretrain_archive.data.manifest import Built, Entry, Header, read_entries
from pretrain_archive.data.merging import merge
from pretrain_archive.data.stamps import Holds, Stamps
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
_OF_THIS_CALL = {
    "source_id", "source_uri", "include", "exclude", "check", "files_read", "files_from_stamps"
}  # fmt: skip
"""What the record of an unchanged source says of this reading, not of that which made the version."""


def create_snapshot(
    store: ObjectStore, ledger: Ledger | None, *, name: str, source_root: Place, mode: Mode,
    actor: Actor, origin: Origin, stream: str = "", include: Sequence[str] = (), exclude: Sequence[str] = (),
    source_id: str | None = None, source_uri: str = "", attempt: int = 0, progress: Progress | None = None,
    stamps: Path | None = None,
) -> SnapshotCreated:  # fmt: skip
    """Snapshot the files of ``source_root``, a tree or the path of a folder, as a version of ``name``, and record it.

    ``copy`` keeps every file's bytes in ``store`` (once per content); ``reference`` keeps the manifest only.
    Content equal to the newest version gives that version again with ``unchanged``. ``stream`` is the run's
    uid or, by default, ``data/NAME``; ``ledger`` None records nothing. ``stamps`` is the folder of :class:`Stamps`:
    with it, what they prove unchanged is not read again, and the record says so. Raises ``InputError``,
    ``SourceError``, ``SourceChangedError`` and ``StorageError``; then no version exists.
    """
    check_wish(name, mode)
    tree = tree_of(source_root)
    tree = fetched_once(tree) if mode == "copy" else tree
    keep = Copier(store, tree) if mode == "copy" else None
    chosen = Filter(include=tuple(include), exclude=tuple(exclude))
    fields: dict[str, Any] = {
        "name": name, "mode": mode, "source_id": source_id, "source_uri": source_uri or tree.uri,
        "include": list(include), "exclude": list(exclude),
    }  # fmt: skip
    named = partial(
        name_version, store, ledger, proof=keep.prove if keep else None, settle=keep.settle if keep else None,
        stream=stream, attempt=attempt, actor=actor,
        origin=origin,
    )  # fmt: skip
    if stamps is None:
        built = build(tree, chosen, progress=progress, each=keep)
        return named(built, fields)
    holds = partial(holds_copy, store) if keep else None
    with Stamps(stamps, tree, began_ns=time.time_ns(), holds=holds) as marks:
        listing = Listing.take(tree, chosen)
        if (built_before := _same_tree(store, marks, listing, holds)) is not None:
            listing.close()
            built = built_before
        else:
            built = build(tree, chosen, progress=progress, each=keep, listing=listing, stamps=marks)
        fields |= {
            "check": marks.told(copied=keep is not None), "files_read": marks.read, "files_from_stamps": marks.taken,
        }  # fmt: skip
        made = named(built, fields)
        marks.keep(listing.digest, str(snapshot_ref(made)), made.manifest_digest)
    return made


def _same_tree(store: ObjectStore, marks: Stamps, listing: Listing, holds: Holds | None) -> Built | None:
    """The stored manifest, proven, if every file is as it was when that was made, and every copy is there."""
    digest = marks.unchanged(listing)
    if digest is None or store.stat(manifest_key(digest)) is None:
        return None
    prove(store, manifest_key(digest), digest)
    header = Header(files=listing.files, links=listing.links, total_bytes=listing.size)
    # A manifest is read more than once, and what a store opens cannot always go back.
    built = Built(header=header, digest=digest, file=cast("BinaryIO", tempfile.TemporaryFile()))  # noqa: SIM115
    with open_manifest(store, digest) as stream:
        shutil.copyfileobj(stream, built.file)
    if holds is not None and not all(in_order(holds, (e for e in built.entries() if e.link is None))):
        built.file.close()
        return None
    marks.taken = listing.files
    return built


def holds_copy(store: ObjectStore, entry: Entry) -> bool:
    """Whether the store has an object of that size under the entry's digest; it is not read."""
    found = store.stat(layout.blob_key(entry.sha256))
    return found is not None and found.size == entry.size


def check_wish(name: str, mode: str) -> None:
    """Raise ``InputError`` for a name or mode that no snapshot can have."""
    layout.check_name(name)
    if mode not in ("copy", "reference"):
        raise InputError("snapshot mode", mode, "neither copy nor reference")


def name_version(
    store: ObjectStore, ledger: Ledger | None, built: Built, fields: Mapping[str, Any], *,
    proof: Callable[[], None] | None, stream: str, attempt: int, actor: Actor, origin: Origin,
    settle: Callable[[], None] | None = None,
) -> SnapshotCreated:  # fmt: skip
    """Make ``built`` the next version of ``fields["name"]``, unless the newest is the same, and record it.

    ``fields`` are those of the record that do not follow from the manifest; ``proof`` is called before a new version
    rests on what was stored before, ``settle`` when it does and before that is recorded. Closes ``built.file``.
    """
    with built.file:
        wish = SnapshotCreated(
            **fields, version=1, manifest_digest=built.digest,
            manifest_uri=store.location(manifest_key(built.digest)), file_count=built.header.files,
            total_bytes=built.header.total_bytes, parent=None, unchanged=False,
        )  # fmt: skip
        payload = _unchanged(_parent(store, wish.name), wish) or _make(store, wish, built, proof)
        if settle is not None and not payload.unchanged:
            settle()
    if ledger is None:
        return payload
    where = stream or f"data/{wish.name}"
    return _record(ledger, payload, stream=where, attempt=attempt, actor=actor, origin=origin)


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
    same = wish.model_dump(include=_OF_THIS_CALL)
    return newest.model_copy(update={"unchanged": True, "changes": _NO_CHANGES, **same})


def _make(
    store: ObjectStore, wish: SnapshotCreated, built: Built, proof: Callable[[], None] | None
) -> SnapshotCreated:
    """Prove what was stored before, store the manifest, and take the next free version for ``wish``."""
    if proof is not None:
        proof()
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
