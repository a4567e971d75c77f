"""What a deletion leaves in the ledger: tombstones, what is only partly gone, and the sum of a pass.

A tombstone is unique: whoever finishes a removal second finds the first one. Those of a batch are one transaction.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.domain.errors import AlreadyRecordedError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import (
    DeletionPartial,
    Payload,
    RetentionApproved,
    StillThere,
    TombstoneWritten,
)
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Relation
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.files import PartlyDeletedError, Removed, Target

log = logging.getLogger(__name__)

TOMBSTONE, PARTIAL = "tombstone.written", "deletion.partial"
NO_RUN = "ledger"
"""The stream of what belongs to no run."""
MOST_FAULTS = 1000


@dataclass(kw_only=True)
class Burial:
    """Writes what a pass leaves, in the name of one approval."""

    ledger: Ledger
    approval: RetentionApproved
    actor: Actor
    origin: Origin
    _ours: Counter[tuple[str, str]] = field(default_factory=Counter)
    _counted: set[str] = field(default_factory=set)

    def entomb(self, done: Sequence[tuple[Mapping[str, Any], Target, Removed]]) -> list[bool]:
        """Write a tombstone for each; whether this call wrote it (False: another pass had)."""
        drafts = [self._draft(*each) for each in done]
        try:
            self.ledger.append(drafts)
        except AlreadyRecordedError:
            if len(drafts) == 1:
                return [False]
            return [self._one(draft) for draft in drafts]
        return [True] * len(drafts)

    def mark(self, item: Mapping[str, Any], target: Target, error: PartlyDeletedError) -> None:
        """Record what stays of something partly deleted, unless that is the last that was said of it."""
        stream = str(item.get("run") or NO_RUN)
        faults = [
            StillThere(key=fault.key, code=fault.code, message=fault.message, version=fault.version)
            for fault in error.faults[:MOST_FAULTS]
        ]
        ref = ref_of(target)
        before = [
            r for r in self.ledger.records(streams=[stream], kinds=[PARTIAL]) if r.payload["ref"] == ref
        ]
        if before and not error.gone and before[-1].payload["faults"] == [f.to_json() for f in faults]:
            return
        payload = DeletionPartial(
            ref=ref, plan_digest=self.approval.plan_digest, approved_by=self.approval.approved_by,
            gone=error.gone, left=len(error.faults), bytes_released=error.bytes_gone, faults=faults,
        )  # fmt: skip
        self.ledger.append([self._new(stream, PARTIAL, payload, attempt=int(item.get("attempt") or 0))])

    def _one(self, draft: Draft) -> bool:
        try:
            self.ledger.append([draft])
        except AlreadyRecordedError as error:
            log.info("%s was written by another pass as %s", draft.unique, error.record_id)
            return False
        return True

    def _draft(self, item: Mapping[str, Any], target: Target, removed: Removed) -> Draft:
        payload = TombstoneWritten(
            ref=ref_of(target), digest=item["digest"],
            size=sum(file.size for file in target.files) or int(item["bytes"]),
            artifact_class=str(item["class"]), reason=str(item["reason"]), policy_digest=item["policy_digest"],
            approved_by=self.approval.approved_by, bytes_released=removed.bytes_released, verified_absent=True,
            already_missing=removed.already_missing, parts=list(target.parts),
            versions=removed.versions or None, files=len(target.files) or None, plan_digest=self.approval.plan_digest,
            location=target.location, digest_of=target.digest_of,
        )  # fmt: skip
        name = stone_name(target)
        this = Ref(type="tombstone", id=name)
        edge = Edge(subject=Ref.parse(payload.ref), relation=Relation.WAS_INVALIDATED_BY, object=this)
        return self._new(
            str(item.get("run") or NO_RUN), TOMBSTONE, payload, attempt=int(item.get("attempt") or 0),
            edges=(edge,), unique=f"tombstone/{target.ref}",
        )  # fmt: skip

    def _new(
        self, stream: str, kind: str, payload: Payload, *, attempt: int = 0, edges: tuple[Edge, ...] = (),
        unique: str = "",
    ) -> Draft:  # fmt: skip
        if stream not in self._counted:
            self._counted.add(stream)
            for record in self.ledger.records(streams=[stream], kinds=[TOMBSTONE, PARTIAL]):
                self._ours[stream, record.kind] += record.origin == self.origin
        ordinal = self._ours[stream, kind]
        self._ours[stream, kind] += 1
        return Draft(
            stream=stream, kind=kind, payload=payload.to_json(), actor=self.actor, origin=self.origin,
            attempt=attempt, ordinal=ordinal, edges=edges, unique=unique,
        )  # fmt: skip


def ref_of(target: Target) -> str:
    """The reference of the thing itself, whatever parts of it go."""
    return target.ref.partition("#")[0] if target.parts else target.ref


def stone_name(target: Target) -> str:
    """The id of a tombstone: that of what it is for, with the parts if only those went."""
    kind, _, name = target.ref.partition(":")
    return name if kind == "checkpoint" else target.ref
