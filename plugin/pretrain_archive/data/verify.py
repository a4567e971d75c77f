"""Check a snapshot against what is there: its manifest, and every byte of the stored copy or the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from pretrain_archive.data import layout
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import Progress, hash_stream, in_order
from pretrain_archive.data.manifest import Entry, read_entries
from pretrain_archive.data.merging import merge
from pretrain_archive.data.snapshots import manifest_key, open_manifest, open_version
from pretrain_archive.data.sources import live_tree
from pretrain_archive.data.tree import Listed, Place, Tree
from pretrain_archive.domain.errors import ArchiveError, SourceChangedError, StorageError
from pretrain_archive.domain.identity import path_to_text, utc_now
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.domain.verdicts import WORST_FIRST, Verdict
from pretrain_archive.storage.port import ObjectStore

ABSENT = "absent"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFinding:
    """A file that is not as the manifest says; ``path`` is empty for the manifest or source as a whole."""

    path: str
    verdict: Verdict
    expected: str
    found: str

    def to_dict(self) -> dict[str, str]:
        """The finding as plain JSON."""
        return {
            "path": self.path,
            "verdict": self.verdict.value,
            "expected": self.expected,
            "found": self.found,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotCheck:
    """The result of verifying a snapshot; ``items`` are findings only, ``counts`` covers every file."""

    snapshot: SnapshotCreated
    checked: str
    checked_at: str
    items: tuple[FileFinding, ...]
    counts: dict[str, int]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of any file; unrecorded if nothing was compared."""
        return next((v for v in WORST_FIRST if self.counts[v.value]), Verdict.UNRECORDED)

    def to_json(self) -> dict[str, Any]:
        """What ``snapshot verify`` prints."""
        return {
            "verdict": self.verdict.value,
            "name": self.snapshot.name,
            "version": self.snapshot.version,
            "manifest_digest": self.snapshot.manifest_digest,
            "checked": self.checked,
            "checked_at": self.checked_at,
            "counts": dict(self.counts),
            "items": [item.to_dict() for item in self.items],
        }


def verify_snapshot(
    store: ObjectStore,
    name: str,
    version: int | None = None,
    *,
    source_root: Place | None = None,
    manifest_digest: str | None = None,
    progress: Progress | None = None,
) -> SnapshotCheck:
    """Read every byte again and compare it with version ``version`` (default: the newest) of ``name``.

    Reads the stored copy; with ``source_root`` (a tree or the path of a folder), or for a snapshot by
    reference, the live source. Of a source that keeps versions the pinned ones are read, wherever the newest
    stand: what was added or overwritten there since is no change of the snapshot, a pinned version that is gone is.
    ``manifest_digest`` is what a record says (the version document alone could be replaced together with
    the manifest). ``InputError`` for an unknown version; everything else that is wrong is a finding.
    """
    snapshot = open_version(store, name, version)
    live = source_root is not None or snapshot.mode != "copy"
    checked = "the live source, every byte" if live else "the stored copy, every byte"
    findings = list(_check_manifest(store, snapshot, manifest_digest))
    counts: Counter[Verdict] = Counter(finding.verdict for finding in findings)
    if not findings:
        compared = _live(store, snapshot, source_root) if live else _stored(store, snapshot)
        size = 0
        for number, (finding, count) in enumerate(compared, 1):
            counts[finding.verdict if finding else Verdict.VERIFIED] += 1
            findings += [finding] if finding else []
            size += count
            if progress is not None:
                progress(number, size)
    return SnapshotCheck(
        snapshot=snapshot,
        checked=checked,
        checked_at=utc_now(),
        items=tuple(findings),
        counts={verdict.value: counts[verdict] for verdict in WORST_FIRST},
    )


Compared = tuple[FileFinding | None, int]


def _check_manifest(
    store: ObjectStore, snapshot: SnapshotCreated, recorded: str | None
) -> Iterator[FileFinding]:
    expected = recorded or snapshot.manifest_digest
    found = snapshot.manifest_digest
    if found == expected:
        if store.stat(manifest_key(expected)) is None:
            found = ABSENT
        else:
            with open_manifest(store, expected) as stream:
                found, _ = hash_stream(stream)
    if found != expected:
        yield FileFinding(path="", verdict=Verdict.CHANGED, expected=f"manifest {expected}", found=found)


