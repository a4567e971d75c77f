"""Take the next version of a derived snapshot: manifest first, the version's document last."""

from __future__ import annotations

import io
from typing import BinaryIO

from pretrain_archive.data import layout
from pretrain_archive.data.keeping import prove
from pretrain_archive.data.snapshots import (
    FORMAT,
    diff,
    latest_version,
    manifest_key,
    open_version,
    snapshot_ref,
)
from pretrain_archive.domain.kinds import SnapshotCreated
from pretrain_archive.ledger.canonical import canonical_bytes
from pretrain_archive.storage.port import ObjectStore

_NO_CHANGES = {"added": 0, "removed": 0, "modified": 0}
SAME = ("manifest_digest", "mode", "derived_from", "rule", "recipe_digest")
"""What makes two versions the same: the content, and by which rule it came from what."""


def publish(store: ObjectStore, wish: SnapshotCreated, manifest: BinaryIO) -> SnapshotCreated:
    """Store ``manifest`` and name it as the next version of ``wish.name``, or find the newest to be the same."""
    key = manifest_key(wish.manifest_digest)
    manifest.seek(0)
    if not store.put_if_absent(key, manifest):
        prove(store, key, wish.manifest_digest)
    while True:
        number = latest_version(store, wish.name)
        newest = None if number is None else open_version(store, wish.name, number)
        if newest is not None and all(getattr(newest, name) == getattr(wish, name) for name in SAME):
            return newest.model_copy(update={"unchanged": True, "changes": _NO_CHANGES})
        changes = diff(store, newest, wish) if newest else {"added": wish.file_count}
        payload = wish.model_copy(
            update={
                "version": newest.version + 1 if newest else 1,
                "parent": str(snapshot_ref(newest)) if newest else None,
                "changes": _NO_CHANGES | changes,
            }
        )
        document = {"format": FORMAT, **payload.to_json()}
        del document["unchanged"]
        data = io.BytesIO(canonical_bytes(document))
        if store.put_if_absent(layout.version_key(wish.name, payload.version), data):
            return payload
