"""Lay a run's data out for a program, whatever the mode in which its snapshot is kept."""

from __future__ import annotations

from pathlib import Path

from pretrain_archive.data.materialise import materialise
from pretrain_archive.data.rebuilding import content_of
from pretrain_archive.data.splits import TEXT, create_split
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import SnapshotCreated, SplitCreated
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.progress import every
from pretrain_archive.storage.port import ObjectStore


def lay_out(
    store: ObjectStore, caller: Caller, snapshot: SnapshotCreated, split: SplitCreated, folder: Path
) -> Path:
    """Return the list of documents below ``folder``; every document's digest was checked.

    Of a recipe the content is made again beside the list, which proves it, and so are the files of the split.
    """
    place, shown = content_of(store, snapshot, folder / "content", progress=every(caller.say, "rebuilt"))
    if shown is not snapshot:
        again = create_split(
            place, None, snapshot=shown, seed=split.seed, validation_fraction=split.validation_fraction,
            text_field=split.text_field or TEXT,
            actor=caller.actor, origin=caller.origin,
        )  # fmt: skip
        if again.split_digest != split.split_digest:
            raise RefusedError("the split of the rebuilt data is another one than was recorded")
    return materialise(place, shown, split, folder, progress=every(caller.say, "laid out"))
