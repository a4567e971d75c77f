"""Which snapshot versions name which content: counted from the manifests of every version that the store holds.

The count lives in a temporary SQLite file, so that a store with many millions of files needs no more memory.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby, islice
from pathlib import Path

from pretrain_archive.data.layout import blob_key
from pretrain_archive.data.manifest import read_entries
from pretrain_archive.data.snapshots import manifest_key
from pretrain_archive.data.splits import SplitEntry
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.retention.objects import Removal
from pretrain_archive.storage.bulk import BATCH, StoredVersion
from pretrain_archive.storage.port import ObjectStore

VERSIONS, SPLITS = "snapshots/", "splits/"
_SHARED = -1
_ROWS = 10_000
_COUNT = """
INSERT INTO content VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET owner =
CASE WHEN owner = excluded.owner THEN owner ELSE -1 END
"""


class References:
    """Content by key: its bytes, and the one version that names it, or that several do."""

    def __init__(self, database: sqlite3.Connection, store: ObjectStore) -> None:
        self._database = database
        self._numbers: dict[str, int] = {}
        database.execute(
            "CREATE TABLE content (key TEXT PRIMARY KEY, size INTEGER, owner INTEGER) WITHOUT ROWID"
        )
        for info in store.list(VERSIONS):
            self._count(store, info.key)
        for info in store.list(SPLITS):
            self._count_split(store, info.key)
        database.commit()

    @property
    def versions(self) -> Collection[str]:
        """Every version with a document, as ``NAME@VERSION``."""
        return self._numbers.keys()

    def own(self, version: str) -> Iterator[tuple[str, int]]:
        """Keys and bytes of what only ``version`` names."""
        number = self._numbers.get(version, _SHARED - 1)
        yield from self._database.execute(
            "SELECT key, size FROM content WHERE owner = ? ORDER BY key", (number,)
        )

    def own_size(self, version: str) -> int:
        """Bytes of what only ``version`` names."""
        number = self._numbers.get(version, _SHARED - 1)
        row = self._database.execute("SELECT total(size) FROM content WHERE owner = ?", (number,)).fetchone()
        return int(row[0])

    def named(self, key: str) -> bool:
        """Whether any version names ``key``."""
        return self._database.execute("SELECT 1 FROM content WHERE key = ?", (key,)).fetchone() is not None

    def _count(self, store: ObjectStore, key: str) -> None:
        name, version = _version_of(key)
        with store.open(key) as file:
            document = json.loads(file.read())
        if not isinstance(document, dict) or "manifest_digest" not in document:
            raise StorageError(
                f"{store.location(key)}: expected the document of a snapshot's version, found another one.",
                hint="What it names cannot be told: move it away, or make that version again.",
            )
        number = self._numbers.setdefault(f"{name}@{version}", len(self._numbers))
        manifest = manifest_key(str(document["manifest_digest"]))
        found = store.stat(manifest)
        if found is None:
            raise StorageError(
                f"{store.location(manifest)}: the manifest of {name}@{version} is not there.",
                hint="What it names cannot be told: restore it, or remove the version by hand.",
            )
        self._database.execute(_COUNT, (manifest, found.size, number))
        if document.get("mode") == "reference":
            return  # it names digests of files that lie elsewhere
        with store.open(manifest) as file:
            named = (entry for entry in read_entries(file) if entry.link is None)
            self._add((blob_key(entry.sha256), entry.size, number) for entry in named)

    def _count_split(self, store: ObjectStore, key: str) -> None:
        """What a split list names belongs to the snapshot that was split; without that it belongs to nobody."""
        with store.open(key) as file:
            number = self._numbers.get(str(json.loads(file.readline()).get("snapshot")))
            if number is not None:
                entries = (SplitEntry.parse(line) for line in file)
                self._add((blob_key(entry.sha256), entry.size, number) for entry in entries)

    def _add(self, rows: Iterator[tuple[str, int, int]]) -> None:
        while batch := list(islice(rows, _ROWS)):
            self._database.executemany(_COUNT, batch)


@contextmanager
def references(store: ObjectStore) -> Iterator[References]:
    """Count what every version names. ``StorageError`` where a manifest is missing: then nothing can be told."""
    with tempfile.TemporaryDirectory(prefix="references-") as folder:
        database = sqlite3.connect(Path(folder) / "content.db")
        try:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            yield References(database, store)
        finally:
            database.close()


def carry_out_unnamed(
    store: ObjectStore, removal: Removal, versions: Iterable[StoredVersion], *, where: str, batch: int = BATCH
) -> list[StoredVersion]:
    """Remove those of ``versions`` that no snapshot version names, batch by batch; what was to go and is not spared.

    What is named is counted anew whenever another version was made since the last count: whoever names content after
    its removal was written down, and before its batch, keeps it.
    """
    gone: list[StoredVersion] = []
    waiting = iter(versions)
    counted: References | None = None
    seen = frozenset[str]()
    with ExitStack() as stack:
        while part := list(islice(waiting, batch)):
            there = frozenset(info.key for info in store.list(VERSIONS))
            if counted is None or there != seen:
                stack.close()
                counted, seen = stack.enter_context(references(store)), there
            listed = removal.of_keys({entry.key for entry in part})
            spared = {(entry.key, entry.version) for entry in needed(listed, counted)}
            going = [entry for entry in part if (entry.key, entry.version) not in spared]
            removal.carry_out(going, where=where)
            gone += going
    return gone


def needed(listed: Iterable[StoredVersion], counted: References) -> Iterator[StoredVersion]:
    """Of all the versions of some keys, by key, those that a snapshot needs.

    Readers see the newest. Where a delete marker hides all, whatever is below it is the only copy and can be shown
    again: of what is named nothing goes then.
    """
    for key, group in groupby(listed, key=lambda entry: entry.key):
        if counted.named(key):
            entries = list(group)
            hidden = any(entry.marker and entry.latest for entry in entries)
            yield from (entry for entry in entries if hidden or (entry.latest and not entry.marker))


def _version_of(key: str) -> tuple[str, str]:
    name, _, version = key.removeprefix(VERSIONS).removesuffix(".json").rpartition("/")
    return name, version
