"""Temporary data of a run: removed when the run is done, with a record of what and how much (R057, R154)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote_from_bytes

from pretrain_archive.artifacts.location import to_location
from pretrain_archive.domain.errors import RefusedError, StorageError
from pretrain_archive.domain.identity import format_time, path_to_text
from pretrain_archive.domain.kinds import TemporaryRemoved, read_payload
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.files import ArtifactFiles, Target
from pretrain_archive.retention.folders import JOURNAL
from pretrain_archive.retention.trees import TreeFiles

KIND = "temporary.removed"


def clean_temporary(
    ledger: Ledger,
    *,
    run_uid: str,
    root: Path,
    folders: Sequence[Path],
    actor: Actor,
    origin: Origin,
    files: ArtifactFiles | None = None,
) -> TemporaryRemoved | None:
    """Remove ``folders``, each strictly below ``root``, and record it; None if there was nothing to remove.

    Links are removed, never followed. Raises :class:`RefusedError` before anything is removed for a folder
    that is not below ``root``, or that holds or lies in a registered checkpoint; :class:`StorageError` for
    what could not be removed (what went is recorded first). A call that was cut is completed by the next one, which
    records what both removed.
    """
    files = files or TreeFiles()
    wanted = [_inside(root, folder) for folder in folders]
    _spare_checkpoints(ledger, wanted)
    told = {
        str(location): record.recorded_at
        for record in ledger.records(streams=[run_uid], kinds=[KIND])
        for location in record.payload["paths"]
    }
    gone, released, faults = list[Target](), 0, list[str]()
    for folder in [*wanted, *_cut(run_uid, wanted)]:
        target = Target(ref=_ref(run_uid, folder), location=_address(folder), files=())
        if told.get(target.location, "") > _begun_at(folder):
            files.finish(target)
            continue
        if not folder.parent.is_dir():
            continue  # a run that never wrote anything: nothing went, so nothing is recorded
        try:
            removed = files.remove(target, plan_digest="")
        except StorageError as error:
            faults.append(error.message)
            continue
        if not removed.already_missing:
            gone.append(target)
            released += removed.bytes_released
    locations = [target.location for target in gone]
    recorded = _record(ledger, run_uid, locations, released, actor=actor, origin=origin) if gone else None
    for target in gone:  # only now: a crash before the record must not lose what went
        files.finish(target)
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


def _ref(run_uid: str, folder: Path) -> str:
    return f"temporary:{run_uid}/{path_to_text(os.fsencode(folder.name))}"


def _address(folder: Path) -> str:
    """The address of what has this name, a link itself and not what it points to."""
    return f"{to_location(folder.parent)}/{quote_from_bytes(os.fsencode(folder.name))}"


def _cut(run_uid: str, wanted: Sequence[Path]) -> list[Path]:
    """What earlier calls removed without a record: their journals are still beside where it was."""
    shape = re.compile(r"\.(?P<name>.+)\.retention\.json", re.DOTALL)
    found: set[Path] = set()
    for parent in {folder.parent for folder in wanted if folder.parent.is_dir()}:
        for path in parent.iterdir():
            named = shape.fullmatch(path.name)
            folder = parent / named["name"] if named else path
            if named and folder not in wanted and _is_ours(path, _ref(run_uid, folder)):
                found.add(folder)
    return sorted(found)


def _begun_at(folder: Path) -> str:
    """When the removal began whose journal is there though the folder is gone; the end of time for any other state."""
    journal = folder.with_name(JOURNAL.format(name=folder.name))
    try:
        moment = journal.stat().st_mtime
    except OSError:
        return "~"
    return "~" if os.path.lexists(folder) else format_time(datetime.fromtimestamp(moment, UTC))


def _is_ours(journal: Path, ref: str) -> bool:
    try:
        return bool(json.loads(journal.read_bytes())["ref"] == ref)
    except (OSError, ValueError, KeyError, TypeError):
        return False


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
