"""Is a registered checkpoint still what was recorded? Every file is read again, in a folder or a bucket.

In a bucket the newest version counts, since that is what a program would load: the recorded version id only tells,
where the bytes are others, that the recorded ones may still be had.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts import hashing
from pretrain_archive.artifacts.formats.parts import component_of
from pretrain_archive.artifacts.generations import current, overwritten
from pretrain_archive.artifacts.hash_stamps import HashStamps
from pretrain_archive.artifacts.location import to_path
from pretrain_archive.artifacts.parts import gone_parts, not_resumable, whole_stones
from pretrain_archive.artifacts.readers import FileEntry, FolderReader, Reader, local, open_reader
from pretrain_archive.domain.errors import CheckpointError, InputError, StorageError
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.kinds import CheckpointRegistered, FileDigest
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict

log = logging.getLogger(__name__)

CHECK = "every byte read and hashed with SHA-256, compared with the record"
CHECK_STAMPED = (
    "not written since every byte was hashed, by its stamp (or read and hashed); compared with the record"
)
CHECK_BURIED = "a tombstone says that this part was deleted; it is looked for, not read"
ELSEWHERE = "lies in a bucket, and what runs on this machine needs it in a folder"

Opened = Callable[[str], Reader]


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


def verify_checkpoint(
    checkpoint: CheckpointRegistered,
    *,
    stamps: HashStamps | None = None,
    progress: hashing.Progress | None = None,
    opened: Opened = open_reader,
    gone: Collection[str] = (),
) -> list[Item]:
    """One item per recorded file, and one per file that lies beside them and is not recorded.

    By default every byte is read; files that ``stamps`` know are taken as they were hashed. ``gone`` are parts that
    were deleted (:mod:`parts`): their files must be absent. A location that is out of reach gives ``unrecorded``: it
    was not checked.
    """
    try:
        reader = opened(checkpoint.location)
        listed = {file.path: file for file in reader.listing().files}
    except InputError:
        return [_item(checkpoint, "", Verdict.UNRECORDED, checkpoint.digest, "location not on this machine")]
    except StorageError as error:
        return [
            _item(checkpoint, "", Verdict.UNRECORDED, checkpoint.digest, f"out of reach: {error.message}")
        ]
    except CheckpointError as error:
        found = "missing" if _gone(checkpoint) else error.message
        return [_item(checkpoint, f.path, Verdict.CHANGED, _expected(f), found) for f in checkpoint.files]
    try:
        absent = {file.path for file in checkpoint.files if component_of(file.path) in gone}
        rest = checkpoint.model_copy(update={"files": [f for f in checkpoint.files if f.path not in absent]})
        buried = [_buried(checkpoint, path, listed.pop(path, None)) for path in sorted(absent)]
        return [*buried, *_compare(rest, reader, listed, stamps, progress)]
    except StorageError as error:
        return [
            _item(checkpoint, "", Verdict.UNRECORDED, checkpoint.digest, f"out of reach: {error.message}")
        ]


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
    """Re-verify from the newest (attempt, step) backward until one in a folder of this machine holds.

    A later attempt comes first even with a lower step: what it rewound past is an abandoned branch.
    Deleted checkpoints (with a tombstone) are passed over; what does not hold is logged and listed.
    """
    unfit: list[Unfit] = []
    for checkpoint in _newest_first(view):
        folder = to_path(checkpoint.location)
        lost = not_resumable(gone_parts(view).get(checkpoint.checkpoint_id, ()))
        problems = (ELSEWHERE,) if folder is None else (lost,) if lost else _problems(view, checkpoint)
        if folder is not None and not problems:
            return Search(found=(checkpoint, folder), unfit=tuple(unfit))
        unfit.append(Unfit(checkpoint=checkpoint, problems=problems))
        log.warning("%s; falling back to the checkpoint before it", unfit[-1].text())
    return Search(found=None, unfit=tuple(unfit))


def newest_verified_anywhere(
    view: RunView, *, opened: Opened = open_reader
) -> tuple[CheckpointRegistered | None, tuple[Unfit, ...]]:
    """The newest checkpoint of the run that holds now, in a folder or a bucket, and each newer one that does not."""
    unfit: list[Unfit] = []
    for checkpoint in _newest_first(view):
        problems = _problems(view, checkpoint, opened)
        if not problems:
            return checkpoint, tuple(unfit)
        unfit.append(Unfit(checkpoint=checkpoint, problems=problems))
    return None, tuple(unfit)


def _newest_first(view: RunView) -> Iterator[CheckpointRegistered]:
    deleted = whole_stones(view)
    for checkpoint in reversed(current(view).values()):
        if f"checkpoint:{checkpoint.checkpoint_id}" not in deleted:
            yield checkpoint


def _problems(
    view: RunView, checkpoint: CheckpointRegistered, opened: Opened = open_reader
) -> tuple[str, ...]:
    """What does not hold, file by file; a folder that is gone is one problem, not one per file."""
    if _gone(checkpoint):
        return ("its folder is gone",)
    gone = gone_parts(view).get(checkpoint.checkpoint_id, frozenset())
    items = verify_checkpoint(checkpoint, opened=opened, gone=gone)
    faults = [_fault(item) for item in items if item.verdict is not Verdict.VERIFIED]
    other = overwritten(view).get(checkpoint.checkpoint_id)
    if faults and other is not None:
        by = other.replaced_by or f"other bytes ({other.found_digest})"
        faults.insert(0, f"its source was overwritten in attempt {other.found_attempt} by {by}")
    return tuple(faults)


def _gone(checkpoint: CheckpointRegistered) -> bool:
    folder = to_path(checkpoint.location)
    return folder is not None and not folder.is_dir()


def _fault(item: Item) -> str:
    name = item.id.rpartition("#")[2]
    if item.verdict is Verdict.CHANGED and item.found != "missing" and item.expected != "not recorded":
        return f"{name}: expected {item.expected}, found {item.found}"
    if item.expected == "not recorded":
        return f"{name}: not recorded, found {item.found}"
    return f"{name} {item.found}".strip()


def _compare(
    checkpoint: CheckpointRegistered,
    reader: Reader,
    listed: dict[str, FileEntry],
    stamps: HashStamps | None,
    progress: hashing.Progress | None,
) -> Iterator[Item]:
    recorded = {file.path for file in checkpoint.files}
    present = [listed[file.path] for file in checkpoint.files if file.path in listed]
    digests = hashing.hash_each(reader, present, stamps=stamps, progress=progress)
    check = CHECK if stamps is None else CHECK_STAMPED
    for file in checkpoint.files:
        entry, expected = listed.get(file.path), _expected(file)
        if entry is None:
            yield _item(checkpoint, file.path, Verdict.CHANGED, expected, _absence(reader, file), check)
            continue
        digest = digests[file.path]
        if isinstance(digest, CheckpointError):
            yield _item(checkpoint, file.path, Verdict.CHANGED, expected, digest.message, check)
            continue
        same = (entry.size, digest) == (file.size, file.sha256)
        found = f"{entry.size} bytes, sha256:{digest}"
        if not same and file.version and entry.version != file.version:
            found += f", written over version {file.version}"
        yield _item(
            checkpoint, file.path, Verdict.VERIFIED if same else Verdict.CHANGED, expected, found, check
        )
    for path, entry in listed.items():
        if path not in recorded:
            yield _item(checkpoint, path, Verdict.CHANGED, "not recorded", f"{entry.size} bytes", check)


def _buried(checkpoint: CheckpointRegistered, path: str, found: FileEntry | None) -> Item:
    """A file of a part that has a tombstone: it must not be there."""
    verdict = Verdict.VERIFIED if found is None else Verdict.CHANGED
    text = "absent" if found is None else f"{found.size} bytes"
    return _item(checkpoint, path, verdict, "deleted, by its tombstone", text, CHECK_BURIED)


def _absence(reader: Reader, file: FileDigest) -> str:
    """Nothing, or what lies in a file's place."""
    if isinstance(reader, FolderReader) and os.path.lexists(local(reader.folder, file.path)):
        try:
            reader.open(FileEntry(path=file.path, size=file.size)).close()
        except CheckpointError as error:
            return error.message
    return "missing"


def _expected(file: FileDigest) -> str:
    return f"{file.size} bytes, sha256:{file.sha256}"


def _item(  # noqa: PLR0917 - the parts of one line, in its order
    checkpoint: CheckpointRegistered,
    path: str,
    verdict: Verdict,
    expected: str,
    found: str,
    check: str = CHECK,
) -> Item:
    return Item(
        id=f"checkpoint:{checkpoint.checkpoint_id}#{path}",
        track="artifact",
        verdict=verdict,
        check=check,
        checked_at=utc_now(),
        expected=expected,
        found=found,
        owner=checkpoint.responsible,
        hint=""
        if verdict is Verdict.VERIFIED
        else "Restore the file from a copy, or use another checkpoint.",
        requirement="R101",
    )