def _stored(store: ObjectStore, snapshot: SnapshotCreated) -> Iterator[Compared]:
    with open_manifest(store, snapshot.manifest_digest) as stream:
        yield from in_order(partial(_compare_blob, store), read_entries(stream))


def _compare_blob(store: ObjectStore, entry: Entry) -> Compared:
    if entry.link is not None:
        return None, 0
    key = layout.blob_key(entry.sha256)
    try:
        if store.stat(key) is None:
            return _changed(entry.path, entry.sha256, ABSENT), 0
        with store.open(key) as stream:
            digest, size = hash_stream(stream)
    except (OSError, StorageError) as error:
        return _unread(entry, error), 0
    return (None if digest == entry.sha256 else _changed(entry.path, entry.sha256, digest)), size


def _live(store: ObjectStore, snapshot: SnapshotCreated, source_root: Place | None) -> Iterator[Compared]:
    chosen = Filter(include=tuple(snapshot.include), exclude=tuple(snapshot.exclude))
    try:
        tree = live_tree(snapshot, source_root)
        # Pins hold at the recorded source only; any other place is compared as it stands.
        pinned = tree.uri == snapshot.source_uri and _is_pinned(store, snapshot)
        listing = [] if pinned else list(tree.list(chosen))
    except ArchiveError as error:
        yield (
            FileFinding(
                path="",
                verdict=Verdict.UNRECORDED,
                expected=snapshot.manifest_digest,
                found=f"the source was not read: {error.message}",
            ),
            0,
        )
        return
    with open_manifest(store, snapshot.manifest_digest) as stream:
        entries = read_entries(stream)
        if pinned:
            yield from in_order(partial(_compare_pinned, tree), entries)
            return
        pairs = merge(entries, listing, left=Entry.sort_key, right=lambda item: item.path)
        yield from in_order(partial(_compare_live, tree), pairs)


def _is_pinned(store: ObjectStore, snapshot: SnapshotCreated) -> bool:
    with open_manifest(store, snapshot.manifest_digest) as stream:
        return any(entry.version is not None for entry in islice(read_entries(stream), 1))


def _compare_pinned(tree: Tree, entry: Entry) -> Compared:
    try:
        with tree.open(Listed(entry.sort_key(), entry.size, version=entry.version)) as stream:
            digest, size = hash_stream(stream)
    except SourceChangedError:
        return _changed(entry.path, entry.sha256, f"the pinned version {entry.version} is gone"), 0
    except (OSError, ArchiveError) as error:
        return _unread(entry, error), 0
    return (None if digest == entry.sha256 else _changed(entry.path, entry.sha256, digest)), size


def _compare_live(tree: Tree, pair: tuple[Entry | None, Listed | None]) -> Compared:
    entry, listed = pair
    if entry is None:
        return _changed(path_to_text(listed.path) if listed else "", ABSENT, "a file"), 0
    expected = entry.sha256 if entry.link is None else f"link to {entry.link}"
    if listed is None:
        return _changed(entry.path, expected, ABSENT), 0
    if listed.target is not None or entry.link is not None:
        found = "a file" if listed.target is None else f"link to {path_to_text(listed.target)}"
        return (None if found == expected else _changed(entry.path, expected, found)), 0
    try:
        with tree.open(Listed(listed.path, listed.size)) as stream:
            digest, size = hash_stream(stream)
    except (OSError, ArchiveError) as error:
        return _unread(entry, error), 0
    return (None if digest == expected else _changed(entry.path, expected, digest)), size


def _changed(path: str, expected: str, found: str) -> FileFinding:
    return FileFinding(path=path, verdict=Verdict.CHANGED, expected=expected, found=found)


def _unread(entry: Entry, error: Exception) -> FileFinding:
    return FileFinding(
        path=entry.path, verdict=Verdict.UNRECORDED, expected=entry.sha256, found=f"not read: {error}"
    )
