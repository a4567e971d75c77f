"""Which checkpoint "latest" means, and which folders of a run's checkpoint root are checkpoints at all.

Steps are numbers: 10000 comes after 9000. A pointer is resolved to a step and a folder once, checked, and
never recorded as a word. A pointer to something incomplete is refused; the newest complete checkpoint is
named but not taken in its place.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.identity import path_to_text

STEP_NAME = re.compile(
    r"(?:(?:(?:global_)?step|checkpoint|ckpt|iter|iteration)[-_]?)?(?P<step>[0-9]{1,18})"
    r"(?:\.attempt_(?P<attempt>[0-9]{1,9}))?"
)
"""A plain step, behind which a later attempt writes its number when the name is taken by other bytes."""

TRACKER_LIMIT = 4096
"""Bytes; a tracker holds a step or a folder's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFolder:
    """A folder whose name is a plain step; ``problems`` empty means complete.

    ``attempt`` is what the name states, None where it states none.
    """

    step: int
    attempt: int | None
    folder: Path
    problems: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether it may be registered."""
        return not self.problems


def step_of(name: str) -> int | None:
    """The step that a folder's name states (``step_200``, ``iter_0009000``, ``300``), or None.

    ``checkpoint-best``, ``checkpoint-10000-merged`` and ``tmp-checkpoint-10200`` state none.
    """
    found = STEP_NAME.fullmatch(name)
    return int(found["step"]) if found else None


def attempt_of(name: str) -> int | None:
    """The attempt that a folder's name states (``step_200.attempt_2``), or None."""
    found = STEP_NAME.fullmatch(name)
    return int(found["attempt"]) if found and found["attempt"] else None


def list_checkpoints(root: Path) -> list[StepFolder]:
    """The step folders directly below ``root``, oldest step first, each inspected. Links are not followed."""
    if not root.is_dir():
        raise CheckpointError(
            f"{_shown(root)}: expected a folder with checkpoints, found none.",
            hint="Check the checkpoint location.",
        )
    found = []
    for path in root.iterdir():
        step = step_of(path.name)
        if step is None or path.is_symlink() or not path.is_dir():
            continue
        seen = inspect(path)
        problems = list(seen.problems)
        if seen.step is not None and seen.step != step:
            problems.append(f"the folder's name says step {step}, its state file {seen.step}")
        found.append(
            StepFolder(step=step, attempt=attempt_of(path.name), folder=path, problems=tuple(problems))
        )
    return sorted(found, key=lambda entry: (entry.step, entry.attempt or 0, entry.folder.name))


def newest_complete(root: Path) -> StepFolder | None:
    """The complete checkpoint with the highest step, or None."""
    return next((entry for entry in reversed(list_checkpoints(root)) if entry.complete), None)


def resolve_latest(root: Path, pointer: str = "latest") -> StepFolder:
    """The complete step folder that ``root / pointer`` names: a link to it, or a file with step or name.

    Raises :class:`CheckpointError` for a dangling, unknown, empty or outside pointer, and for a folder that
    is not complete; the message names the reason and the newest complete checkpoint.
    """
    listed = list_checkpoints(root)
    wanted = _target(root, pointer, listed)
    chosen = [entry for entry in listed if wanted in (entry.folder.name, entry.step)]
    if not chosen:
        raise _refusal(root, pointer, f"names {wanted!r}, and there is no such checkpoint folder", listed)
    if len(chosen) > 1:
        names = ", ".join(entry.folder.name for entry in chosen)
        raise _refusal(root, pointer, f"names step {wanted}, and several folders state it: {names}", listed)
    if not chosen[0].complete:
        problems = "; ".join(chosen[0].problems)
        reason = f"names step {chosen[0].step}, which is not complete ({problems})"
        raise _refusal(root, pointer, reason, listed)
    return chosen[0]


def _target(root: Path, pointer: str, listed: list[StepFolder]) -> str | int:
    path = root / pointer
    if path.is_symlink():
        target = path.readlink()
        if (root / target).parent.resolve() != root.resolve():
            raise _refusal(
                root, pointer, f"points outside the checkpoint folder, to {_shown(target)}", listed
            )
        return target.name
    try:
        with path.open("rb") as file:
            raw = file.read(TRACKER_LIMIT + 1)
    except OSError as error:
        raise _refusal(root, pointer, f"cannot be read: {error.strerror}", listed) from error
    text = raw.decode("utf-8", "replace").strip()
    if not text:
        raise _refusal(root, pointer, "is empty", listed)
    if len(raw) > TRACKER_LIMIT or "/" in text or "\n" in text:
        raise _refusal(root, pointer, "holds neither a step nor a folder's name", listed)
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else text


def _refusal(root: Path, pointer: str, reason: str, listed: list[StepFolder]) -> CheckpointError:
    newest = next((entry for entry in reversed(listed) if entry.complete), None)
    hint = (
        f"The newest complete checkpoint is step {newest.step} ({newest.folder.name}); name it to use it."
        if newest
        else f"There is no complete checkpoint in {_shown(root)}."
    )
    return CheckpointError(f"pointer {pointer!r} {reason}.", hint=hint)


def _shown(path: Path) -> str:
    return path_to_text(os.fsencode(path))
