"""The bytes of artifacts, as far as deletion needs them: look, remove, finish.

A removal can be cut between any two steps. A small journal beside the artifact, durable before the first byte goes
and removed after the tombstone is written, tells the next pass that it was us, and how much there was. The
completion marker goes first, so that a half-removed checkpoint is never taken for a whole one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pretrain_archive.artifacts.formats.parts import component_of
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.domain.kinds import CheckpointRegistered, FileDigest
from pretrain_archive.storage.bulk import KeyFault

Presence = Literal["present", "partial", "missing", "unreachable", "changed"]

MOST_NAMED = 5
"""Faults that a message names; a record holds them all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What is to be removed: the artifact's reference, its address and its recorded files.

    With ``parts`` only the files of these components go, and ``keep`` are the recorded files that must stay.
    ``digest_of`` says what the plan's digest of it is over. ``recorded_at`` is when it was recorded, if known: bytes
    that changed later are compared with the record before they go.
    """

    ref: str
    location: str
    files: tuple[FileDigest, ...]
    parts: tuple[str, ...] = ()
    keep: tuple[FileDigest, ...] = ()
    digest_of: Literal["content", "manifest", "listing"] = "content"
    recorded_at: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What is there now. ``begun`` is True while a removal of ours is unfinished.

    ``bytes_present`` are the sizes of the files; ``bytes_held`` is what a removal would release now (see
    :class:`Removed`); where the place cannot tell them apart both are the same.
    """

    presence: Presence
    bytes_present: int = 0
    detail: str = ""
    begun: bool = False
    bytes_held: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Removed:
    """A removal that was verified: no recorded file is there any more.

    ``bytes_released`` counts what was there when the removal began, over all its tries: of a file system the bytes
    of content that no other name holds, without holes and without the rounding to blocks; of a bucket all versions.
    ``versions`` are versions and delete markers of objects, 0 on a file system.
    """

    bytes_released: int
    already_missing: bool
    versions: int = 0


class PartlyDeletedError(StorageError):
    """Some of it went and some did not: ``faults`` name what stays; the next pass tries only that."""

    code = "partly_deleted"

    def __init__(self, where: str, *, faults: Sequence[KeyFault], gone: int, bytes_gone: int = 0) -> None:
        named = ", ".join(f"{fault.key} ({fault.code}: {fault.message})" for fault in faults[:MOST_NAMED])
        more = f" and {len(faults) - MOST_NAMED} more" if len(faults) > MOST_NAMED else ""
        super().__init__(
            f"{where}: partly deleted: {gone} gone, still there: {named}{more}.",
            hint="Free what stays; the next pass tries only that.",
        )
        self.faults = tuple(faults)
        self.gone = gone
        self.bytes_gone = bytes_gone


class ArtifactFiles(Protocol):
    """Where artifacts lie. Does not decide what may go, and never removes what is not in ``target.files``."""

    def handles(self, location: str) -> bool:
        """Whether this place knows such addresses."""

    def look(self, target: Target) -> Look:
        """What is there; never raises for what it finds."""

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """Remove and verify absence; ``StorageError`` names what stands in the way. May be repeated.

        :class:`PartlyDeletedError` where something went and something did not.
        """

    def finish(self, target: Target) -> None:
        """Forget the journal, once the tombstone stands. May be repeated."""


def choose(places: Sequence[ArtifactFiles], location: str) -> ArtifactFiles | None:
    """The first place that handles ``location``, or None."""
    return next((place for place in places if place.handles(location)), None)


def target_for(
    fact: CheckpointRegistered,
    *,
    parts: Collection[str] = (),
    gone: Collection[str] = (),
    recorded_at: str = "",
) -> Target:
    """What is to be removed of a checkpoint: all of it, or the files of some ``parts``.

    ``gone`` are parts that were deleted before.
    """
    there = [file for file in fact.files if component_of(file.path) not in gone]
    going = [file for file in there if not parts or component_of(file.path) in parts]
    names = {file.path for file in going}
    return Target(
        ref=part_ref(fact.checkpoint_id, parts),
        location=fact.location,
        files=tuple(going),
        parts=tuple(sorted(parts)),
        keep=tuple(file for file in there if file.path not in names),
        recorded_at=recorded_at,
    )


def part_ref(checkpoint_id: str, parts: Collection[str]) -> str:
    """The reference of a checkpoint, or of parts of it: ``checkpoint:ID#optimizer``."""
    return f"checkpoint:{checkpoint_id}" + (f"#{'+'.join(sorted(parts))}" if parts else "")
