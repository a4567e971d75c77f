"""Checkpoints for which nobody answers any more, reported to their project's owner (R152)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pretrain_archive.domain.errors import AlreadyRecordedError
from pretrain_archive.domain.kinds import OwnerlessReported, RetentionPlanned
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger

log = logging.getLogger(__name__)
KIND = "retention.ownerless"


def ownerless_of(planned: RetentionPlanned, policies: Mapping[str, LoadedPolicy]) -> list[OwnerlessReported]:
    """One report for each project that has such checkpoints; its model owner is told."""
    found = []
    for project, said in (planned.summary or {}).get("projects", {}).items():
        lost = said.get("ownerless")
        if lost and project in policies:
            owner = policies[project].policy.people.model_owner
            found.append(
                OwnerlessReported(
                    project=project, reported_to=owner, plan_digest=planned.plan_digest, count=lost["count"],
                    size=lost["bytes"], responsible=lost["responsible"], examples=lost["examples"],
                )
            )  # fmt: skip
    return found


def report_ownerless(
    ledger: Ledger,
    planned: RetentionPlanned,
    policies: Mapping[str, LoadedPolicy],
    *,
    actor: Actor,
    origin: Origin,
) -> list[OwnerlessReported]:
    """Record what has no owner, in the project's stream; the same finding is recorded once."""
    made = ownerless_of(planned, policies)
    for report in made:
        content = report.to_json() | {"plan_digest": None}
        stream = f"project/{report.project}"
        before = ledger.records(streams=[stream], kinds=[KIND])
        draft = Draft(
            stream=stream, kind=KIND, payload=report.to_json(), actor=actor, origin=origin,
            ordinal=sum(record.origin == origin for record in before),
            unique=f"ownerless/{report.project}/{digest_of(content)}",
        )  # fmt: skip
        try:
            ledger.append([draft])
        except AlreadyRecordedError as error:
            log.debug("%s was reported before, as %s", report.project, error.record_id)
    return made


def words(report: OwnerlessReported) -> tuple[str, str]:
    """What the owner is told, in English and Chinese."""
    names = ", ".join(name or "-" for name in report.responsible)
    english = (
        f"{report.reported_to}: {report.count} checkpoints of {report.project} ({report.size:,} bytes) have nobody who "
        f"answers for them (recorded: {names}). Name a person in the policy, or classify them."
    )
    chinese = (
        f"{report.reported_to}：{report.project} 的 {report.count} 个检查点（{report.size:,} 字节）无人负责"
        f"（记录中的负责人：{names}）。请在策略中指定人员，或重新分类。"
    )
    return english, chinese
