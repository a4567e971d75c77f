"""The daily clean-up: plan, approval (by policy below its limit, else by a person), deletion with tombstones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import RetentionApproved, RetentionPlanned
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.gates.form import GateForm, both, plain
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention import service
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
    projects = {str(item["project"]) for item in planned.items if item["action"] == "delete"}
    allowed = [set(room.policies[p].policy.approvers_of("retention")) for p in projects if p in room.policies]
    people = sorted(set.intersection(*allowed)) if allowed else []
    if not people:
        raise RefusedError(
            f"nobody may approve the clean-up of {', '.join(sorted(projects)) or 'no project'}",
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
