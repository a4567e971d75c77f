"""The daily clean-up: plan, approval (by policy below its limit, else by a person), deletion with tombstones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import RetentionApproved, RetentionPlanned, RetentionRefused
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.gates.form import GateForm, both, plain
from pretrain_archive.gates.judging import Answer, Cause, reason_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention import service
from pretrain_archive.retention.approval import projects_of
from pretrain_archive.retention.deletion import Applied
from pretrain_archive.retention.files import ArtifactFiles
from pretrain_archive.services.caller import Caller

MOST_LISTED = 5


@dataclass(frozen=True, kw_only=True)
class Room:
    """What the clean-up works on: the policies of all projects and the places where bytes lie."""

    policies: Mapping[str, LoadedPolicy]
    places: Sequence[ArtifactFiles]


def make_plan(ledger: Ledger, caller: Caller, room: Room) -> RetentionPlanned:
    """Work out and record what may be deleted now."""
    made = service.plan(ledger, room.policies, actor=caller.actor, origin=caller.origin, places=room.places)
    deleted = [item for item in made.items if item["action"] == "delete"]
    caller.say(f"plan {made.plan_digest}: {len(deleted)} to delete, {len(made.items) - len(deleted)} kept")
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


def approval_form(planned: RetentionPlanned, language: str) -> GateForm:
    """The signature line of a plan."""
    deleted = sorted((i for i in planned.items if i["action"] == "delete"), key=lambda i: -int(i["bytes"]))
    size = sum(int(item["bytes"]) for item in deleted)
    listed = [
        f"- {plain(str(i['id']))}: {int(i['bytes']):,} B, {plain(str(i['reason']))}"
        for i in deleted[:MOST_LISTED]
    ]
    more = len(deleted) - MOST_LISTED
    body = [
        both(
            f"**{len(deleted)} checkpoints, {size:,} bytes are to be deleted.**",
            f"**将删除 {len(deleted)} 个检查点，共 {size:,} 字节。**", language,
        ),
        "\n".join(listed) + (f"\n- (+{more})" if more > 0 else ""),
        both("**Approve** deletes them; tombstones stay.", "**Approve** 予以删除，墓碑记录保留。", language),
    ]  # fmt: skip
    digest = planned.plan_digest
    fields: dict[str, dict[str, Any]] = {
        "plan_digest": {"default": digest, "const": digest, "type": "string"},
        "reason": {
            "default": None,
            "type": ["null", "string"],
            "title": both("Reason (required)", "理由（必填）", language),
        },
    }
    return GateForm(
        subject=both("Clean-up approval", "清理审批", language), body="\n\n".join(body),
        options=("Approve", "Reject"), fields=fields,
    )  # fmt: skip


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


def carry_out(ledger: Ledger, caller: Caller, room: Room, plan_digest: str) -> Applied:
    """Delete what the approved plan says, as far as it still holds; prove absence and write tombstones."""
    planned = plan_of(ledger, plan_digest)
    done = service.apply(
        ledger, planned, service.find_approval(ledger, plan_digest), room.policies,
        actor=caller.actor, origin=caller.origin, places=room.places,
    )  # fmt: skip
    ledger.seal()
    caller.say(f"{done.bytes_released:,} bytes released")
    return done
