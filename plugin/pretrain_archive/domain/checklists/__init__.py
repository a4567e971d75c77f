"""The checklist of each gate: one small function per item, pure over a run's records."""

from __future__ import annotations

from pretrain_archive.domain.checklists import close, prepare, review, run
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item

CHECKLISTS = {
    "prepare": prepare.CHECKS,
    "review": review.CHECKS,
    "run": run.CHECKS,
    "close": close.CHECKS,
}


def checklist(gate: str, view: RunView, policy: Policy) -> tuple[Item, ...]:
    """Every item of ``gate`` that the policy asks for with its verdict, in the checklist's order."""
    made = (check(view, policy) for check in CHECKLISTS[gate])
    return tuple(item for item in made if item is not None)
