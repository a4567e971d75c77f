"""Whether somebody wrote down what a run taught (R097): asked at the close, and never in the way of it."""

from __future__ import annotations

from pretrain_archive.domain.checklists.common import item
from pretrain_archive.domain.governance_conclusion import conclusion_of, conclusion_told
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item


def conclusion(view: RunView, policy: Policy) -> Item:
    """A person concluded what improved against what, and what was learnt: advisory, unrecorded without."""
    found = conclusion_of(view, signed=True)
    return item(
        "close.conclusion",
        "gates",
        evidence=(found[0],) if found else (),
        holds=True if found else None,
        found=conclusion_told(found[1])[0] if found else "",
        expected="what improved against what, and what was learnt",
        check="a person recorded a conclusion, with evidence that was looked up",
        blocking=False,
        owner=policy.people.model_owner,
        requirement="R097",
        hint="Record it: pretrain-archive run conclude RUN.",
    )
