"""The serving checks of a release (R114): asked where the model is meant to serve."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.checklists.common import item, last
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.serving import serving_of
from pretrain_archive.domain.verdicts import Item


def release_serving(view: RunView, policy: Policy) -> Item | None:
    """Every serving aspect that the policy demands is recorded; None where the model is not meant to serve."""
    known = serving_of(view, policy.release)
    if not known.serves:
        return None
    record, _ = last(view, kinds.RunOpened)
    demanded = [*policy.release.serving_demanded, *policy.release.serving_measured]
    missing = "; ".join(f"{aspect}: {reason}" for aspect, reason in known.gaps.items())
    return item(
        "release.serving",
        "artifact",
        evidence=(record, *(found for found, _ in view.all(kinds.ServingCheck))),
        holds=None if known.gaps else True,
        found=known.text() or "the policy demands no serving check",
        expected=", ".join(dict.fromkeys(demanded)),
        check="every aspect of serving that the policy demands is recorded for the candidate's bytes",
        blocking=False,
        owner=policy.people.platform_owner,
        requirement="R114",
        hint=f"Missing: {missing}. Record it: pretrain-archive release check RUN." if missing else "",
    )
