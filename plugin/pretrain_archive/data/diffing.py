"""What changed between two versions: files added, removed, modified and renamed, with counts and bytes.

Both manifests are read once, side by side; what is only on one side waits in a temporary database on disk until
renames (same bytes, another path) are found there. Memory does not grow with the number of files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from pretrain_archive.data.hashing import hash_stream
from pretrain_archive.data.manifest import Entry, read_entries
from pretrain_archive.data.merging import merge
from pretrain_archive.data.snapshots import manifest_key, open_manifest, snapshot_ref
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.storage.port import ObjectStore

Kind = Literal["added", "removed", "modified", "renamed"]
KINDS: tuple[Kind, ...] = ("added", "removed", "modified", "renamed")
LIMIT = 1000

_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA cache_size = -8000;
CREATE TABLE only (side TEXT, path TEXT, size INTEGER, sha256 TEXT, link TEXT);
"""

# The empty file is everywhere: that one went and another came tells nothing. Of several files with the same
# bytes the first that went becomes the first that came.
_RENAMED = """
CREATE INDEX by_content ON only (sha256, side);
CREATE TABLE numbered (sha256 TEXT, side TEXT, n INTEGER, id INTEGER, PRIMARY KEY (sha256, side, n)) WITHOUT ROWID;
INSERT INTO numbered
SELECT sha256, side, row_number() OVER (PARTITION BY sha256, side ORDER BY rowid), rowid
FROM only WHERE size > 0 AND link IS NULL;
CREATE TABLE renamed AS
SELECT gone.id AS gone, came.id AS came
FROM numbered gone JOIN numbered came ON came.sha256 = gone.sha256 AND came.side = 'added' AND came.n = gone.n
WHERE gone.side = 'removed';
CREATE UNIQUE INDEX by_gone ON renamed (gone);
CREATE UNIQUE INDEX by_came ON renamed (came);
"""

