"""Plan, approve, delete, verify absent, tombstone: deletion is the last step, and every step can be repeated.

Between plan and deletion the world moves on. Before each deletion the ledger is asked again; what has become live
since is kept and the reason told. Whatever fails for one artifact does not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pretrain_archive.domain.errors import AlreadyRecordedError, InputError, RefusedError
from pretrain_archive.domain.kinds import RetentionApproved, RetentionPlanned, read_payload
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.deletion import Applied, Deletion
from pretrain_archive.retention.files import ArtifactFiles
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.plan import decide
from pretrain_archive.retention.world import observe, require_clock

log = logging.getLogger(__name__)

STREAM = "ledger"
PLANNED, APPROVED = "retention.planned", "retention.approved"
Policies = Mapping[str, LoadedPolicy]


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
        needs_approval=bool(_above_limit(items, policies)),
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


def approve(
    ledger: Ledger,
    planned: RetentionPlanned,
    policies: Policies,
    *,
    person: str | None,
    reason: str,
    actor: Actor,
    origin: Origin,
) -> RetentionApproved:
    """Record that a plan may be carried out: by an entitled ``person``, or (None) by policy below its limits.

    Raises :class:`RefusedError` for a person who is not entitled in every project concerned, or where a
    person is needed. The first approval of a plan stands.
    """
    known = find_approval(ledger, planned.plan_digest)
    if known is not None:
        return known
    approval = RetentionApproved(
        plan_digest=planned.plan_digest,
        approved_by=person or "policy: below approval_above_bytes",
        person=person is not None,
        reason=reason,
    )
    _require_entitled(planned, approval, policies)
    ordinal = _ordinal(ledger, APPROVED, origin)
    unique = f"approval/{planned.plan_digest}"
    _append(ledger, APPROVED, approval, actor=actor, origin=origin, ordinal=ordinal, unique=unique)
    return find_approval(ledger, planned.plan_digest) or approval


def find_approval(ledger: Ledger, plan_digest: str) -> RetentionApproved | None:
    """The recorded approval of this plan, or None."""
    for record in ledger.records(streams=[STREAM], kinds=[APPROVED]):
        if record.payload["plan_digest"] == plan_digest:
            return read_payload(record, RetentionApproved)
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
    now: datetime | None = None,
) -> Applied:
    """Carry out an approved plan, as far as it still holds. May be repeated after a crash at any point.

    Raises :class:`RefusedError` if the plan was altered or is not recorded, or its approval is missing, is
    for another plan, or by somebody not entitled: nothing is deleted then.
    """
    if planned.plan_digest != digest_of(planned.items) or find_plan(ledger, planned.plan_digest) is None:
        raise RefusedError(
            f"plan {planned.plan_digest} is not a recorded plan.",
            hint="Make a new plan and have it approved.",
        )
    if approval is None or find_approval(ledger, planned.plan_digest) != approval:
        raise RefusedError(
            f"plan {planned.plan_digest} has no recorded approval.", hint="Have the plan approved first."
        )
    _require_entitled(planned, approval, policies)
    deletion = Deletion(
        ledger=ledger,
        policies=policies,
        places=places,
        approval=approval,
        actor=actor,
        origin=origin,
        now=now,
    )
    return deletion.run(planned)


def _require_entitled(planned: RetentionPlanned, approval: RetentionApproved, policies: Policies) -> None:
    if not approval.reason.strip():
        raise InputError("reason", approval.reason, "an approval needs a reason")
    projects = {str(item["project"]) for item in planned.items if item["action"] == "delete"}
    unknown = sorted(project for project in projects if project not in policies)
    problems = [f"the policy of {project!r} is not known" for project in unknown]
    if approval.person:
        problems += [
            f"{approval.approved_by!r} may not approve retention of {project!r} "
            f"(may: {', '.join(policies[project].policy.approvers_of('retention'))})"
            for project in sorted(projects - set(unknown))
            if approval.approved_by not in policies[project].policy.approvers_of("retention")
        ]
    else:
        problems += _above_limit(planned.items, policies)
    if problems:
        raise RefusedError(f"plan {planned.plan_digest} is not approved", reasons=tuple(problems))


def _above_limit(items: Sequence[Mapping[str, object]], policies: Policies) -> list[str]:
    """Projects whose deletions are above what the policy lets pass without a person."""
    sizes: dict[str, int] = {}
    for item in items:
        if item["action"] == "delete":
            project, size = str(item["project"]), item["bytes"]
            sizes[project] = sizes.get(project, 0) + (size if isinstance(size, int) else 0)
    found = []
    for project, size in sorted(sizes.items()):
        retention = policies[project].policy.retention if project in policies else None
        if retention is None or size > retention.approval_above_bytes:
            limit = "unknown" if retention is None else retention.approval_above_bytes
            found.append(f"{size} bytes of {project!r} need a person's approval (limit {limit})")
    return found


def _ordinal(ledger: Ledger, kind: str, origin: Origin) -> int:
    return sum(record.origin == origin for record in ledger.records(streams=[STREAM], kinds=[kind]))


def _append(
    ledger: Ledger,
    kind: str,
    payload: RetentionPlanned | RetentionApproved,
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
