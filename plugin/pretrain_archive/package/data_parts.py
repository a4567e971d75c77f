"""Evidence files about the run's data: where they came from and by what right, and their Croissant description."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pretrain_archive.data.croissant import snapshot_description
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.source_rights import Standing, standings
from pretrain_archive.domain.withdrawal import source_document, withdrawal_document
from pretrain_archive.package.evidence import Part, pretty
from pretrain_archive.storage.port import ObjectStore

FORMAT = "pretrain-archive/sources/1"


def about_data(store: ObjectStore, view: RunView) -> Iterator[Part]:
    """``sources.json`` where a source is known, and ``croissant.json`` where the snapshot can still be read."""
    sources = standings(view)
    if sources:
        listing = {"format": FORMAT, "sources": [_told(source) for source in sources]}
        yield Part(path="evidence/sources.json", data=pretty(listing))
    found = view.last(SnapshotCreated)
    if found is None:
        return
    record, snapshot = found
    try:
        document = snapshot_description(store, snapshot, sources=sources, published=record.recorded_at)
    except (ArchiveError, OSError):
        return  # the reference to the manifest says that it could not be read
    yield Part(path="evidence/croissant.json", data=pretty(document))


def _told(source: Standing) -> dict[str, object]:
    """A source with the records behind it: those outside of the run are told in full, with their leaf hashes."""
    records = [
        {"record_id": record.record_id, "stream": record.stream, "position": record.position, "leaf": record.leaf,
         "body": json.loads(record.stored) if record.stored else record.body()}
        for record in source.evidence
    ]  # fmt: skip
    return {**source_document(source), "withdrawn": withdrawal_document(source), "records": records}
