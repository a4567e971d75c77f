"""One pass over an approved plan: for each thing ask again, remove, verify absence, write the tombstone.

In batches of a thousand: the tombstones of a batch are written together, after the absence of each was proven, and
the journals are forgotten after that. A pass that is cut is completed by the next one over the same plan.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from pretrain_archive.domain.errors import ArchiveError, StorageError
from pretrain_archive.domain.kinds import RetentionApproved
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.burying import TOMBSTONE, Burial
from pretrain_archive.retention.files import (
    ArtifactFiles,
    PartlyDeletedError,
    Removed,
    Target,
    choose,
)
from pretrain_archive.retention.known import Known
from pretrain_archive.retention.results import OPEN, Applied, Outcome, Result
from pretrain_archive.retention.subjects import SubjectSource

log = logging.getLogger(__name__)

__all__ = [
    "OPEN",
    "Applied",
    "Deletion",
    "Finder",
    "Judge",
    "Progress",
    "Result",
    "Stay",
    "Undertaker",
    "silent",
]

BATCH = 1000
LONGEST_BATCH = 10.0
"""Seconds after which a batch's tombstones are written even if it is not full."""

ItemOf = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stay:
    """Why something of the plan is not deleted now; ``later`` if that may pass.

    ``other``: it is not found as it was planned. A removal of ours that was cut looks like that, too.
    """

    reason: str
    later: bool = False
    other: bool = False


class Judge(Protocol):
    """Whether the plan still holds: asked for each batch, and again right before each deletion."""

    def judge(self, items: Sequence[ItemOf]) -> Mapping[str, Stay]:
        """Of a batch, those that stay; what is left out may go. Reads everything anew."""

    def moved(self, items: Sequence[ItemOf]) -> Mapping[str, Stay]:
        """What became live since :meth:`judge`; cheap while nothing was recorded."""


class Undertaker(Protocol):
    """Knows what bytes stand behind things that are no checkpoints."""

    def handles(self, item: ItemOf) -> bool:
        """Whether it is of a kind that this one knows."""

    def target(self, item: ItemOf) -> tuple[Target, ArtifactFiles]:
        """What is to be removed now and by whom; ``StorageError`` where it is not as planned."""


class Finder(SubjectSource, Undertaker, Protocol):
    """Finds things of other kinds than checkpoints, and knows what bytes stand behind each."""


Progress = Callable[[int, int, int], None]
"""Told after each batch: things done, things in all (0: unknown), bytes released."""


def silent(done: int, total: int, released: int) -> None:
    """Progress that nobody reads."""
    del done, total, released


