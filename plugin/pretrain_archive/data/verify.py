"""Check a snapshot against what is there: its manifest, and every byte of the stored copy or the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from typing import Any, BinaryIO

from pretrain_archive.data import layout
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import REMOTE_THREADS, Progress, expect, hash_stream, in_order
from pretrain_archive.data.listing import Listing
from pretrain_archive.data.manifest import PINNED, Entry, Header, read_entries, read_header
from pretrain_archive.data.merging import merge
from pretrain_archive.data.sampling import SampleRule
from pretrain_archive.data.snapshots import manifest_key, open_manifest, open_version
from pretrain_archive.data.sources import live_tree
from pretrain_archive.data.tree import FolderTree, Listed, Place, Tree
from pretrain_archive.domain.errors import ArchiveError, SourceChangedError, StorageError
from pretrain_archive.domain.identity import path_to_text, utc_now
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.domain.verdicts import WORST_FIRST, Verdict
from pretrain_archive.storage.port import ObjectStore

ABSENT = "absent"
LISTED = 10_000
"""Findings that are named one by one, so that memory stays small where a whole source changed; all are counted."""


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
    """The result of verifying a snapshot; ``items`` are findings only, ``counts`` covers every file.

    ``left_out`` is how many findings there are beyond ``items``; ``recorded`` whether the manifest's digest came from
    a record, and not from the store alone.
    """

    snapshot: SnapshotCreated
    checked: str
    checked_at: str
    items: tuple[FileFinding, ...]
    counts: dict[str, int]
    sample: SampleRule | None = None
    files: int = 0
    left_out: int = 0
    recorded: bool = False

    @property
    def partial(self) -> bool:
        """Whether bytes of some files were not read."""
        return self.sample is not None and self.sample.size(self.files) < self.files

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of any file; unrecorded if nothing was compared, or only a sample and that was whole."""
        found = next((v for v in WORST_FIRST if self.counts[v.value]), Verdict.UNRECORDED)
        return Verdict.UNRECORDED if self.partial and found is Verdict.VERIFIED else found

    @property
    def word(self) -> str:
        """The verdict as text; ``sampled`` where every file that was drawn is as it was."""
        return "sampled" if self.partial and not self.items else self.verdict.value

    def to_json(self) -> dict[str, Any]:
        """What ``snapshot verify`` prints."""
        return {
            "verdict": self.word,
            "name": self.snapshot.name,
            "version": self.snapshot.version,
            "manifest_digest": self.snapshot.manifest_digest,
            "checked": self.checked,
            "checked_at": self.checked_at,
            "counts": dict(self.counts),
            "sample": self.sample.to_json(self.files) if self.sample else None,
            "items": [item.to_dict() for item in self.items],
            "items_left_out": self.left_out,
            "manifest_recorded": self.recorded,
        }


def verify_snapshot(
    store: ObjectStore,
    name: str,
    version: int | None = None,
    *,
    source_root: Place | None = None,
    manifest_digest: str | None = None,
    sample: SampleRule | None = None,
    progress: Progress | None = None,
) -> SnapshotCheck:
    """Read every byte again and compare it with version ``version`` (default: the newest) of ``name``.

    Reads the stored copy; with ``source_root`` (a tree or the path of a folder), or for a snapshot by
    reference, the live source. Of a source that keeps versions the pinned ones are read, wherever the newest
    stand: what was added or overwritten there since is no change of the snapshot, a pinned version that is gone is.
    ``manifest_digest`` is what a record says (the version document alone could be replaced together with
    the manifest). With ``sample`` only the drawn files are read, and what is found is never the verdict
    ``verified``; a live source is still listed whole, so names and sizes of all files are compared.
    ``InputError`` for an unknown version; everything else that is wrong is a finding.
    """
    snapshot = open_version(store, name, version)
    live = source_root is not None or snapshot.mode != "copy"
    findings = list(_check_manifest(store, snapshot, manifest_digest))
    counts: Counter[Verdict] = Counter(finding.verdict for finding in findings)
    left_out, total, place = 0, snapshot.file_count, "live source" if live else "stored copy"
    if not findings:
        header = _header(store, snapshot)
        total = header.files
        # Pins hold at the recorded source only; any other place is compared as it stands.
        at_source = source_root is None or getattr(source_root, "uri", None) == snapshot.source_uri
        pinned = live and at_source and header.format == PINNED
        place = "pinned versions of the source" if pinned else place
        drawn = sample.drawn(total) if sample else repeat(True)  # noqa: FBT003 - every file
        if sample is None:
            expect(progress, snapshot.file_count, snapshot.total_bytes)
        read = _live(store, snapshot, source_root, drawn, pinned) if live else _stored(store, snapshot, drawn)
        found = _tallied(read, counts, progress)
        findings += islice(found, LISTED)
        left_out = sum(1 for _ in found)
    return SnapshotCheck(
        snapshot=snapshot,
        checked=f"the {place}, {sample.told(total) if sample else 'every byte'}",
        checked_at=utc_now(),
        items=tuple(findings),
        counts={verdict.value: counts[verdict] for verdict in WORST_FIRST},
        sample=sample,
        files=total,
        left_out=left_out,
        recorded=manifest_digest is not None,
    )


