"""A snapshot's Croissant description from store and ledger."""

from __future__ import annotations

from typing import Any

from pretrain_archive.data.croissant import snapshot_description
from pretrain_archive.data.snapshots import latest_version, manifest_key, open_version, snapshot_ref
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.domain.lineage import content_edges, reach
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.source_rights import Standing
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.withdrawing import MOST_NODES, all_sources
from pretrain_archive.storage.port import ObjectStore


def croissant(
    ledger: Ledger | None, store: ObjectStore, name: str, version: int | None = None
) -> dict[str, Any]:
    """Describe a version of ``name``, by default the newest; without a ledger its rights are left out.

    Raises ``InputError`` where the version is not in the store.
    """
    snapshot = open_version(store, name, version)
    if ledger is None:
        return snapshot_description(store, snapshot, sources=(), published=None)
    made = record_of(ledger, store, name, snapshot.version)
    published = made.recorded_at if made else None
    return snapshot_description(store, snapshot, sources=_behind(ledger, snapshot), published=published)


def record_of(ledger: Ledger, store: ObjectStore, name: str, version: int | None = None) -> Record | None:
    """The record that made a version (default: the newest) in ``store``, None if nothing is recorded of it.

    Two stores may have a version of the same name: the one whose manifest lies here counts, or the first where
    none does, as in a store that was moved.
    """
    number = latest_version(store, name) if version is None else version
    found = [
        record
        for record in ledger.records(kinds=["snapshot.created"])
        if (record.payload["name"], record.payload["version"]) == (name, number)
    ]
    here = (
        record
        for record in found
        if record.payload["manifest_uri"]
        == store.location(manifest_key(str(record.payload["manifest_digest"])))
    )
    return next(here, found[0] if found else None)


def _behind(ledger: Ledger, snapshot: SnapshotCreated) -> list[Standing]:
    """Every registered source that the version rests on, through the snapshots that it was made from."""
    start = snapshot_ref(snapshot)
    trace = ledger.trace(start, direction="backward", max_nodes=MOST_NODES)
    reached = reach(content_edges(step.edge for step in trace.edges), [start], "backward")
    ids = {ref.id for ref in reached if ref.type == "source"} | {snapshot.source_id}
    return [source for source in all_sources(ledger) if source.source_id in ids]