@dataclass(kw_only=True)
class Deletion:
    """Carries out plans that an approval covers. Whether it does is checked by the caller."""

    ledger: Ledger
    judge: Judge
    places: Sequence[ArtifactFiles]
    approval: RetentionApproved
    actor: Actor
    origin: Origin
    undertakers: Sequence[Undertaker] = ()
    progress: Progress = silent
    _results: list[Result] = field(default_factory=list)

    def run(self, items: Iterable[ItemOf], *, total: int = 0) -> Applied:
        """Try every deletion among ``items``; the outcome of each is in the result, in their order."""
        self._burial = Burial(
            ledger=self.ledger, approval=self.approval, actor=self.actor, origin=self.origin
        )
        self._forget_journals()
        going = (item for item in items if str(item["action"]).startswith("delete"))
        while batch := list(islice(going, BATCH)):
            self._batch(batch)
            released = sum(result.bytes_released for result in self._results)
            self.progress(len(self._results), max(total, len(self._results)), released)
        return Applied(plan_digest=self.approval.plan_digest, results=tuple(self._results))

    def _forget_journals(self) -> None:
        """Forget the journals of what an earlier pass buried before it was cut, whatever plan is carried out now."""
        after = max((r.position for r in self.ledger.records(kinds=["retention.applied"])), default=-1)
        for record in self.ledger.records(kinds=[TOMBSTONE], after=after):
            ref, parts = str(record.payload["ref"]), tuple(record.payload.get("parts") or ())
            location = str(record.payload.get("location") or "")
            item = {
                "id": ref,
                "kind": ref.partition(":")[0],
                "location": location,
                "class": "",
                "action": "delete",
            }
            whole = f"{ref}#{'+'.join(sorted(parts))}" if parts else ref
            target: Target | None = Target(ref=whole, location=location, files=(), parts=parts)
            place = choose(self.places, location) if ref.startswith("checkpoint:") else None
            with suppress(ArchiveError):
                for undertaker in self.undertakers:
                    if undertaker.handles(item):
                        target, place = undertaker.target(item)
                if place is not None and target is not None and location:
                    place.finish(target)

    def _batch(self, batch: Sequence[ItemOf]) -> None:
        known = Known.of(self.ledger, batch)
        stay = dict(self.judge.judge(batch))
        results: dict[int, Result] = {}
        waiting: list[tuple[int, Target, ArtifactFiles, Removed]] = []
        since = time.monotonic()
        for number, item in enumerate(batch):
            stay |= self.judge.moved(batch[number:])
            done = self._one(item, known, stay)
            if isinstance(done, Result):
                results[number] = done
            else:
                waiting.append((number, *done))
            if waiting and time.monotonic() - since > LONGEST_BATCH:
                results |= self._bury(batch, waiting)
                waiting, since = [], time.monotonic()
        results |= self._bury(batch, waiting)
        self._results += [results[number] for number in sorted(results)]

    def _one(
        self, item: ItemOf, known: Known, stay: Mapping[str, Stay]
    ) -> Result | tuple[Target, ArtifactFiles, Removed]:
        """The outcome, or a removal whose absence is proven and whose tombstone is to be written."""
        ref = str(item["id"])
        try:
            found = self._target(item, known)
        except ArchiveError as error:
            return self._told(item, "kept_for_later", error.message)
        if found is None:
            return self._told(item, "kept", "no registered artifact that is reachable from here")
        target, place = found
        if known.buried(target):
            place.finish(target)
            return self._told(item, "already_deleted", "its tombstone stands")
        why = stay.get(ref)
        if why is not None and not (why.other and place.look(target).begun):
            return self._told(item, "kept_for_later" if why.later else "kept", why.reason)
        return self._remove(item, target, place)

    def _remove(
        self, item: ItemOf, target: Target, place: ArtifactFiles
    ) -> Result | tuple[Target, ArtifactFiles, Removed]:
        try:
            removed = place.remove(target, plan_digest=self.approval.plan_digest)
        except PartlyDeletedError as error:
            log.warning("%s: %s", target.ref, error)
            self._burial.mark(item, target, error)
            return self._told(item, "partly_deleted", str(error))
        except StorageError as error:
            log.warning("%s not deleted: %s", target.ref, error)
            return self._told(item, "failed", str(error))
        left = place.look(target).presence
        if left != "missing":
            return self._told(item, "failed", f"absence not verified: {left}")
        return target, place, removed

    def _bury(
        self, batch: Sequence[ItemOf], waiting: Sequence[tuple[int, Target, ArtifactFiles, Removed]]
    ) -> dict[int, Result]:
        if not waiting:
            return {}
        ours = self._burial.entomb([(batch[number], target, gone) for number, target, _, gone in waiting])
        results = {}
        for (number, target, place, removed), written in zip(waiting, ours, strict=True):
            place.finish(target)
            item = batch[number]
            if not written:
                results[number] = self._told(item, "already_deleted", "its tombstone stands")
                continue
            log.info("%s deleted, %s bytes released", target.ref, removed.bytes_released)
            outcome: Outcome = "already_missing" if removed.already_missing else "deleted"
            results[number] = self._told(item, outcome, str(item["reason"]), removed)
        return results

    def _target(self, item: ItemOf, known: Known) -> tuple[Target, ArtifactFiles] | None:
        for undertaker in self.undertakers:
            if undertaker.handles(item):
                return undertaker.target(item)
        target = known.target(item)
        place = choose(self.places, target.location) if target else None
        return None if target is None or place is None else (target, place)

    @staticmethod
    def _told(item: ItemOf, outcome: Outcome, reason: str, removed: Removed | None = None) -> Result:
        return Result(
            id=str(item["id"]),
            outcome=outcome,
            reason=reason,
            bytes_released=removed.bytes_released if removed else 0,
            artifact_class=str(item["class"]),
            versions=removed.versions if removed else 0,
            project=str(item.get("project") or ""),
        )