def _tallied(
    compared: Iterable[Compared], counts: Counter[Verdict], progress: Progress | None
) -> Iterator[FileFinding]:
    """Count the verdicts of the files that were looked at; yield what is wrong."""
    files = size = 0
    for finding, count in compared:
        if finding is None and count is None:
            continue
        counts[finding.verdict if finding else Verdict.VERIFIED] += 1
        files, size = files + 1, size + (count or 0)
        if progress is not None:
            progress(files, size)
        if finding is not None:
            yield finding


Compared = tuple[FileFinding | None, int | None]
"""What is wrong with a file, and how many of its bytes were read; None for one that was not drawn."""


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


def _header(store: ObjectStore, snapshot: SnapshotCreated) -> Header:
    with open_manifest(store, snapshot.manifest_digest) as stream:
        return read_header(stream)


def _entries(stream: BinaryIO, drawn: Iterator[bool]) -> Iterator[tuple[Entry, bool]]:
    """The entries of a manifest, each with whether it is to be read."""
    return ((entry, entry.link is not None or next(drawn)) for entry in read_entries(stream))


def _stored(store: ObjectStore, snapshot: SnapshotCreated, drawn: Iterator[bool]) -> Iterator[Compared]:
    with open_manifest(store, snapshot.manifest_digest) as stream:
        wanted = (entry for entry, read in _entries(stream, drawn) if read)
        yield from in_order(partial(_compare_blob, store), wanted)


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


def _live(
    store: ObjectStore,
    snapshot: SnapshotCreated,
    source_root: Place | None,
    drawn: Iterator[bool],
    pinned: bool,
) -> Iterator[Compared]:
    chosen = Filter(include=tuple(snapshot.include), exclude=tuple(snapshot.exclude))
    listing: Iterable[Listed]
    with ExitStack() as held:
        try:
            tree = live_tree(snapshot, source_root)
            listing = [] if pinned else held.enter_context(Listing.take(tree, chosen))
            threads = None if isinstance(tree, FolderTree) else REMOTE_THREADS
        except ArchiveError as error:
            expected, found = snapshot.manifest_digest, f"the source was not read: {error.message}"
            yield FileFinding(path="", verdict=Verdict.UNRECORDED, expected=expected, found=found), 0
            return
        entries = _entries(held.enter_context(open_manifest(store, snapshot.manifest_digest)), drawn)
        if pinned:
            wanted = (entry for entry, read in entries if read)
            yield from in_order(partial(_compare_pinned, tree), wanted, threads=threads)
            return
        pairs = merge(entries, listing, left=lambda pair: pair[0].sort_key(), right=lambda item: item.path)
        yield from in_order(partial(_compare_live, tree), pairs, threads=threads)


def _compare_pinned(tree: Tree, entry: Entry) -> Compared:
    try:
        with tree.open(Listed(entry.sort_key(), entry.size, version=entry.version)) as stream:
            digest, size = hash_stream(stream)
    except SourceChangedError:
        return _changed(entry.path, entry.sha256, f"the pinned version {entry.version} is gone"), 0
    except (OSError, ArchiveError) as error:
        return _unread(entry, error), 0
    return (None if digest == entry.sha256 else _changed(entry.path, entry.sha256, digest)), size


def _compare_live(tree: Tree, pair: tuple[tuple[Entry, bool] | None, Listed | None]) -> Compared:
    told, listed = pair
    if told is None:
        return _changed(path_to_text(listed.path) if listed else "", ABSENT, "a file"), 0
    entry, drawn = told
    expected = entry.sha256 if entry.link is None else f"link to {entry.link}"
    if listed is None:
        return _changed(entry.path, expected, ABSENT), 0
    if listed.target is not None or entry.link is not None:
        found = "a file" if listed.target is None else f"link to {path_to_text(listed.target)}"
        return (None if found == expected else _changed(entry.path, expected, found)), 0
    if not drawn:
        sizes = f"{entry.size} bytes", f"{listed.size} bytes"
        return (None if listed.size == entry.size else _changed(entry.path, *sizes)), None
    try:
        with tree.open(Listed(listed.path, listed.size)) as stream:
            # A file that is written faster than it is read has no end.
            digest, size = hash_stream(stream, at_most=listed.size)
    except (OSError, ArchiveError) as error:
        return _unread(entry, error), 0
    if size > listed.size:
        digest = f"a file that grows: more than the {listed.size} bytes that were listed"
    return (None if digest == expected else _changed(entry.path, expected, digest)), size


def _changed(path: str, expected: str, found: str) -> FileFinding:
    return FileFinding(path=path, verdict=Verdict.CHANGED, expected=expected, found=found)


def _unread(entry: Entry, error: Exception) -> FileFinding:
    return FileFinding(
        path=entry.path, verdict=Verdict.UNRECORDED, expected=entry.sha256, found=f"not read: {error}"
    )
