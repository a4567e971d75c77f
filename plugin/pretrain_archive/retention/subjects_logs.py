"""Logs of attempts and evaluations: kept as long as policy says, the sensitive ones by rules of their own (R155).

A log that holds what must not be kept longer than allowed is of the class ``sensitive log``; who finds that out is
given. After deletion its digest stays in the record of the attempt and in the tombstone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.domain.records import Record
from pretrain_archive.retention.files import ArtifactFiles, Target
from pretrain_archive.retention.subjects import Subject
from pretrain_archive.retention.trees import TreeFiles, measure

if TYPE_CHECKING:
    from pretrain_archive.retention.world import World

KINDS = ("attempt.ended", "evaluation.failed", "evaluation.finished")
"""Records that may name a log by ``log_uri`` and ``log_digest``."""


def _never(path: Path) -> bool:
    del path
    return False


@dataclass(frozen=True, kw_only=True)
class Logs:
    """Finds and removes them. ``sensitive`` says of a log whether it holds findings."""

    sensitive: Callable[[Path], bool] = _never
    files: ArtifactFiles = field(default_factory=TreeFiles)

    def find(self, world: World) -> Iterator[Subject]:
        """See :class:`SubjectSource`."""
        for record in world.ledger.records(kinds=KINDS):
            if record.payload.get("log_uri") and record.payload.get("log_digest"):
                yield self._subject(world, record)

    def handles(self, item: Mapping[str, Any]) -> bool:
        """See :class:`Undertaker`."""
        return item.get("kind") == "log"

    def target(self, item: Mapping[str, Any]) -> tuple[Target, ArtifactFiles]:
        """See :class:`Undertaker`."""
        return Target(ref=str(item["id"]), location=str(item["location"]), files=()), self.files

    def _subject(self, world: World, record: Record) -> Subject:
        location, digest = str(record.payload["log_uri"]), str(record.payload["log_digest"])
        run = world.runs.get(record.stream)
        what = f"attempt-{record.attempt}" if record.kind == "attempt.ended" else record.kind
        size, missing, gaps, sensitive = self._look(location, digest)
        return Subject(
            ref=f"log:{record.stream}/{what}@{digest[7:19]}", kind="log",
            artifact_class="sensitive log" if sensitive else "log", purpose=what,
            project=run.project if run else "", run_uid=record.stream, attempt=record.attempt,
            registered_at=record.recorded_at, size=size, location=location, digest=digest, missing=missing,
            gaps=gaps,
        )  # fmt: skip

    def _look(self, location: str, digest: str) -> tuple[int, bool, tuple[str, ...], bool]:
        """Bytes, whether it is gone, what cannot be told, and whether it holds findings."""
        path = to_path(location)
        if path is None or not path.parent.is_dir():
            return 0, False, (f"{location} is not reachable from here",), False
        if not os.path.lexists(path):
            return 0, True, (), False
        try:
            found = measure(path)
            if found.digest != digest:
                return found.held, False, (f"{location} holds another content than was recorded",), False
            return found.held, False, (), self.sensitive(path)
        except OSError as error:
            return 0, False, (f"{location} cannot be read: {error.strerror}",), False
