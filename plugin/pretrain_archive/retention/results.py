"""What happened to the things of a plan in one pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal[
    "deleted", "already_missing", "already_deleted", "kept", "kept_for_later", "failed", "partly_deleted"
]
OPEN: frozenset[str] = frozenset({"failed", "kept_for_later", "partly_deleted"})
"""Outcomes after which something is left to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What happened to one thing of the plan."""

    id: str
    outcome: Outcome
    reason: str
    bytes_released: int = 0
    artifact_class: str = ""
    versions: int = 0
    project: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """What a pass did; ``complete`` is False while something failed, waits or is partly deleted."""

    plan_digest: str
    results: tuple[Result, ...]

    @property
    def bytes_released(self) -> int:
        """Bytes released by deletions that this pass completed."""
        return sum(result.bytes_released for result in self.results)

    @property
    def complete(self) -> bool:
        """Whether nothing of the plan is left to try again."""
        return not any(result.outcome in OPEN for result in self.results)

    @property
    def state(self) -> Literal["complete", "partly deleted", "not complete"]:
        """``partly deleted`` while something is half gone."""
        if any(result.outcome == "partly_deleted" for result in self.results):
            return "partly deleted"
        return "complete" if self.complete else "not complete"

    def outcomes(self) -> dict[str, int]:
        """How many things had each outcome."""
        return dict(Counter(result.outcome for result in self.results))

    def to_dict(self) -> dict[str, Any]:
        """The pass as plain JSON."""
        return {
            "plan_digest": self.plan_digest,
            "bytes_released": self.bytes_released,
            "complete": self.complete,
            "state": self.state,
            "outcomes": self.outcomes(),
            "items": [
                {"id": r.id, "outcome": r.outcome, "reason": r.reason, "bytes": r.bytes_released}
                for r in self.results
            ],
        }
