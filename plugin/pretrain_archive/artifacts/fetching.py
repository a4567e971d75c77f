"""Lay a checkpoint that lies in a bucket out in a folder: what runs on this machine needs files.

Every byte is hashed on its way, and only what was registered is laid out: a file that is missing, cut or another one
by now ends the work, and nothing is left behind that could be taken for the checkpoint.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from pretrain_archive.artifacts.hashing import BLOCK, Progress
from pretrain_archive.artifacts.readers import FileEntry, Reader, local, open_reader
from pretrain_archive.domain.errors import CheckpointError, RefusedError
from pretrain_archive.domain.identity import text_to_path
from pretrain_archive.domain.kinds import CheckpointRegistered, FileDigest

SPARE = 256 * 1024 * 1024
"""Bytes of the disk that stay free: logs, outputs and the ledger must still be written."""


def fetch(
    checkpoint: CheckpointRegistered,
    target: Path,
    *,
    reader: Reader | None = None,
    progress: Progress | None = None,
) -> Path:
    """Copy the registered files to the new folder ``target`` and return it.

    Raises :class:`RefusedError` where the disk has no room, :class:`CheckpointError` where bytes are not the
    registered ones, and :class:`StorageError` for a bucket that does not answer.
    """
    reader = reader or open_reader(checkpoint.location)
    _require_room(checkpoint, target.parent)
    present = {file.path: file for file in reader.listing().files}
    hidden = target.with_name(target.name + ".part")
    shutil.rmtree(hidden, ignore_errors=True)  # of a try that broke off
    hidden.mkdir()
    if (expect := getattr(progress, "expect", None)) is not None:
        expect(len(checkpoint.files), sum(file.size for file in checkpoint.files))
    done = 0
    for number, file in enumerate(checkpoint.files):
        entry = present.get(file.path)
        if entry is None or entry.size != file.size:
            raise _fault(checkpoint, file, "was removed" if entry is None else f"is {entry.size} bytes long")
        done = _copy(
            reader, entry, hidden, checkpoint=checkpoint, file=file, progress=progress, at=(number, done)
        )
    if progress is not None:
        progress(len(checkpoint.files), done)
    hidden.rename(target)
    return target


def require_listed(checkpoint: CheckpointRegistered, *, reader: Reader | None = None) -> None:
    """Raise :class:`CheckpointError` unless the bucket still lists every registered file in its registered state."""
    present = {file.path: file for file in (reader or open_reader(checkpoint.location)).listing().files}
    for file in checkpoint.files:
        entry = present.get(file.path)
        if entry is None:
            raise _fault(checkpoint, file, "was removed")
        if entry.size != file.size or (file.version is not None and entry.version != file.version):
            raise _fault(checkpoint, file, "was written again")


def _copy(
    reader: Reader, entry: FileEntry, folder: Path, *, checkpoint: CheckpointRegistered, file: FileDigest,
    progress: Progress | None, at: tuple[int, int],
) -> int:  # fmt: skip
    """Write one file, hashing it; the bytes done so far with it."""
    if any(part in {b"", b".", b".."} for part in text_to_path(file.path).split(b"/")):
        raise _fault(checkpoint, file, "has a name that no folder could hold")
    place = local(folder, file.path)
    place.parent.mkdir(parents=True, exist_ok=True)
    digest, (files, done) = hashlib.sha256(), at
    with reader.open(entry) as source, place.open("xb") as made:
        while block := source.read(BLOCK):
            digest.update(block)
            made.write(block)
            done += len(block)
            if done - at[1] > file.size:
                raise _fault(checkpoint, file, f"is longer than the registered {file.size} bytes")
            if progress is not None:
                progress(files, done)
    if digest.hexdigest() != file.sha256:
        raise _fault(checkpoint, file, f"is sha256:{digest.hexdigest()}, sha256:{file.sha256} was registered")
    return done


def _require_room(checkpoint: CheckpointRegistered, folder: Path) -> None:
    needed, free = sum(file.size for file in checkpoint.files), shutil.disk_usage(folder).free
    if needed + SPARE > free:
        raise RefusedError(
            f"checkpoint {checkpoint.checkpoint_id} lies in a bucket and has {needed} bytes; "
            f"{free} are free where runs are kept, {SPARE} of them must stay so",
            hint="Free some space, or point the folder of runs to a larger disk.",
        )


def _fault(checkpoint: CheckpointRegistered, file: FileDigest, what: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint of step {checkpoint.step} ({checkpoint.checkpoint_id}) does not hold: {file.path} {what}.",
        hint="Use a checkpoint that is still there; nothing was taken from this one.",
    )
