"""What a clean-up did, beside what was planned: for the log, the task's result and whoever asks later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain.kinds import RetentionApplied, RetentionPlanned, read_payload
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention import service
from pretrain_archive.retention.approval import going_count
from pretrain_archive.retention.ownerless import ownerless_of, words
from pretrain_archive.retention.results import OPEN
from pretrain_archive.services.cleanup import plan_of
from pretrain_archive.services.cleanup_form import REASONS

MOST_SAID = 20
OUTCOMES: Mapping[str, tuple[str, str]] = {
    "deleted": ("deleted", "已删除"),
    "already_missing": ("already missing", "原本已缺失"),
    "already_deleted": ("deleted before", "此前已删除"),
    "kept": ("kept after all", "最终保留"),
    "kept_for_later": ("kept for later", "留待以后"),
    "failed": ("failed", "失败"),
    "partly_deleted": ("partly deleted", "部分删除"),
}


@dataclass(frozen=True, kw_only=True)
class CleanupReport:
    """A plan, who allowed it, and its newest pass; ``passed`` None: nothing was deleted.

    ``only_warn``: what is left is of projects whose policies let the task go on.
    """

    planned: RetentionPlanned
    approved_by: str | None
    passed: RetentionApplied | None
    lines: tuple[str, ...]
    only_warn: bool = False

    @property
    def complete(self) -> bool:
        """Whether everything that was planned is done, or nothing was to be done."""
        return self.passed.complete if self.passed is not None else not going_count(self.planned)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as small JSON."""
        passed = self.passed
        return {
            "plan_digest": self.planned.plan_digest,
            "planned": going_count(self.planned),
            "bytes_planned": self.planned.total_bytes,
            "approved_by": self.approved_by,
            "outcomes": passed.outcomes if passed else {},
            "bytes_released": passed.bytes_released if passed else 0,
            "complete": self.complete,
        }


def report(ledger: Ledger, policies: Mapping[str, LoadedPolicy], plan_digest: str) -> CleanupReport:
    """Gather it from the records; raises :class:`RefusedError` for a plan that is not recorded."""
    planned = plan_of(ledger, plan_digest)
    approval = service.find_approval(ledger, plan_digest)
    passes = [
        read_payload(record, RetentionApplied)
        for record in ledger.records(streams=[service.STREAM], kinds=["retention.applied"])
        if record.payload["plan_digest"] == plan_digest
    ]
    passed = passes[-1] if passes else None
    who = approval.approved_by if approval else None
    return CleanupReport(
        planned=planned, approved_by=who, passed=passed, lines=tuple(_lines(planned, policies, passed, who)),
        only_warn=passed is not None and only_warn(policies, passed),
    )  # fmt: skip


def only_warn(policies: Mapping[str, LoadedPolicy], passed: RetentionApplied) -> bool:
    """Whether every project of which something is left says ``when_incomplete = "warn"``; unknown ones do not."""
    left = sum(count for outcome, count in passed.outcomes.items() if outcome in OPEN)
    if passed.complete or left > len(passed.not_deleted):
        return False
    for entry in passed.not_deleted:
        loaded = policies.get(entry.project)
        retention = loaded.policy.retention if loaded else None
        if retention is None or retention.when_incomplete != "warn":
            return False
    return True


def _lines(
    planned: RetentionPlanned,
    policies: Mapping[str, LoadedPolicy],
    passed: RetentionApplied | None,
    approved_by: str | None,
) -> list[str]:
    count, size = going_count(planned), planned.total_bytes
    english = f"planned: {count} things, {size:,} bytes; allowed by {approved_by or 'nobody'}"
    chinese = f"计划：{count} 项，{size:,} 字节；批准：{approved_by or '无'}"
    found = [f"{english} / {chinese}"]
    if passed is None:
        found.append("nothing was deleted / 未删除任何内容")
    else:
        english = ", ".join(f"{n} {OUTCOMES.get(k, (k, k))[0]}" for k, n in sorted(passed.outcomes.items()))
        chinese = "、".join(f"{n} {OUTCOMES.get(k, (k, k))[1]}" for k, n in sorted(passed.outcomes.items()))
        found.append(
            f"done: {english or 'nothing'}; {passed.bytes_released:,} bytes released / "
            f"完成：{chinese or '无'}；释放 {passed.bytes_released:,} 字节"
        )
        found += [
            f"- {entry.ref}: {' / '.join(OUTCOMES.get(entry.outcome, (entry.outcome,)))}: {entry.reason}"
            for entry in passed.not_deleted[:MOST_SAID]
        ]
    for name, said in (planned.summary or {}).get("projects", {}).items():
        kept = said["reasons"].get("keep", {})
        english = ", ".join(f"{n} {REASONS.get(code, (code, code))[0]}" for code, n in kept.items())
        chinese = "、".join(f"{n} {REASONS.get(code, (code, code))[1]}" for code, n in kept.items())
        found.append(f"{name}: kept: {english or '0'} / 保留：{chinese or '0'}")
        found += [f"- blocked / 受阻: {entry['id']}: {entry['reason']}" for entry in said["blocked"]]
    found += [" / ".join(words(entry)) for entry in ownerless_of(planned, policies)]
    return found
