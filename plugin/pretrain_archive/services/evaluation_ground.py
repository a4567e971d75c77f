"""Which checkpoint is evaluated, and the folder that programs read: its own, or a copy of what a bucket holds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts.fetching import fetch
from pretrain_archive.artifacts.location import to_path
from pretrain_archive.artifacts.parts import gone_parts, not_resumable
from pretrain_archive.artifacts.verification import newest_verified, newest_verified_anywhere
from pretrain_archive.domain.errors import CheckpointError, RefusedError
from pretrain_archive.domain.identity import text_to_path
from pretrain_archive.domain.kinds import CheckpointRegistered
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.progress import every


@dataclass(frozen=True, kw_only=True)
class Ground:
    """One checkpoint under evaluation; ``scratch`` is where a copy goes, None where it lies on this machine."""

    checkpoint: CheckpointRegistered
    caller: Caller
    scratch: Path | None = None

    @property
    def copied(self) -> Path | None:
        """The copy of what lies in a bucket, None where there is none."""
        return None if self.scratch is None else self.scratch / "checkpoint"

    def folder(self) -> Path:
        """The checkpoint's files, copied once where they lie in a bucket.

        Raises :class:`CheckpointError` where files are missing or of another size; of those on this machine every
        byte is read afterwards.
        """
        if self.copied is None:
            own = to_path(self.checkpoint.location)
            if own is None:
                raise RefusedError(f"{self.checkpoint.location} is no folder of this machine")
            require_there(self.checkpoint, own)
            return own
        if not self.copied.is_dir():
            fetch(self.checkpoint, self.copied, progress=every(self.caller.say, "copied"))
        return self.copied


@contextmanager
def ground_of(view: RunView, caller: Caller, checkpoint_id: str | None, work: Path) -> Iterator[Ground]:
    """The checkpoint of that id, by default the newest that holds; a copy of it goes with the block.

    :class:`RefusedError` if the run has none.
    """
    checkpoint = _newest(view) if checkpoint_id is None else _named(view, checkpoint_id)
    if to_path(checkpoint.location) is not None:
        yield Ground(checkpoint=checkpoint, caller=caller)
        return
    with tempfile.TemporaryDirectory(dir=work, prefix="evaluation-checkpoint-") as scratch:
        yield Ground(checkpoint=checkpoint, caller=caller, scratch=Path(scratch))


def require_there(checkpoint: CheckpointRegistered, folder: Path) -> None:
    """Raise :class:`CheckpointError` where files are missing or of another size."""
    for file in checkpoint.files:
        try:
            size = (folder / os.fsdecode(text_to_path(file.path))).lstat().st_size
        except OSError:
            size = -1
        if size != file.size:
            what = "was removed" if size < 0 else f"is {size} bytes long, {file.size} were registered"
            raise CheckpointError(
                f"checkpoint of step {checkpoint.step} ({checkpoint.checkpoint_id}) does not hold: {file.path} {what}.",
                hint="Evaluate a checkpoint that is still there; no numbers were stored.",
            )


def _newest(view: RunView) -> CheckpointRegistered:
    """The newest checkpoint that holds, wherever it lies; one of which needed parts were deleted is passed over."""
    found, _ = newest_verified_anywhere(view)
    if found is not None and not_resumable(gone_parts(view).get(found.checkpoint_id, ())):
        whole = newest_verified(view)
        found = whole[0] if whole else None
    if found is None:
        raise RefusedError(
            f"run {view.run_uid} has no verified checkpoint", hint="Run 'register_checkpoints' first."
        )
    return found


def _named(view: RunView, checkpoint_id: str) -> CheckpointRegistered:
    named = [c for _, c in view.all(CheckpointRegistered) if c.checkpoint_id == checkpoint_id]
    if not named:
        raise RefusedError(f"run {view.run_uid} has no checkpoint {checkpoint_id!r}")
    return named[-1]
