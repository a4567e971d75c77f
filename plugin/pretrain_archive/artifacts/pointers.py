"""Which checkpoint "latest" means, and which folders of a run's checkpoint root are checkpoints at all.

Steps are numbers: 10000 comes after 9000. A pointer is resolved to a step and a folder once, checked, and
never recorded as a word. A pointer to something incomplete is refused; the newest complete checkpoint is
named but not taken in its place.

Pointers are links, and files with a step or a folder's name: ``latest`` (DeepSpeed: ``global_step100``),
``latest_checkpointed_iteration.txt`` (Megatron-LM, NeMo: ``100`` for ``iter_0000100``, or the word ``release`` for a
folder of that name, whose step only it itself can state).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.readers import FolderReader, Reader
from pretrain_archive.artifacts.roots import LINK, TRACKER_LIMIT, Root, open_root
from pretrain_archive.domain.errors import CheckpointError

STEP_NAME = re.compile(
    r"(?:(?:(?:global_)?step|checkpoint|ckpt|iter|iteration)[-_]?)?(?P<step>[0-9]{1,18})"
    r"(?:\.attempt_(?P<attempt>[0-9]{1,9}))?"
)
"""A plain step, behind which a later attempt writes its number when the name is taken by other bytes."""

METRIC_NAME = re.compile(
    r"(?:.*[-_])?step=(?P<step>[0-9]{1,18})(?:-[a-z_]{1,40}=[0-9.]{1,40})*(?:-last)?(?:-v[0-9]{1,4})?(?:\.ckpt)?"
)
"""NeMo 2 and Lightning: ``gpt--val_loss=1.00-step=9-consumed_samples=80.0-last``, ``epoch=0-step=100.ckpt``."""

POINTERS = ("latest", "latest_checkpointed_iteration.txt", "latest_iteration.txt")
"""The names that are looked for, in this order, where none is given."""

RELEASE = "release"


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedFolder:
    """A folder whose name is a plain step, not looked into yet; ``attempt`` is what the name states, or None."""

    step: int
    attempt: int | None
    reader: Reader


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFolder:
    """A folder whose name is a plain step; ``problems`` empty means complete.

    ``attempt`` is what the name states, None where it states none.
    """

    step: int
    attempt: int | None
    reader: Reader
    problems: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether it may be registered."""
        return not self.problems

    @property
    def name(self) -> str:
        """What the folder is called."""
        return self.reader.name

    @property
    def folder(self) -> Path:
        """The folder on this machine; :class:`CheckpointError` for one in a bucket."""
        if not isinstance(self.reader, FolderReader):
            raise CheckpointError(f"{self.reader.location} is not a folder of this machine.")
        return self.reader.folder


def step_of(name: str) -> int | None:
    """The step that a folder's name states (``step_200``, ``iter_0009000``, ``300``, ``…-step=9-last``), or None.

    ``checkpoint-best``, ``checkpoint-10000-merged`` and ``tmp-checkpoint-10200`` state none.
    """
    found = STEP_NAME.fullmatch(name) or METRIC_NAME.fullmatch(name)
    return int(found["step"]) if found else None


def attempt_of(name: str) -> int | None:
    """The attempt that a folder's name states (``step_200.attempt_2``), or None."""
    found = STEP_NAME.fullmatch(name)
    return int(found["attempt"]) if found and found["attempt"] else None


def list_checkpoints(root: Path | str | Root) -> list[StepFolder]:
    """The step folders directly below ``root`` (a folder or an address), oldest step first, each inspected."""
    return [_inspected(named) for named in named_checkpoints(root)]


def named_checkpoints(root: Path | str | Root) -> list[NamedFolder]:
    """The step folders directly below ``root``, oldest step first, by their names alone."""
    place = open_root(root)
    found = [
        NamedFolder(step=step, attempt=attempt_of(name), reader=place.child(name))
        for name in place.children()
        if (step := step_of(name)) is not None
    ]
    return sorted(found, key=lambda entry: (entry.step, entry.attempt or 0, entry.reader.name))


def _inspected(named: NamedFolder) -> StepFolder:
    seen = inspect(named.reader)
    problems = list(seen.problems)
    if seen.step is not None and seen.step != named.step:
        problems.append(f"the folder's name says step {named.step}, its state file {seen.step}")
    return StepFolder(step=named.step, attempt=named.attempt, reader=named.reader, problems=tuple(problems))


def _release(reader: Reader) -> StepFolder:
    """A folder whose name states no step: only it itself can."""
    seen = inspect(reader)
    if seen.step is None:
        raise CheckpointError(
            f"{reader.name!r} states no step.", hint="Register that folder by its own name, with its step."
        )
    return StepFolder(step=seen.step, attempt=None, reader=reader, problems=seen.problems)


def newest_complete(root: Path | str | Root) -> StepFolder | None:
    """The complete checkpoint with the highest step, or None."""
    inspected = map(_inspected, reversed(named_checkpoints(root)))  # no further than the first that is
    return next((entry for entry in inspected if entry.complete), None)


def find_pointer(root: Path | str | Root) -> str | None:
    """The name of the pointer that is there, by :data:`POINTERS`, or None."""
    place = open_root(root)
    for name in POINTERS:
        try:
            place.pointer(name)
        except CheckpointError as error:
            if "no such" not in error.message.lower():
                return name
        else:
            return name
    return None


def resolve_latest(root: Path | str | Root, pointer: str = "latest") -> StepFolder:
    """The complete step folder that ``pointer`` below ``root`` names: a link to it, or a file with step or name.

    Raises :class:`CheckpointError` for a dangling, unknown, empty or outside pointer, and for a folder that
    is not complete; the message names the reason and the newest complete checkpoint.
    """
    place = open_root(root)
    if "/" in pointer or pointer in {"", ".", ".."}:
        raise CheckpointError(f"pointer {pointer!r} is not a name beside the checkpoints.")
    named = named_checkpoints(place)
    try:
        wanted = _target(*place.pointer(pointer))
        if wanted == RELEASE and RELEASE in place.children():
            chosen = [_release(place.child(RELEASE))]
        else:
            chosen = [_inspected(each) for each in named if wanted in (each.reader.name, each.step)]
    except CheckpointError as error:
        reason = error.message.rstrip(".")
        raise _refusal(place, pointer, reason, error.hint) from error
    if not chosen:
        raise _refusal(place, pointer, f"names {wanted!r}, and there is no such checkpoint folder")
    if len(chosen) > 1:
        names = ", ".join(entry.name for entry in chosen)
        raise _refusal(place, pointer, f"names step {wanted}, and several folders state it: {names}")
    if not chosen[0].complete:
        problems = "; ".join(chosen[0].problems)
        reason = f"names step {chosen[0].step}, which is not complete ({problems})"
        raise _refusal(place, pointer, reason)
    return chosen[0]


def _target(kind: str, raw: bytes) -> str | int:
    text = raw.decode("utf-8", "surrogateescape" if kind == LINK else "replace")
    if kind == LINK:
        return text
    text = text.strip()
    if not text:
        raise CheckpointError("is empty.")
    if len(raw) > TRACKER_LIMIT or "/" in text or "\n" in text:
        raise CheckpointError("holds neither a step nor a folder's name.")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else text


def _refusal(place: Root, pointer: str, reason: str, more: str = "") -> CheckpointError:
    newest = newest_complete(place)
    hint = (
        f"The newest complete checkpoint is step {newest.step} ({newest.name}); name it to use it."
        if newest
        else f"There is no complete checkpoint in {place.location}."
    )
    return CheckpointError(f"pointer {pointer!r} {reason}.", hint=f"{more} {hint}".strip())
