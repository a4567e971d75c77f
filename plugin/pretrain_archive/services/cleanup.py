"""The daily clean-up: plan, approval (by policy below its limit, else by a person), deletion with tombstones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import RetentionApproved, RetentionPlanned, RetentionRefused
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.gates.judging import Answer, Cause, reason_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention import service
from pretrain_archive.retention.approval import going_count, projects_of
from pretrain_archive.retention.deletion import Applied, Finder
from pretrain_archive.retention.files import ArtifactFiles
from pretrain_archive.retention.ownerless import ownerless_of, words
from pretrain_archive.retention.results import OPEN, Result
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.cleanup_form import approval_form
from pretrain_archive.storage.port import ObjectStore

__all__ = [
    "Room",
    "approval_form",
    "approve",
    "approvers",
    "carry_out",
    "going_count",
    "left_of",
    "let_expire",
    "make_plan",
    "plan_of",
    "take_answer",
]


@dataclass(frozen=True, kw_only=True)
class Room:
    """What the clean-up works on: the policies of all projects and the places where bytes lie.

    ``store`` keeps the items of long plans; ``finders`` find and remove what is no checkpoint.
    """

    policies: Mapping[str, LoadedPolicy]
    places: Sequence[ArtifactFiles]
    store: ObjectStore | None = None
    finders: Sequence[Finder] = ()


def make_plan(ledger: Ledger, caller: Caller, room: Room) -> RetentionPlanned:
    """Work out and record what may be deleted now."""
    made = service.plan(
        ledger, room.policies, actor=caller.actor, origin=caller.origin, places=room.places, store=room.store,
        sources=room.finders,
    )  # fmt: skip
    going = going_count(made)
    kept = (made.item_count if made.item_count is not None else len(made.items)) - going
    caller.say(
        f"plan {made.plan_digest}: {going} to delete, {kept} kept / 计划：删除 {going} 项，保留 {kept} 项"
    )
    for report in ownerless_of(made, room.policies):
        caller.say(" / ".join(words(report)))
    return made


def plan_of(ledger: Ledger, plan_digest: str) -> RetentionPlanned:
    """The recorded plan with this digest."""
    found = service.find_plan(ledger, plan_digest)
    if found is None:
        raise RefusedError(f"no plan {plan_digest} is recorded", hint="Make the plan again.")
    return found


def approvers(planned: RetentionPlanned, room: Room) -> list[str]:
    """Who may approve: the people entitled in every project that the plan deletes from."""
    projects = projects_of(planned)
    allowed = [set(room.policies[p].policy.approvers_of("retention")) for p in projects if p in room.policies]
    people = sorted(set.intersection(*allowed)) if allowed else []
    if not people:
        raise RefusedError(
            f"nobody may approve the clean-up of {', '.join(projects) or 'no project'}",
            hint="Name approvers of retention in the policies.",
        )
    return people


def approve(
    ledger: Ledger, caller: Caller, room: Room, planned: RetentionPlanned, *, person: str | None, reason: str
) -> RetentionApproved:
    """Record the approval of exactly this plan, by a person or (None) by the policy below its limit."""
    return service.approve(
        ledger, planned, room.policies, person=person, reason=reason, actor=caller.actor, origin=caller.origin
    )


def take_answer(
    ledger: Ledger, caller: Caller, room: Room, planned: RetentionPlanned, answer: Answer
) -> RetentionApproved | RetentionRefused:
    """Judge an answer and record it, whatever it says: the approval, the rejection, or why it does not count."""
    reason = reason_of(answer) or ""
    fault = _fault(planned, room, answer, reason)
    if fault is None and answer.option == "Approve":
        return service.approve(
            ledger, planned, room.policies, person=answer.person_name, reason=reason, actor=caller.actor,
            origin=caller.origin, responded_at=answer.responded_at, authentication=answer.authentication,
        )  # fmt: skip
    cause, detail = fault or ("rejected", reason)
    refusal = RetentionRefused.model_validate({
        "plan_digest": planned.plan_digest, "cause": cause, "person_id": answer.person_id,
        "person_name": answer.person_name, "detail": detail, "responded_at": answer.responded_at,
        "authentication": answer.authentication,
    })  # fmt: skip
    kept = service.refuse(ledger, refusal, actor=caller.actor, origin=caller.origin)
    ledger.seal()
    return kept


def _fault(planned: RetentionPlanned, room: Room, answer: Answer, reason: str) -> tuple[Cause, str] | None:
    """Why ``answer`` does not count, or None: a person, entitled, about exactly this plan, with a reason."""
    if not answer.person_name or not answer.person_id or answer.anonymous:
        return "unsigned", "no authenticated person answered"
    allowed = approvers(planned, room)
    if answer.person_name not in allowed:
        return "not_entitled", f"{answer.person_name} may not answer; {', '.join(allowed)} may"
    if answer.values.get("plan_digest") != planned.plan_digest:
        return "stale", "the answer is not about the plan that is shown"
    if not reason:
        return "invalid", "a reason is required"
    if answer.option not in {"Approve", "Reject"}:
        return "invalid", f"the answer must be Approve or Reject, got {answer.option!r}"
    return None


def let_expire(ledger: Ledger, caller: Caller, planned: RetentionPlanned, hours: float) -> RetentionRefused:
    """The deadline passed: recorded as not approved."""
    refusal = RetentionRefused(
        plan_digest=planned.plan_digest, cause="expired", person_id=None, person_name=None,
        detail=f"not answered within {hours:g} hours",
    )  # fmt: skip
    kept = service.refuse(ledger, refusal, actor=caller.actor, origin=caller.origin)
    ledger.seal()
    return kept


def left_of(applied: Applied) -> list[Result]:
    """What is left to do after a pass, what is half gone first."""
    found = [result for result in applied.results if result.outcome in OPEN]
    return sorted(found, key=lambda result: result.outcome != "partly_deleted")


def carry_out(ledger: Ledger, caller: Caller, room: Room, plan_digest: str) -> Applied:
    """Delete what the approved plan says, as far as it still holds; prove absence and write tombstones."""
    planned = plan_of(ledger, plan_digest)
    done = service.apply(
        ledger, planned, service.find_approval(ledger, plan_digest), room.policies,
        actor=caller.actor, origin=caller.origin, places=room.places, store=room.store, finders=room.finders,
    )  # fmt: skip
    ledger.seal()
    caller.say(f"{done.bytes_released:,} bytes released / 释放 {done.bytes_released:,} 字节")
    return done
