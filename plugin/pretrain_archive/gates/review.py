"""What a review after a stop asks of the prepare gate, and what a further attempt asks of the review."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pretrain_archive.domain.checklists.common import item
from pretrain_archive.domain.exploration import scope_of
from pretrain_archive.domain.gates import recorded_policy
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.reviews import last_end, needs_review
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.gates.permit_time import valid_until

if TYPE_CHECKING:
    from pretrain_archive.gates.service import GateView

Signed = Callable[["GateView"], list[str]]
"""Why a gate is not signed for what stands now, as it is asked of every gate; empty if it is."""


def prepare_items(view: RunView, prepare: GateView, policy: Policy) -> tuple[Item, ...]:
    """Whether the approval of the launch still stands; an exploration needs none, so none is asked for."""
    if scope_of(view.opened) != "full":
        return ()
    record = prepare.decision[0] if prepare.decision else None
    return (
        item(
            "review.prepare",
            "gates",
            evidence=(record,),
            holds=None if prepare.decision is None else prepare.approved,
            expected="an approval of exactly what stands now",
            found="; ".join(prepare.stale[:5]) or ("approved" if prepare.approved else "not approved"),
            check="the prepare gate was approved for exactly the inputs that stand now",
            blocking=False,
            owner=policy.people.platform_owner,
            requirement="R137",
            hint="Trigger a new run with the inputs as they are now.",
        ),
    )


def prepare_facts(view: RunView, prepare: GateView) -> tuple[tuple[str, str], ...]:
    """Until when the approval of the launch covers further attempts: a moment, so that no clock is read."""
    if prepare.decision is None:
        return ()
    rules = recorded_policy(view).gates
    hours = rules.resume_valid_hours or rules.decision_valid_hours
    return (("prepare_valid", format_time(valid_until(prepare.decision[0], hours=hours))),)


def review_faults(view: RunView, review: Callable[[], GateView], signed: Signed) -> list[str]:
    """Why the newest attempt may not be followed by another one before a person chose to resume; empty if it may.

    A decision counts for exactly the attempt that it was about: a later attempt makes it stale by name. ``review``
    reads the gate, only where that is needed.
    """
    cause, found = needs_review(view), last_end(view)
    if cause is None or found is None:
        return []
    about, gate = f"attempt {cause.attempt} needs a review ({cause.text()})", review()
    if gate.decision is None or gate.decision[0].position < found[0].position:
        return [f"{about}, and nobody has answered one"]
    decision = gate.decision[1]
    faults = [f"{about}: {fault}" for fault in signed(gate)]
    if decision.decision == "approve" and decision.outcome != "resume":
        faults.append(f"{about}: {decision.person_name} chose {decision.outcome}")
    return faults + [f"{about}: {gap.id} is {gap.verdict.value}" for gap in gate.dossier.gaps("resume")]
