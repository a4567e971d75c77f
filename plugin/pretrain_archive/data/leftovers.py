"""What planned snapshots left in the store: plans, listings and pieces, which no version names.

They are found by where they lie, below ``parts/STREAM/PLAN/``; the id of a plan tells when it began. A merged plan
drops its own. Blobs and manifests that a failed snapshot left have names like those of any version; they are found
by comparing with what versions name, and are not touched here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.storage.port import ObjectStore

ROOT = "parts/"
_FOLDER = re.compile(r"(parts/.+/plan_([0-9a-f]{8})-([0-9a-f]{4})-7[^/]*)/.*")


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOver:
    """A plan's folder in the store: how many objects and bytes, and when it was planned."""

    folder: str
    objects: int
    size: int
    planned_at: datetime


def left_over(store: ObjectStore, stream: str = "") -> Iterator[LeftOver]:
    """Yield the folders of plans, of one stream (a run's uid, ``data/NAME``) or of all, with what they hold."""
    seen: dict[str, list[int]] = {}
    for info in store.list(ROOT + (f"{stream}/" if stream else "")):
        if found := _FOLDER.fullmatch(info.key):
            count = seen.setdefault(found[1], [0, 0, int(found[2] + found[3], 16)])
            count[0] += 1
            count[1] += info.size
    for folder, (objects, size, milliseconds) in seen.items():
        planned = datetime.fromtimestamp(milliseconds / 1000, UTC)
        yield LeftOver(folder=folder, objects=objects, size=size, planned_at=planned)


def drop(store: ObjectStore, folder: str) -> None:
    """Delete everything of a plan, its document first, and prove that it is gone; ``StorageError`` if it is not."""
    keys = [info.key for info in store.list(f"{folder}/")]
    # Without its document nobody can go on with a plan whose pieces are half gone.
    for key in sorted(keys, key=lambda key: not key.endswith("/plan.json")):
        store.delete(key)
    if rest := next(store.list(f"{folder}/"), None):
        raise StorageError(
            f"{store.location(rest.key)}: still there after it was deleted.", hint="Try again."
        )
