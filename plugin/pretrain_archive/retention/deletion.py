"""One pass over an approved plan: for each artifact ask again, remove, verify absence, write the tombstone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pretrain_archive.domain.errors import AlreadyRecordedError, StorageError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import (
    CheckpointRegistered,
    RetentionApproved,
    RetentionPlanned,
    TombstoneWritten,
)
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.files import ArtifactFiles, Removed, choose
from pretrain_archive.retention.plan import decide
from pretrain_archive.retention.world import LIVENESS, World, observe, require_clock, target_of

log = logging.getLogger(__name__)

KIND = "tombstone.written"
ALIVE = tuple(kind for kind in LIVENESS if kind != KIND)
"""News of these kinds can make something live again; our own tombstones cannot."""

Outcome = Literal["deleted", "already_missing", "already_deleted", "kept", "kept_for_later", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What happened to one artifact of the plan."""

    id: str
    outcome: Outcome
    reason: str
    bytes_released: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """What a pass did; ``complete`` is False while something failed or waits."""

    plan_digest: str
    results: tuple[Result, ...]

    @property
    def bytes_released(self) -> int:
        """Bytes released by deletions that this pass completed."""
        return sum(result.bytes_released for result in self.results)

    @property
    def complete(self) -> bool:
        """Whether nothing of the plan is left to try again."""
        return not any(result.outcome in {"failed", "kept_for_later"} for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """The pass as plain JSON."""
        return {
            "plan_digest": self.plan_digest,
            "bytes_released": self.bytes_released,
            "complete": self.complete,
            "items": [
                {"id": r.id, "outcome": r.outcome, "reason": r.reason, "bytes": r.bytes_released}
                for r in self.results
            ],
        }


@dataclass(kw_only=True)
class Deletion:
    """Carries out plans that an approval covers. Whether it does is checked by the caller."""

    ledger: Ledger
    policies: Mapping[str, LoadedPolicy]
    places: Sequence[ArtifactFiles]
    approval: RetentionApproved
    actor: Actor
    origin: Origin
    now: datetime | None = None

    def run(self, planned: RetentionPlanned) -> Applied:
        """Try every deletion of the plan; the outcome of each is in the result."""
        self._look_again()
        results = tuple(self._one(item) for item in planned.items if item["action"] == "delete")
        return Applied(plan_digest=planned.plan_digest, results=results)

    def _look_again(self) -> None:
        self._world: World = observe(self.ledger, self.places)
        moment = self.now or datetime.now(UTC)  # a pass can be long: the clock is read each time
        require_clock(self._world, moment)
        items = decide(self._world.subjects, self.policies, now=moment)
        self._fresh = {str(item["id"]): item for item in items}

    def _one(self, item: Mapping[str, Any]) -> Result:
        ref = str(item["id"])
        if any(self.ledger.records(kinds=ALIVE, after=self._world.position, limit=1)):
            self._look_again()
        fact = self._world.facts.get(ref)
        place = choose(self.places, str(item["location"]))
        if fact is None or place is None:
            return Result(id=ref, outcome="kept", reason="no registered artifact that is reachable from here")
        if ref in self._world.tombstones:
            place.finish(target_of(fact))
            return Result(id=ref, outcome="already_deleted", reason="its tombstone stands")
        fresh = self._fresh[ref]
        if fresh["action"] == "keep" or fresh["digest"] != item["digest"]:
            return Result(id=ref, outcome="kept", reason=f"since the plan: {fresh['reason']}")
        if fresh["action"] == "blocked":
            return Result(id=ref, outcome="kept_for_later", reason=fresh["reason"])
        return self._delete(item, fact, place)

    def _delete(self, item: Mapping[str, Any], fact: CheckpointRegistered, place: ArtifactFiles) -> Result:
        target = target_of(fact)
        try:
            removed = place.remove(target, plan_digest=self.approval.plan_digest)
        except StorageError as error:
            log.warning("%s not deleted: %s", target.ref, error)
            return Result(id=target.ref, outcome="failed", reason=str(error))
        left = place.look(target).presence
        if left != "missing":
            return Result(id=target.ref, outcome="failed", reason=f"absence not verified: {left}")
        try:
            self._entomb(item, fact, removed)
        except AlreadyRecordedError:  # a parallel pass finished it
            place.finish(target)
            return Result(id=target.ref, outcome="already_deleted", reason="its tombstone stands")
        place.finish(target)
        log.info("%s deleted, %s bytes released", target.ref, removed.bytes_released)
        return Result(
            id=target.ref,
            outcome="already_missing" if removed.already_missing else "deleted",
            reason=str(item["reason"]),
            bytes_released=removed.bytes_released,
        )

    def _entomb(self, item: Mapping[str, Any], fact: CheckpointRegistered, removed: Removed) -> None:
        ref = f"checkpoint:{fact.checkpoint_id}"
        payload = TombstoneWritten(
            ref=ref,
            digest=fact.digest,
            size=sum(file.size for file in fact.files),
            artifact_class=str(item["class"]),
            reason=str(item["reason"]),
            policy_digest=item["policy_digest"],
            approved_by=self.approval.approved_by,
            bytes_released=removed.bytes_released,
            verified_absent=True,
            already_missing=removed.already_missing,
        )
        this = Ref(type="tombstone", id=fact.checkpoint_id)
        edge = Edge(subject=Ref.parse(ref), relation=Relation.WAS_INVALIDATED_BY, object=this)
        stream = str(item["run"])
        ours = self.ledger.records(streams=[stream], kinds=[KIND])
        draft = Draft(
            stream=stream,
            kind=KIND,
            payload=payload.to_json(),
            actor=self.actor,
            origin=self.origin,
            attempt=fact.attempt,
            ordinal=sum(record.origin == self.origin for record in ours),
            edges=(edge,),
            unique=f"tombstone/{ref}",
        )
        self.ledger.append([draft])
