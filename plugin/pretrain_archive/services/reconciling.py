"""Records and storage compared both ways: for the command line and for the clean-up's report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.reconcile import Finding, Reconciled
from pretrain_archive.retention.reconcile import reconcile as compare
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.cleanup import Room

KINDS: Mapping[str, tuple[str, str]] = {
    "missing": ("missing without a tombstone", "缺失且无墓碑记录"),
    "half_deleted": ("half deleted", "删除未完成"),
    "changed": ("changed", "内容已变"),
    "came_back": ("came back after its deletion", "删除后又出现"),
    "unregistered": ("unregistered", "未登记"),
    "orphan": ("content that nothing names", "无人引用的内容"),
    "left_over": ("left over", "遗留物"),
    "journal": ("journal of a removal", "删除日志"),
    "unreachable": ("unreachable", "无法访问"),
}
ACTS: Mapping[str, tuple[str, str]] = {
    "finish": ("finish the removal", "完成删除"),
    "plan": ("let a plan decide", "交由清理计划决定"),
    "restore": ("restore it, or let a plan bury it", "恢复，或由计划登记为已缺失"),
    "register": ("register it, or let a plan decide", "登记，或交由清理计划决定"),
    "verify": ("verify it", "核验"),
    "mount": ("make it reachable", "恢复访问"),
}
"""What differs and what may be done, in English and 简体中文."""
MOST_SAID = 20
"""Findings that the log of a task tells; the answer holds them all."""


def reconcile(
    ledger: Ledger, room: Room, *, roots: Iterable[Path] = (), caller: Caller | None = None
) -> Reconciled:
    """Compare everything recorded with every place of ``room`` and with what lies below ``roots``.

    Nothing is recorded, registered or deleted: each finding has a proposal, and a plan or a command carries it out.
    """
    found = compare(ledger, places=room.places, roots=roots, store=room.store)
    if caller is not None:
        caller.say(summary(found))
        for finding in found.findings[:MOST_SAID]:
            caller.say(line(finding))
        if len(found.findings) > MOST_SAID:
            more = len(found.findings) - MOST_SAID
            caller.say(f"and {more} more / 另有 {more} 项")
    return found


def counts(found: Reconciled) -> dict[str, int]:
    """How many findings of each kind."""
    return dict(Counter(finding.kind for finding in found.findings))


def summary(found: Reconciled) -> str:
    """One line in both languages: what was checked and what differs."""
    count = found.checked.get("checkpoints", 0)
    if found.clean:
        return (
            f"{count} checkpoints compared with what is there: no difference / "
            f"已将 {count} 个检查点与存储比对：无差异"
        )
    differing, size = len(found.findings), found.ownerless_bytes
    return (
        f"{count} checkpoints compared with what is there: {differing} findings, {size:,} bytes that no record names / "
        f"已将 {count} 个检查点与存储比对：{differing} 项差异，{size:,} 字节没有记录"
    )


def line(finding: Finding) -> str:
    """One line: what, where, and what may be done, the last by its command, too."""
    kind, act = " / ".join(KINDS[finding.kind]), " / ".join(ACTS[finding.proposal.act])
    return f"{kind}: {finding.ref} @ {finding.location}: {finding.detail} → {act}: {finding.proposal.command}"
