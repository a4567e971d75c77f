"""Temporary data of a run: removed when the run is done, with a record of what and how much (R057, R154)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pretrain_archive.artifacts.location import to_location
from pretrain_archive.domain.errors import RefusedError, StorageError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.domain.kinds import TemporaryRemoved, read_payload
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.folders import sync_folder

KIND = "temporary.removed"


def clean_temporary(
    ledger: Ledger,
    *,
    run_uid: str,
    root: Path,
    folders: Sequence[Path],
    actor: Actor,
    origin: Origin,
) -> TemporaryRemoved | None:
    """Remove ``folders``, each strictly below ``root``, and record it; None if there was nothing to remove.

    Links are removed, never followed. Raises :class:`RefusedError` before anything is removed for a folder
    that is not below ``root``, or that holds or lies in a registered checkpoint; :class:`StorageError` for
    what could not be removed (what went is recorded first).
    """
    wanted = [_inside(root, folder) for folder in folders]
    _spare_checkpoints(ledger, wanted)
    gone, released, faults = [], 0, []
    for folder in wanted:
        if not os.path.lexists(folder):
            continue
        size = _size(folder)
        try:
            _remove(folder)
        except OSError as error:
            faults.append(f"{path_to_text(os.fsencode(folder))}: {error.strerror}")
        else:
            gone.append(to_location(folder))
            released += size
    recorded = _record(ledger, run_uid, gone, released, actor=actor, origin=origin) if gone else None
    if faults:
        raise StorageError(
            f"temporary data of {run_uid} is still there: {'; '.join(faults)}.",
            hint="Free the folder and retry.",
        )
    return recorded


def _inside(root: Path, folder: Path) -> Path:
    base = root.resolve()
    found = (
        folder.parent.resolve() / folder.name
    )  # the last part itself may be a link, and only it is removed
    if folder.name in {"", ".", ".."} or base not in found.parents:
        raise RefusedError(f"{folder} is not below {root}; nothing was removed.")
    return found


def _spare_checkpoints(ledger: Ledger, wanted: Sequence[Path]) -> None:
    stones = ledger.records(kinds=["tombstone.written"])
    buried = {str(r.payload["ref"]) for r in stones if not r.payload.get("parts")}
    locations = {
        str(record.payload["location"]).rstrip("/")
        for record in ledger.records(kinds=["checkpoint.registered"])
        if f"checkpoint:{record.payload['checkpoint_id']}" not in buried
    }
    for folder in wanted:
        own = to_location(folder)
        for location in locations:
            if location == own or location.startswith(own + "/") or own.startswith(location + "/"):
                raise RefusedError(
                    f"{own} is no temporary data: it touches the checkpoint at {location}; nothing was removed."
                )


def _size(folder: Path) -> int:
    if folder.is_symlink() or not folder.is_dir():
        return folder.lstat().st_size
    total = 0
    for base, _, names in os.walk(folder):
        total += sum((Path(base) / name).lstat().st_size for name in names)
    return total


def _remove(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink()
    else:
        shutil.rmtree(folder)
    sync_folder(folder.parent)
    if os.path.lexists(folder):
        raise OSError(0, "still there after removal")


def _record(
    ledger: Ledger, run_uid: str, gone: list[str], released: int, *, actor: Actor, origin: Origin
) -> TemporaryRemoved:
    payload = TemporaryRemoved(paths=gone, bytes_released=released, verified_absent=True)
    before = ledger.records(streams=[run_uid], kinds=[KIND])
    draft = Draft(
        stream=run_uid,
        kind=KIND,
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        ordinal=sum(record.origin == origin for record in before),
    )
    return read_payload(ledger.append([draft])[0], TemporaryRemoved)
