"""Which recovery drills stand for a project, and what happened to the platform since."""

from __future__ import annotations

from collections.abc import Iterator

from pretrain_archive.domain import kinds
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.port import Ledger


def drills(ledger: Ledger, projects: set[str]) -> Iterator[tuple[Record, kinds.DrillFiled]]:
    """Drills that were filed in runs of the projects, oldest first."""
    for record in ledger.records(kinds=["drill.filed"]):
        if project_of(ledger, record.stream) in projects:
            yield record, kinds.read_payload(record, kinds.DrillFiled)


def project_of(ledger: Ledger, run_uid: str) -> str | None:
    """The project of a run, None of one that is not in the ledger."""
    opened = next(iter(ledger.records(streams=[run_uid], kinds=["run.opened"], limit=1)), None)
    return None if opened is None else str(opened.payload.get("project"))


def drill_projects(policy: Policy) -> set[str]:
    """The projects whose drills stand for this one's."""
    return {policy.project, *policy.platform.drill_projects}


def changed_since(ledger: Ledger, position: int) -> Record | None:
    """A change that reached a stage since, or that was taken back after it had reached one."""
    for record in ledger.records(kinds=["platform.widened", "platform.rolled_back"], after=position):
        staged = ledger.records(streams=[record.stream], kinds=["platform.widened"], limit=1)
        if record.kind == "platform.widened" or any(True for _ in staged):
            return record
    return None