_LEFT_OVER = "side = ? AND rowid NOT IN (SELECT {column} FROM renamed)"
_PAIRS = (
    "FROM renamed JOIN only gone ON gone.rowid = renamed.gone JOIN only came ON came.rowid = renamed.came"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One path that differs; ``before`` is None for what was added, ``after`` for what was removed."""

    kind: Kind
    before: Entry | None
    after: Entry | None

    def to_dict(self) -> dict[str, Any]:
        """The change as plain JSON: the path (of the right side, if it is there) and what stood and stands there."""
        here = self.after or self.before
        told: dict[str, Any] = {"change": self.kind, "path": here.path if here else ""}
        if self.kind == "renamed" and self.before is not None:
            told["from"] = self.before.path
        return told | {"before": _content(self.before), "after": _content(self.after)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """Files (links too) of one kind, and their bytes: of the left side for what was removed, else of the right."""

    files: int = 0
    size: int = 0

    def plus(self, size: int) -> Tally:
        """One file more."""
        return Tally(files=self.files + 1, size=self.size + size)


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What the right version has against the left; of each kind only the first ``changes`` are named."""

    left: SnapshotCreated
    right: SnapshotCreated
    tallies: dict[str, Tally]
    changes: tuple[Change, ...]

    @property
    def same(self) -> bool:
        """Whether both hold the same files."""
        return not any(self.tallies[kind].files for kind in KINDS)

    @property
    def truncated(self) -> bool:
        """Whether there are more changes than are named."""
        return len(self.changes) < sum(self.tallies[kind].files for kind in KINDS)

    def to_json(self) -> dict[str, Any]:
        """What ``snapshot diff`` prints."""
        return {
            "left": _described(self.left),
            "right": _described(self.right),
            "same": self.same,
            "counts": {kind: {"files": t.files, "bytes": t.size} for kind, t in self.tallies.items()},
            "changes": [change.to_dict() for change in self.changes],
            "truncated": self.truncated,
        }


def compare(
    store: ObjectStore, left: SnapshotCreated, right: SnapshotCreated, *, limit: int = LIMIT
) -> Difference:
    """Compare two versions; at most ``limit`` changes of each kind are named, sorted by path, all are counted.

    Raises ``ArchiveError`` for a manifest that is not the one that its version names.
    """
    for snapshot in (left, right):
        _check_manifest(store, snapshot)
    tallies = dict.fromkeys((*KINDS, "unchanged"), Tally())
    modified: list[Change] = []
    with (
        closing(sqlite3.connect("")) as database,
        open_manifest(store, left.manifest_digest) as old,
        open_manifest(store, right.manifest_digest) as new,
    ):
        database.executescript(_TABLES)
        pairs = merge(read_entries(old), read_entries(new), left=Entry.sort_key, right=Entry.sort_key)
        database.executemany(
            "INSERT INTO only VALUES (?, ?, ?, ?, ?)", _only(pairs, tallies, modified, limit=limit)
        )
        database.executescript(_RENAMED)
        changes = {
            "added": _left_over(database, "added", limit, tallies),
            "removed": _left_over(database, "removed", limit, tallies),
            "modified": modified,
            "renamed": _renamed(database, limit, tallies),
        }
    named = tuple(change for kind in KINDS for change in changes[kind])
    return Difference(left=left, right=right, tallies=tallies, changes=named)


def _only(
    pairs: Iterable[tuple[Entry | None, Entry | None]],
    tallies: dict[str, Tally],
    modified: list[Change],
    *,
    limit: int,
) -> Iterator[tuple[str, str, int, str, str | None]]:
    """Rows for what is on one side only; what is on both is counted at once."""
    for before, after in pairs:
        if before is not None and after is not None:
            kind = "unchanged" if before == after else "modified"
            tallies[kind] = tallies[kind].plus(after.size)
            if kind == "modified" and len(modified) < limit:
                modified.append(Change(kind="modified", before=before, after=after))
        elif (entry := before or after) is not None:
            side = "removed" if after is None else "added"
            yield side, entry.path, entry.size, entry.sha256, entry.link


def _left_over(
    database: sqlite3.Connection, kind: Literal["added", "removed"], limit: int, tallies: dict[str, Tally]
) -> list[Change]:
    where = _LEFT_OVER.format(column="came" if kind == "added" else "gone")
    files, size = database.execute(
        f"SELECT count(*), coalesce(sum(size), 0) FROM only WHERE {where}",  # noqa: S608 - a constant
        (kind,),
    ).fetchone()
    tallies[kind] = Tally(files=files, size=size)
    rows = database.execute(
        f"SELECT path, size, sha256, link FROM only WHERE {where} ORDER BY rowid LIMIT ?",  # noqa: S608 - a constant
        (kind, limit),
    )
    entries = (Entry(path=path, size=bytes_, sha256=sha256, link=link) for path, bytes_, sha256, link in rows)
    if kind == "added":
        return [Change(kind=kind, before=None, after=entry) for entry in entries]
    return [Change(kind=kind, before=entry, after=None) for entry in entries]


def _renamed(database: sqlite3.Connection, limit: int, tallies: dict[str, Tally]) -> list[Change]:
    files, size = database.execute(f"SELECT count(*), coalesce(sum(came.size), 0) {_PAIRS}").fetchone()
    tallies["renamed"] = Tally(files=files, size=size)
    rows = database.execute(
        f"SELECT gone.path, came.path, came.size, came.sha256 {_PAIRS} ORDER BY came.rowid LIMIT ?",
        (limit,),
    )
    return [
        Change(
            kind="renamed",
            before=Entry(path=gone, size=bytes_, sha256=sha256),
            after=Entry(path=came, size=bytes_, sha256=sha256),
        )
        for gone, came, bytes_, sha256 in rows
    ]


def _check_manifest(store: ObjectStore, snapshot: SnapshotCreated) -> None:
    with open_manifest(store, snapshot.manifest_digest) as stream:
        found, _ = hash_stream(stream)
    if found != snapshot.manifest_digest:
        raise ArchiveError(
            f"{store.location(manifest_key(snapshot.manifest_digest))}: holds {found}, expected "
            f"{snapshot.manifest_digest}, the manifest of {snapshot.name}@{snapshot.version}.",
            hint="Verify the snapshot and restore its manifest.",
        )


def _described(snapshot: SnapshotCreated) -> dict[str, Any]:
    return {
        "snapshot": str(snapshot_ref(snapshot)),
        "manifest_digest": snapshot.manifest_digest,
        "file_count": snapshot.file_count,
        "total_bytes": snapshot.total_bytes,
        "parent": snapshot.parent,
    }


def _content(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {"link": entry.link} if entry.link is not None else {"size": entry.size, "sha256": entry.sha256}
