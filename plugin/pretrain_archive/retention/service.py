"""Plan, approve, delete, verify absent, tombstone: deletion is the last step, and every step can be repeated.

Between plan and deletion the world moves on. Before each deletion the ledger is asked again; what has become live
since is kept and the reason told. Whatever fails for one artifact does not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from pretrain_archive.domain.errors import AlreadyRecordedError, RefusedError
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.kinds import RetentionApproved, RetentionPlanned, read_payload
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.approval import (
    STREAM,
    Policies,
    approve,
    find_approval,
    going_count,
    refuse,
    require_valid,
)
from pretrain_archive.retention.deletion import Applied, Deletion, Finder, Progress, silent
from pretrain_archive.retention.files import ArtifactFiles
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.judging import LedgerJudge
from pretrain_archive.retention.ownerless import report_ownerless
from pretrain_archive.retention.pages import Item, read_items, require_whole
from pretrain_archive.retention.plan import GOING
from pretrain_archive.retention.planning import make_plan
from pretrain_archive.retention.subjects import SubjectSource
from pretrain_archive.retention.summing import record_pass, sum_up
from pretrain_archive.storage.port import ObjectStore

log = logging.getLogger(__name__)

PLANNED = "retention.planned"
__all__ = [
    "PLANNED",
    "STREAM",
    "apply",
    "approve",
    "find_approval",
    "find_plan",
    "items_of",
    "make_plan",
    "plan",
    "refuse",
]


def plan(
    ledger: Ledger,
    policies: Policies,
    *,
    actor: Actor,
    origin: Origin,
    places: Sequence[ArtifactFiles] = (FolderFiles(),),
    now: datetime | None = None,
    store: ObjectStore | None = None,
    sources: Iterable[SubjectSource] = (),
) -> RetentionPlanned:
    """:func:`make_plan`, recorded; an equal plan is recorded once, and what has no owner with it."""
    made = make_plan(ledger, policies, places=places, now=now, store=store, sources=sources)
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
    report_ownerless(ledger, made, policies, actor=actor, origin=origin)
    return made


def items_of(planned: RetentionPlanned, store: ObjectStore | None, *, going: bool = False) -> Iterator[Item]:
    """The items of a plan, from its record or from the store; ``going`` only the deletions.

    ``RefusedError`` where they are not those that the plan's digest is over.
    """
    if planned.items_digest is None:
        found: Iterable[Item] = planned.items
        whole = planned.plan_digest == digest_of(planned.items)
    else:
        found = read_items(store, planned.items_digest, going=going) if store is not None else ()
        whole = store is not None and planned.plan_digest == planned.items_digest
    if not whole:
        raise RefusedError(
            f"plan {planned.plan_digest} is not a recorded plan.",
            hint="Make a new plan and have it approved.",
        )
    return (item for item in found if not going or item["action"] in GOING)


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
    store: ObjectStore | None = None,
) -> Applied:
    """Carry out an approved plan, as far as it still holds. May be repeated after a crash at any point.

    ``finders`` know the bytes of what is no checkpoint; ``progress`` is told things done, things in all and bytes
    released after each batch. What the pass did is recorded at its end.

    Raises :class:`RefusedError` if the plan was altered or is not recorded, or its approval is missing, is
    for another plan, by somebody not entitled, was followed by a rejection, or expired: nothing is deleted then.
    """
    items = items_of(planned, store, going=True)
    if find_plan(ledger, planned.plan_digest) is None:
        raise RefusedError(
            f"plan {planned.plan_digest} is not a recorded plan.",
            hint="Make a new plan and have it approved.",
        )
    approval = require_valid(ledger, planned, approval, policies, now=now)
    if planned.items_digest is not None and store is not None:
        require_whole(store, planned.items_digest)
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
    applied = deletion.run(items, total=going_count(planned))
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
