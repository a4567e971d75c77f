"""Is a registered checkpoint still what was recorded? Every file is read again."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts import hashing
from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.formats.sharded import local
from pretrain_archive.artifacts.location import to_path
from pretrain_archive.artifacts.registration import current
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.kinds import CheckpointRegistered, FileDigest, TombstoneWritten
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict

log = logging.getLogger(__name__)

CHECK = "every byte read and hashed with SHA-256, compared with the record"


@dataclass(frozen=True, kw_only=True, slots=True)
class NewestVerified:
    """A checkpoint that holds now; ``skipped`` says of each newer one why it does not."""

    checkpoint: CheckpointRegistered
    folder: Path
    skipped: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfit:
    """A registered checkpoint that does not hold now, and every reason."""

    checkpoint: CheckpointRegistered
    problems: tuple[str, ...]

    def text(self) -> str:
        """One line: which step, and why not."""
        return f"step {self.checkpoint.step} does not hold: {'; '.join(self.problems)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """What a look for a checkpoint to go on from found: the newest one that holds, and each newer one that does not."""

    found: tuple[CheckpointRegistered, Path] | None
    unfit: tuple[Unfit, ...]


def verify_checkpoint(checkpoint: CheckpointRegistered) -> list[Item]:
    """One item per recorded file, and one per file in the folder that is not recorded.

    A location that is not on this machine's file systems gives ``unrecorded``: it was not checked.
    """
    folder = to_path(checkpoint.location)
    if folder is None:
        return [_item(checkpoint, "", Verdict.UNRECORDED, checkpoint.digest, "location not on this machine")]
    items = [_file_item(checkpoint, folder, file) for file in checkpoint.files]
    recorded = {file.path for file in checkpoint.files}
    items.extend(
        _item(checkpoint, entry.path, Verdict.CHANGED, "not recorded", f"{entry.size} bytes")
        for entry in inspect(folder).files
        if entry.path not in recorded
    )
    return items


def newest_verified(view: RunView) -> tuple[CheckpointRegistered, Path] | None:
    """The newest checkpoint of the run that holds on disk now, or None. See :func:`find_newest_verified`."""
    found = find_newest_verified(view)
    return (found.checkpoint, found.folder) if found else None


def find_newest_verified(view: RunView) -> NewestVerified | None:
    """The newest checkpoint that holds, with what was skipped; None if none does. See :func:`search_verified`."""
    looked = search_verified(view)
    if looked.found is None:
        return None
    skipped = tuple(unfit.text() for unfit in looked.unfit)
    return NewestVerified(checkpoint=looked.found[0], folder=looked.found[1], skipped=skipped)


def search_verified(view: RunView) -> Search:
    """Re-verify from the newest (attempt, step) backward until one holds; log and list what does not.

    A later attempt comes first even with a lower step: what it rewound past is an abandoned branch.
    Deleted checkpoints (with a tombstone) are passed over.
    """
    deleted = {stone.ref for _, stone in view.all(TombstoneWritten)}
    unfit: list[Unfit] = []
    for checkpoint in reversed(current(view).values()):
        if f"checkpoint:{checkpoint.checkpoint_id}" in deleted:
            continue
        folder = to_path(checkpoint.location)
        problems = _problems(checkpoint)
        if folder is not None and not problems:
            return Search(found=(checkpoint, folder), unfit=tuple(unfit))
        unfit.append(Unfit(checkpoint=checkpoint, problems=problems))
        log.warning("%s; falling back to the checkpoint before it", unfit[-1].text())
    return Search(found=None, unfit=tuple(unfit))


def _problems(checkpoint: CheckpointRegistered) -> tuple[str, ...]:
    """What does not hold, file by file; a folder that is gone is one problem, not one per file."""
    folder = to_path(checkpoint.location)
    if folder is not None and not folder.is_dir():
        return ("its folder is gone",)
    faults = [item for item in verify_checkpoint(checkpoint) if item.verdict is not Verdict.VERIFIED]
    return tuple(_fault(item) for item in faults)


def _fault(item: Item) -> str:
    name = item.id.rpartition("#")[2]
    if item.verdict is Verdict.CHANGED and item.found != "missing" and item.expected != "not recorded":
        return f"{name}: expected {item.expected}, found {item.found}"
    if item.expected == "not recorded":
        return f"{name}: not recorded, found {item.found}"
    return f"{name} {item.found}".strip()


def _file_item(checkpoint: CheckpointRegistered, folder: Path, file: FileDigest) -> Item:
    expected = f"{file.size} bytes, sha256:{file.sha256}"
    path = local(folder, file.path)
    if not path.exists() and not path.is_symlink():
        return _item(checkpoint, file.path, Verdict.CHANGED, expected, "missing")
    try:
        size, sha256 = hashing.hash_file(path, where=file.path)
    except CheckpointError as error:
        return _item(checkpoint, file.path, Verdict.CHANGED, expected, error.message)
    same = (size, sha256) == (file.size, file.sha256)
    found = f"{size} bytes, sha256:{sha256}"
    return _item(checkpoint, file.path, Verdict.VERIFIED if same else Verdict.CHANGED, expected, found)


def _item(checkpoint: CheckpointRegistered, path: str, verdict: Verdict, expected: str, found: str) -> Item:
    return Item(
        id=f"checkpoint:{checkpoint.checkpoint_id}#{path}",
        track="artifact",
        verdict=verdict,
        check=CHECK,
        checked_at=utc_now(),
        expected=expected,
        found=found,
        owner=checkpoint.responsible,
        hint=""
        if verdict is Verdict.VERIFIED
        else "Restore the file from a copy, or use another checkpoint.",
        requirement="R101",
    )
