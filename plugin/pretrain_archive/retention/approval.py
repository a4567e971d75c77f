"""Who allowed a plan, who did not, and until when: the newest word of an entitled person counts.

A plan is approved by an entitled person, or by policy below its limit. A later rejection withdraws the approval;
an approval also ends with the time for which the policy lets a decision stand. Answers that do not count are kept
with their cause, so that a question is never without its answers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pretrain_archive.domain.errors import AlreadyRecordedError, InputError, RefusedError
from pretrain_archive.domain.identity import format_time, parse_time
from pretrain_archive.domain.kinds import (
    Payload,
    RetentionApproved,
    RetentionPlanned,
    RetentionRefused,
    read_payload,
)
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.plan import GOING

log = logging.getLogger(__name__)

STREAM = "ledger"
APPROVED, REFUSED = "retention.approved", "retention.refused"
Policies = Mapping[str, LoadedPolicy]


def decisions(ledger: Ledger, plan_digest: str) -> list[Record]:
    """Approvals and rejections of this plan, oldest first; what does not count is left out."""
    return [
        record
        for record in ledger.records(streams=[STREAM], kinds=[APPROVED, REFUSED])
        if record.payload["plan_digest"] == plan_digest
        and (record.kind == APPROVED or record.payload["cause"] == "rejected")
    ]


def find_approval(ledger: Ledger, plan_digest: str) -> RetentionApproved | None:
    """The approval of this plan that stands: the newest decision, unless that is a rejection."""
    found = decisions(ledger, plan_digest)
    return read_payload(found[-1], RetentionApproved) if found and found[-1].kind == APPROVED else None


def approve(
    ledger: Ledger,
    planned: RetentionPlanned,
    policies: Policies,
    *,
    person: str | None,
    reason: str,
    actor: Actor,
    origin: Origin,
    responded_at: str | None = None,
    authentication: str | None = None,
    now: datetime | None = None,
) -> RetentionApproved:
    """Record that a plan may be carried out: by an entitled ``person``, or (None) by policy below its limits.

    Raises :class:`RefusedError` for a person who is not entitled in every project concerned, or where a
    person is needed: above a limit, and for a plan that was rejected. An approval that stands and is still valid
    is returned.
    """
    earlier = decisions(ledger, planned.plan_digest)
    known = find_approval(ledger, planned.plan_digest)
    if known is not None and not expired(earlier[-1], planned, policies, now=now):
        return known
    approval = RetentionApproved(
        plan_digest=planned.plan_digest,
        approved_by=person or "policy: below approval_above_bytes",
        person=person is not None,
        reason=reason,
        responded_at=responded_at,
        authentication=authentication,
    )
    require_entitled(planned, approval, policies)
    if person is None and earlier and earlier[-1].kind == REFUSED:
        raise RefusedError(f"plan {planned.plan_digest} was rejected: only a person can allow it now")
    unique = f"approval/{planned.plan_digest}" + (f"/{len(earlier)}" if earlier else "")
    try:
        _append(ledger, APPROVED, approval, actor=actor, origin=origin, unique=unique)
    except AlreadyRecordedError as error:
        log.info("%s was recorded by another writer as %s", unique, error.record_id)
    return find_approval(ledger, planned.plan_digest) or approval


def refuse(ledger: Ledger, refusal: RetentionRefused, *, actor: Actor, origin: Origin) -> RetentionRefused:
    """Record an answer that allows nothing; the same answer taken again by the same task try is known."""
    for record in ledger.records(streams=[STREAM], kinds=[REFUSED]):
        if record.origin == origin and dict(record.payload) == refusal.to_json():
            return refusal
    _append(ledger, REFUSED, refusal, actor=actor, origin=origin)
    return refusal


def require_valid(
    ledger: Ledger, planned: RetentionPlanned, approval: RetentionApproved | None, policies: Policies, *,
    now: datetime | None = None,
) -> RetentionApproved:  # fmt: skip
    """The approval, if it is the newest decision, by somebody entitled, and not expired; else :class:`RefusedError`."""
    found = decisions(ledger, planned.plan_digest)
    if found and found[-1].kind == REFUSED:
        said = read_payload(found[-1], RetentionRefused)
        raise RefusedError(
            f"plan {planned.plan_digest} has no recorded approval: {said.person_name} rejected it: {said.detail}",
            hint="Make a new plan and have it approved.",
        )
    if approval is None or not found or read_payload(found[-1], RetentionApproved) != approval:
        raise RefusedError(
            f"plan {planned.plan_digest} has no recorded approval.", hint="Have the plan approved first."
        )
    require_entitled(planned, approval, policies)
    if expired(found[-1], planned, policies, now=now):
        until = format_time(_until(found[-1], planned, policies))
        raise RefusedError(
            f"the approval of plan {planned.plan_digest} by {approval.approved_by} expired at {until}",
            hint="Have the plan approved again.",
        )
    return approval


def expired(
    record: Record, planned: RetentionPlanned, policies: Policies, *, now: datetime | None = None
) -> bool:
    """Whether an approval is older than the shortest ``gates.decision_valid_hours`` of the projects concerned."""
    return (now or datetime.now(UTC)) > _until(record, planned, policies)


def _until(record: Record, planned: RetentionPlanned, policies: Policies) -> datetime:
    hours = [policies[p].policy.gates.decision_valid_hours for p in projects_of(planned) if p in policies]
    if not projects_of(planned):  # nothing is deleted, so there is nothing that an old word could harm
        return datetime.max.replace(tzinfo=UTC)
    return parse_time(record.recorded_at) + timedelta(hours=min(hours, default=0.0))


def going_bytes(planned: RetentionPlanned) -> dict[str, int]:
    """The bytes that a plan deletes, by project with a deletion."""
    sizes: dict[str, int] = {}
    if planned.items_digest is None or planned.summary is None:
        for item in planned.items:
            if item["action"] in GOING:
                sizes[str(item["project"])] = sizes.get(str(item["project"]), 0) + int(item["bytes"])
        return sizes
    for name, said in planned.summary["projects"].items():
        if any(said["actions"].get(action) for action in GOING):
            sizes[name] = int(said["bytes"])
    return sizes


def going_count(planned: RetentionPlanned) -> int:
    """How many things a plan deletes, wholly or in part."""
    if planned.items_digest is None or planned.summary is None:
        return sum(item["action"] in GOING for item in planned.items)
    said = planned.summary["projects"].values()
    return sum(int(each["actions"].get(action, 0)) for each in said for action in GOING)


def projects_of(planned: RetentionPlanned) -> list[str]:
    """The projects that a plan deletes from."""
    return sorted(going_bytes(planned))


def require_entitled(planned: RetentionPlanned, approval: RetentionApproved, policies: Policies) -> None:
    """Refuse an approval without a reason, by somebody who may not, or by policy above its limit."""
    if not approval.reason.strip():
        raise InputError("reason", approval.reason, "an approval needs a reason")
    projects = projects_of(planned)
    problems = [f"the policy of {project!r} is not known" for project in projects if project not in policies]
    if approval.person:
        problems += [
            f"{approval.approved_by!r} may not approve retention of {project!r} "
            f"(may: {', '.join(policies[project].policy.approvers_of('retention'))})"
            for project in projects
            if project in policies
            and approval.approved_by not in policies[project].policy.approvers_of("retention")
        ]
    else:
        problems += above_limit(planned, policies)
    if problems:
        raise RefusedError(f"plan {planned.plan_digest} is not approved", reasons=tuple(problems))


def above_limit(planned: RetentionPlanned, policies: Policies) -> list[str]:
    """Projects whose deletions are above what the policy lets pass without a person."""
    found = []
    for project, size in sorted(going_bytes(planned).items()):
        retention = policies[project].policy.retention if project in policies else None
        if retention is None or size > retention.approval_above_bytes:
            limit = "unknown" if retention is None else retention.approval_above_bytes
            found.append(f"{size} bytes of {project!r} need a person's approval (limit {limit})")
    return found


def _append(
    ledger: Ledger, kind: str, payload: Payload, *, actor: Actor, origin: Origin, unique: str = ""
) -> None:
    ordinal = sum(record.origin == origin for record in ledger.records(streams=[STREAM], kinds=[kind]))
    ledger.append([
        Draft(stream=STREAM, kind=kind, payload=payload.to_json(), actor=actor, origin=origin, ordinal=ordinal,
              unique=unique)
    ])  # fmt: skip
