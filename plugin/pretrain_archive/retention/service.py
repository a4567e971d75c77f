"""Plan, approve, delete, verify absent, tombstone: deletion is the last step, and every step can be repeated.

Between plan and deletion the world moves on. Before each deletion the ledger is asked again; what has become live
since is kept and the reason told. Whatever fails for one artifact does not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from pretrain_archive.domain.errors import AlreadyRecordedError, RefusedError
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.kinds import RetentionApproved, RetentionPlanned, read_payload
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.approval import (
    STREAM,
    Policies,
    above_limit,
    approve,
    find_approval,
    refuse,
    require_valid,
)
from pretrain_archive.retention.deletion import Applied, Deletion, Finder, Progress, silent
from pretrain_archive.retention.files import ArtifactFiles
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.judging import LedgerJudge
from pretrain_archive.retention.plan import decide
from pretrain_archive.retention.summing import record_pass, sum_up
from pretrain_archive.retention.world import observe, require_clock

log = logging.getLogger(__name__)

PLANNED = "retention.planned"
__all__ = [
    "PLANNED",
    "STREAM",
    "apply",
    "approve",
    "find_approval",
    "find_plan",
    "make_plan",
    "plan",
    "refuse",
]


def make_plan(
    ledger: Ledger,
    policies: Policies,
    *,
    places: Sequence[ArtifactFiles] = (FolderFiles(),),
    now: datetime | None = None,
) -> RetentionPlanned:
    """Work out what may go and what stays; nothing is written.

    ``policies`` maps projects to their policies. Raises :class:`RefusedError` if the clock is behind the
    newest record.
    """
    moment = now or datetime.now(UTC)
    world = observe(ledger, places)
    require_clock(world, moment)
    items = decide(world.subjects, policies, now=moment)
    going = [item for item in items if item["action"] == "delete"]
    return RetentionPlanned(
        plan_digest=digest_of(items),
        items=items,
        total_bytes=sum(item["bytes"] for item in going),
        needs_approval=bool(above_limit(items, policies)),
    )


def plan(
    ledger: Ledger,
    policies: Policies,
    *,
    actor: Actor,
    origin: Origin,
    places: Sequence[ArtifactFiles] = (FolderFiles(),),
    now: datetime | None = None,
) -> RetentionPlanned:
    """:func:`make_plan`, recorded; an equal plan is recorded once."""
    made = make_plan(ledger, policies, places=places, now=now)
    if find_plan(ledger, made.plan_digest) is None:
        ordinal = _ordinal(ledger, PLANNED, origin)
        _append(
            ledger,
            PLANNED,
            made,
            actor=actor,
            origin=origin,
            ordinal=ordinal,
            unique=f"plan/{made.plan_digest}",
        )
    return made


def find_plan(ledger: Ledger, plan_digest: str) -> RetentionPlanned | None:
    """The recorded plan with this digest, or None."""
    for record in ledger.records(streams=[STREAM], kinds=[PLANNED]):
        if record.payload["plan_digest"] == plan_digest:
            return read_payload(record, RetentionPlanned)
    return None


def apply(
    ledger: Ledger,
    planned: RetentionPlanned,
    approval: RetentionApproved | None,
    policies: Policies,
    *,
    actor: Actor,
    origin: Origin,
    places: Sequence[ArtifactFiles] = (FolderFiles(),),
    finders: Sequence[Finder] = (),
    progress: Progress = silent,
    now: datetime | None = None,
) -> Applied:
    """Carry out an approved plan, as far as it still holds. May be repeated after a crash at any point.

    ``finders`` know the bytes of what is no checkpoint; ``progress`` is told things done, things in all and bytes
    released after each batch. What the pass did is recorded at its end.

    Raises :class:`RefusedError` if the plan was altered or is not recorded, or its approval is missing, is
    for another plan, by somebody not entitled, was followed by a rejection, or expired: nothing is deleted then.
    """
    if planned.plan_digest != digest_of(planned.items) or find_plan(ledger, planned.plan_digest) is None:
        raise RefusedError(
            f"plan {planned.plan_digest} is not a recorded plan.",
            hint="Make a new plan and have it approved.",
        )
    approval = require_valid(ledger, planned, approval, policies, now=now)
    started_at = utc_now()
    deletion = Deletion(
        ledger=ledger,
        judge=LedgerJudge(ledger, policies, places, sources=finders, now=now),
        places=places,
        approval=approval,
        actor=actor,
        origin=origin,
        undertakers=finders,
        progress=progress,
    )
    applied = deletion.run(planned.items, total=len(planned.items))
    payload = sum_up(
        applied, approval, started_at=started_at, bytes_planned=planned.total_bytes,
        policy_digests={name: loaded.digest for name, loaded in policies.items()},
    )  # fmt: skip
    record_pass(ledger, payload, actor=actor, origin=origin)
    return applied


def _ordinal(ledger: Ledger, kind: str, origin: Origin) -> int:
    return sum(record.origin == origin for record in ledger.records(streams=[STREAM], kinds=[kind]))


def _append(
    ledger: Ledger,
    kind: str,
    payload: RetentionPlanned,
    *,
    actor: Actor,
    origin: Origin,
    ordinal: int,
    unique: str,
) -> None:
    draft = Draft(
        stream=STREAM,
        kind=kind,
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        ordinal=ordinal,
        unique=unique,
    )
    try:
        ledger.append([draft])
    except AlreadyRecordedError as error:
        log.info("%s was recorded by another writer as %s", unique, error.record_id)
