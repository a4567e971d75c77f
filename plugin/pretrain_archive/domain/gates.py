"""A gate's dossier: what the approver is shown, as a value computed from a run's records alone.

Rules of order:
* prepare comes before any launch, run after an attempt has ended, close after the run gate was signed;
* review stands beside them: it is asked of an attempt that was stopped or failed for good, before any further one;
* an item is verified only by a check that is named; what is missing is unrecorded, what contradicts is changed;
* a blocking item that is not verified forbids approval: a person signs responsibility, not wishes;
* the document holds no clock and no random value, so that the same records give the same digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.reviews import REVIEW_OUTCOMES
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict

FORMAT = "pretrain-archive/dossier/1"
OUTCOMES = ("register", "continue", "clean_up")
"""What an approval of the close gate chooses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """A fact that differs from the last approved run of the project; empty means it was not recorded."""

    field: str
    left: str
    right: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Dossier:
    """What a gate shows. ``facts`` are (key, text) in reading order; ``compared_with`` is a run uid or empty.

    ``consequences`` maps a choice (approve, reject) to (key, text) numbers that the pages put into words.
    """

    gate: str
    run_uid: str
    items: tuple[Item, ...]
    facts: tuple[tuple[str, str], ...]
    compared_with: str = ""
    differences: tuple[Difference, ...] = ()
    consequences: tuple[tuple[str, str], ...] = ()

    def document(self) -> dict[str, Any]:
        """The dossier as plain JSON: the bytes of its canonical form are what is signed."""
        return {
            "format": FORMAT,
            "gate": self.gate,
            "run_uid": self.run_uid,
            "items": [item.to_dict() for item in self.items],
            "facts": [[key, value] for key, value in self.facts],
            "compared_with": self.compared_with,
            "differences": [{"field": d.field, "left": d.left, "right": d.right} for d in self.differences],
            "consequences": [[key, value] for key, value in self.consequences],
        }

    def blocked_by(self) -> tuple[Item, ...]:
        """Blocking items that are not verified."""
        return tuple(item for item in self.items if item.blocking and item.verdict is not Verdict.VERIFIED)

    def advisory(self) -> tuple[Item, ...]:
        """Advisory items that are not verified: the approver acknowledges them by name."""
        return tuple(
            item for item in self.items if not item.blocking and item.verdict is not Verdict.VERIFIED
        )

    def release_gaps(self) -> tuple[Item, ...]:
        """Release items that forbid the outcome *register*."""
        return tuple(item for item in self.advisory() if item.id in RELEASE_REQUIRED)

    def outcomes(self) -> tuple[str, ...]:
        """What an approval of this gate chooses among; empty where there is nothing to choose."""
        return {"close": OUTCOMES, "review": REVIEW_OUTCOMES}.get(self.gate, ())

    def gaps(self, outcome: str) -> tuple[Item, ...]:
        """The items whose verdict forbids ``outcome``."""
        required = {"register": RELEASE_REQUIRED, "resume": RESUME_REQUIRED}.get(outcome, frozenset())
        return tuple(item for item in self.advisory() if item.id in required)


RELEASE_REQUIRED = frozenset(
    {
        "release.version",
        "release.origin",
        "release.rights",
        "release.evaluation",
        "close.human_evaluation",
        "release.applicable",
        "release.not_applicable",
        "release.rollback",
        "release.serving",
        "release.scope",
    }
)
"""Release items (R113) that must be verified before the outcome *register*; the registry itself is advisory."""

RESUME_REQUIRED = frozenset({"review.attempts", "review.budget", "review.sources", "review.prepare"})
"""Review items that must be verified before the outcome *resume*: what is used up or no longer allowed."""


def recorded_policy(view: RunView) -> Policy:
    """The policy as it stood when the run was opened; refuse a run without one.

    A recorded policy was read strictly then; settings that this release no longer knows are left out.
    """
    if view.opened is None or not view.opened.policy:
        raise RefusedError(f"run {view.run_uid} has no recorded policy", hint="Trigger the run again.")
    return Policy.model_validate(view.opened.policy, extra="ignore")


def eligible_people(policy: Policy, gate: str, submitter: str | None) -> tuple[str, ...]:
    """Who may answer ``gate``: the policy's approvers, without the submitter under separation of duties.

    Under separation of duties nobody may answer where the submitter is unknown: it could be anybody.
    """
    apart = policy.gates.separation_of_duties == "required"
    if apart and not submitter:
        return ()
    return tuple(name for name in policy.approvers_of(gate) if not (apart and name == submitter))


def changed_parts(shown: dict[str, Any], now: dict[str, Any]) -> tuple[str, ...]:
    """Name what differs between two dossier documents: ``fact: old → new`` or ``item: old → new``."""
    named: list[str] = []
    old_facts, new_facts = dict(shown["facts"]), dict(now["facts"])
    for key in sorted(old_facts.keys() | new_facts.keys()):
        left, right = old_facts.get(key, "unrecorded"), new_facts.get(key, "unrecorded")
        if left != right:
            named.append(f"{key}: {left} → {right}")
    old_items = {item["id"]: item for item in shown["items"]}
    new_items = {item["id"]: item for item in now["items"]}
    for key in sorted(old_items.keys() | new_items.keys()):
        a, b = old_items.get(key), new_items.get(key)
        if a != b:
            left = "unrecorded" if a is None else f"{a['verdict']} {a['found']}".strip()
            right = "unrecorded" if b is None else f"{b['verdict']} {b['found']}".strip()
            named.append(f"{key}: {left} → {right}" if left != right else f"{key}: evidence replaced")
    if not named and shown != now:
        named.append("comparison with the last approved run")
    return tuple(named)
