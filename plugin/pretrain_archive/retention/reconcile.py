"""What is recorded against what is there: for every artifact, and for folders that nobody recorded (R150, R152).

Only looks: nothing is deleted, nothing is recorded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.location import to_location, to_path
from pretrain_archive.artifacts.pointers import step_of
from pretrain_archive.domain.identity import path_to_text, utc_now
from pretrain_archive.domain.kinds import CheckpointRegistered
from pretrain_archive.domain.verdicts import Item, Verdict
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.files import ArtifactFiles, Look, choose
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.world import World, observe, target_of

CHECK = "recorded files and sizes compared with what is at the location (contents are not hashed)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reconciled:
    """One item per recorded artifact and per ownerless folder; ``ownerless_bytes`` is what the latter hold."""

    items: tuple[Item, ...]
    ownerless_bytes: int


def reconcile(
    ledger: Ledger, *, places: Sequence[ArtifactFiles] = (FolderFiles(),), roots: Iterable[Path] = ()
) -> Reconciled:
    """Compare the ledger with the disk, at every recorded location and below ``roots``."""
    world = observe(ledger, places)
    items = [_recorded(world, ref, fact, places) for ref, fact in world.facts.items()]
    ownerless = list(_ownerless(world, roots))
    return Reconciled(
        items=(*items, *(item for item, _ in ownerless)), ownerless_bytes=sum(size for _, size in ownerless)
    )


def _recorded(world: World, ref: str, fact: CheckpointRegistered, places: Sequence[ArtifactFiles]) -> Item:
    place = choose(places, fact.location)
    seen = (
        place.look(target_of(fact)) if place else Look(presence="unreachable", detail="not on this machine")
    )
    deleted = ref in world.tombstones
    replaced = deleted and any(entry.location == fact.location for entry in world.subjects)
    expected = "absent, by its tombstone" if deleted else f"{len(fact.files)} files"
    found = f"{seen.presence}{': ' if seen.detail else ''}{seen.detail}"
    if seen.begun:
        found += "; a deletion is under way"
    if replaced:
        verdict, found = Verdict.VERIFIED, "replaced by a later checkpoint at the same location"
    elif seen.presence == "unreachable":
        verdict = Verdict.UNRECORDED
    else:
        holds = seen.presence == ("missing" if deleted else "present")
        verdict = Verdict.VERIFIED if holds and not seen.begun else Verdict.CHANGED
    return Item(
        id=ref,
        track="artifact",
        verdict=verdict,
        check=CHECK,
        checked_at=utc_now(),
        expected=expected,
        found=found,
        owner=fact.responsible,
        hint=""
        if verdict is Verdict.VERIFIED
        else "Run the clean-up again, or restore the files from a copy.",
        requirement="R150",
    )


def _ownerless(world: World, roots: Iterable[Path]) -> Iterable[tuple[Item, int]]:
    owned = {fact.location for fact in world.facts.values()}
    homes = {folder.parent for folder in map(to_path, owned) if folder is not None}
    for root in sorted({path.resolve() for path in (*homes, *roots)}):
        if not root.is_dir():
            continue
        for folder in sorted(root.iterdir()):
            stepped = step_of(folder.name) is not None or "checkpoint" in folder.name.lower()
            if not stepped or folder.is_symlink() or not folder.is_dir() or to_location(folder) in owned:
                continue
            size = sum(entry.size for entry in inspect(folder).files)
            yield _ownerless_item(folder, size), size


def _ownerless_item(folder: Path, size: int) -> Item:
    return Item(
        id=f"folder:{path_to_text(os.fsencode(folder))}",
        track="artifact",
        verdict=Verdict.UNRECORDED,
        check=CHECK,
        checked_at=utc_now(),
        expected="a registered checkpoint",
        found=f"{size} bytes that no record names",
        blocking=False,
        hint="Register it with its run, or remove it by hand: the clean-up deletes only what is recorded.",
        requirement="R152",
    )
