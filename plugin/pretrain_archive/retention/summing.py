"""The sum of a pass over a plan, as one record: what went, what did not, on whose word."""

from __future__ import annotations

from collections import Counter

from pretrain_archive.domain.kinds import NotDeleted, RetentionApplied, RetentionApproved
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.deletion import OPEN, Applied

KIND, STREAM = "retention.applied", "ledger"
MOST_NAMED = 1000


def sum_up(
    applied: Applied,
    approval: RetentionApproved,
    *,
    started_at: str,
    bytes_planned: int,
    policy_digests: dict[str, str],
) -> RetentionApplied:
    """The pass as a payload."""
    released: Counter[str] = Counter()
    for result in applied.results:
        if result.bytes_released:
            released[result.artifact_class] += result.bytes_released
    open_ones = [result for result in applied.results if result.outcome in OPEN]
    return RetentionApplied(
        plan_digest=applied.plan_digest,
        approved_by=approval.approved_by,
        by_person=approval.person,
        policy_digests=policy_digests,
        started_at=started_at,
        outcomes=applied.outcomes(),
        bytes_planned=bytes_planned,
        bytes_released=applied.bytes_released,
        versions_removed=sum(result.versions for result in applied.results),
        released_by_class=dict(released),
        not_deleted=[
            NotDeleted(ref=result.id, outcome=result.outcome, reason=result.reason, project=result.project)
            for result in open_ones[:MOST_NAMED]
        ],
        complete=applied.complete,
    )


def record_pass(
    ledger: Ledger, payload: RetentionApplied, *, actor: Actor, origin: Origin
) -> RetentionApplied:
    """Append it; every pass has its own, also one that found nothing left to do."""
    before = ledger.records(streams=[STREAM], kinds=[KIND])
    draft = Draft(
        stream=STREAM,
        kind=KIND,
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        ordinal=sum(record.origin == origin for record in before),
    )
    ledger.append([draft])
    return payload
