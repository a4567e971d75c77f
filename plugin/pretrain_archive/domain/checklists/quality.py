"""Items about the quality report: what blocks, and what it advises (R045, R047)."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists.common import item, last, names_snapshot
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item


def quality(view: RunView, policy: Policy) -> Item:
    """The quality report is about exactly this snapshot and passed (R045)."""
    snapshot_record, snapshot = last(view, kinds.SnapshotCreated)
    record, report = last(view, kinds.QualityReported)
    holds: bool | None = None
    found = ""
    if report is not None and snapshot is not None:
        about = names_snapshot(report.snapshot, snapshot)
        holds = report.passed and about and report.documents > 0
        failed = [gate.name for gate in report.gates if not gate.passed and gate.severity == "blocking"]
        found = f"{report.documents} documents, " + (
            f"failed: {', '.join(failed)}" if failed else report.reason or "all gates passed"
        )
        if not about:
            found = f"report is about {report.snapshot}"
    return item(
        "prepare.quality",
        "data",
        evidence=(snapshot_record, record),
        holds=holds,
        found=found,
        check="every blocking quality gate passed on this snapshot",
        expected="passed",
        owner=policy.people.data_owner,
        requirement="R045",
        hint="Read the quality report and mend the data.",
    )


def quality_advice(view: RunView, policy: Policy) -> Item:
    """Advisory quality gates that did not pass are acknowledged by whoever approves (R047)."""
    record, report = last(view, kinds.QualityReported)
    told = []
    if report is not None:
        unchecked = {gate.name for gate in report.gates if not gate.checked}
        told = [f"{name} (not checked)" if name in unchecked else name for name in report.warnings]
    return item(
        "prepare.quality_advice",
        "data",
        evidence=(record,),
        holds=None if report is None else not told,
        found=", ".join(told) or "none",
        check="no advisory quality gate failed on this snapshot",
        expected="none",
        owner=policy.people.data_owner,
        requirement="R047",
        hint="Read the quality report; whoever approves acknowledges what it advises.",
        blocking=False,
    )
