"""The bytes of artifacts, as far as deletion needs them: look, remove, finish.

A removal can be cut between any two steps. A small journal beside the artifact, durable before the first byte goes
and removed after the tombstone is written, tells the next pass that it was us, and how much there was. The
completion marker goes first, so that a half-removed checkpoint is never taken for a whole one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pretrain_archive.domain.kinds import FileDigest

Presence = Literal["present", "partial", "missing", "unreachable", "changed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What is to be removed: the artifact's reference, its address and its recorded files."""

    ref: str
    location: str
    files: tuple[FileDigest, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What is there now. ``begun`` is True while a removal of ours is unfinished."""

    presence: Presence
    bytes_present: int = 0
    detail: str = ""
    begun: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Removed:
    """A removal that was verified: no recorded file is there any more.

    ``bytes_released`` counts what was there when the removal began, over all its tries.
    """

    bytes_released: int
    already_missing: bool


class ArtifactFiles(Protocol):
    """Where artifacts lie. Does not decide what may go, and never removes what is not in ``target.files``."""

    def handles(self, location: str) -> bool:
        """Whether this place knows such addresses."""

    def look(self, target: Target) -> Look:
        """What is there; never raises for what it finds."""

    def remove(self, target: Target, *, plan_digest: str) -> Removed:
        """Remove and verify absence; ``StorageError`` names what stands in the way. May be repeated."""

    def finish(self, target: Target) -> None:
        """Forget the journal, once the tombstone stands. May be repeated."""


def choose(places: Sequence[ArtifactFiles], location: str) -> ArtifactFiles | None:
    """The first place that handles ``location``, or None."""
    return next((place for place in places if place.handles(location)), None)
