"""Content that a clean-up is removing now: a new version that found it there must not rest on it unseen.

A removal writes down what is to go before it asks once more which versions there are, and asks again between its
batches. A writer names its version first and looks here afterwards. So either the removal sees the version, or the
writer sees the removal: between the two nothing is lost without somebody being told.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from functools import partial

from pretrain_archive.data.hashing import in_order
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.storage.port import ObjectStore

JOURNALS = "retention/journal/"
"""Where removals under way write down the keys that are to go."""
GRACE = 60.0
"""Seconds that a removal has to notice a new version; it looks before each batch, which takes a few of them."""
PAUSE = 1.0


def condemned(store: ObjectStore) -> set[str]:
    """The keys of content that removals under way name; what is no journal names none."""
    found: set[str] = set()
    for info in store.list(JOURNALS):
        try:
            with store.open(info.key) as file:
                rows = json.loads(file.read())["versions"]
            found.update(str(row[0]) for row in rows if str(row[0]).startswith(("blobs/", "manifests/")))
        except (StorageError, ValueError, KeyError, TypeError, IndexError):
            continue  # finished while it was read, or not ours
    return found


def settle(store: ObjectStore, keys: Collection[str], *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait until no removal is after ``keys``, which a version names since a moment, and prove that all are there.

    ``StorageError`` if one went: made again from its source, the same version is whole.
    """
    waited = 0.0
    while waited < GRACE and not condemned(store).isdisjoint(keys):
        sleep(PAUSE)
        waited += PAUSE
    there = in_order(partial(_is_there, store), iter(sorted(keys)))
    gone = [key for key, is_there in zip(sorted(keys), there, strict=True) if not is_there]
    if gone:
        raise StorageError(
            f"{store.location(gone[0])}: {len(gone)} objects were removed by a clean-up while a version that names "
            "them was made.",
            hint="Make the snapshot again: what is gone is stored anew, and the version is whole then.",
        )


def _is_there(store: ObjectStore, key: str) -> bool:
    return store.stat(key) is not None
