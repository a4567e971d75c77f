"""A snapshot's Croissant description from store and ledger."""

from __future__ import annotations

from typing import Any

from pretrain_archive.data.croissant import snapshot_description
from pretrain_archive.data.snapshots import open_version, snapshot_ref
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.domain.lineage import content_edges, reach
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
    made = [
        record
        for record in ledger.records(kinds=["snapshot.created"])
        if (record.payload["name"], record.payload["version"]) == (snapshot.name, snapshot.version)
    ]
    published = made[0].recorded_at if made else None
    return snapshot_description(store, snapshot, sources=_behind(ledger, snapshot), published=published)


def _behind(ledger: Ledger, snapshot: SnapshotCreated) -> list[Standing]:
    """Every registered source that the version rests on, through the snapshots that it was made from."""
    start = snapshot_ref(snapshot)
    trace = ledger.trace(start, direction="backward", max_nodes=MOST_NODES)
    reached = reach(content_edges(step.edge for step in trace.edges), [start], "backward")
    ids = {ref.id for ref in reached if ref.type == "source"} | {snapshot.source_id}
    return [source for source in all_sources(ledger) if source.source_id in ids]
