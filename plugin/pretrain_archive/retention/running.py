"""What the clean-up knows of each run, kept up to date record by record.

The state follows ``RunView.state``; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KINDS = (
    "run.opened", "run.failed", "run.closed", "gate.dossier", "gate.decision", "gate.refused", "gate.expired",
    "launch.intended", "attempt.started", "attempt.ended", "package.written", "job.created",
    "job.ended", "job.removed",
)  # fmt: skip
"""What says how a run stands."""

_OPEN = {"run.opened", "attempt.ended", "gate.decision", "gate.expired", "package.written"}


@dataclass(kw_only=True, slots=True)
class RunNow:
    """A run as it stands: ``project`` is empty and ``opened`` False while nothing is known of how it began.

    ``decisions`` are the references of its gates' decisions with their times, ``asking`` what the question that
    waits for an answer mentions, ``jobs`` the names of jobs that are on record as created and not as gone,
    ``attempts`` those that began and have no end.
    """

    uid: str
    project: str = ""
    opened: bool = False
    submitter: str = ""
    derived_from: str = ""
    state: str = "unrecorded"
    changed_at: str = ""
    decisions: list[tuple[str, str]] = field(default_factory=list)
    asking: frozenset[str] = frozenset()
    jobs: set[str] = field(default_factory=set)
    attempts: set[int] = field(default_factory=set)

    @property
    def closed(self) -> bool:
        """Whether it is over for good."""
        return self.state == "closed"

    def take(self, kind: str, payload: Mapping[str, Any], recorded_at: str) -> None:
        """One more record of the run."""
        self.changed_at = recorded_at
        if kind == "run.opened":
            self.opened = True
            self.project = str(payload["project"])
            self.submitter = str(payload.get("submitter") or "")
            self.derived_from = str(payload.get("derived_from") or "").removeprefix("run:")
        elif kind == "gate.decision" and payload["decision"] == "approve":
            digest = str(payload["dossier_digest"])[7:]
            self.decisions.append((f"decision:{self.uid}/{payload['gate']}@{digest}", recorded_at))
        self._work(kind, payload)
        if self.state != "closed":
            self.state = _next(self.state, kind, payload)
        if not self.state.startswith("waiting_"):
            self.asking = frozenset()

    def _work(self, kind: str, payload: Mapping[str, Any]) -> None:
        if kind == "job.created":
            self.jobs.add(_job(payload))
        elif kind == "job.ended" or (kind == "job.removed" and payload.get("verified_absent", True)):
            self.jobs.discard(_job(payload))
        elif kind == "attempt.started":
            self.attempts.add(int(payload["attempt"]))
        elif kind == "attempt.ended":
            self.attempts.discard(int(payload["attempt"]))


def registers(payload: Mapping[str, Any]) -> bool:
    """Whether a gate's decision lets a candidate be registered."""
    return (
        payload["gate"] == "close"
        and payload["decision"] == "approve"
        and payload.get("outcome") == "register"
    )


def _job(payload: Mapping[str, Any]) -> str:
    return f"{payload.get('namespace', '')}/{payload.get('name', '')}"


def _next(state: str, kind: str, payload: Mapping[str, Any]) -> str:
    if kind == "run.closed":
        return "closed"
    if kind == "run.failed":
        return "failed"
    if kind in {"launch.intended", "attempt.started"}:
        return "training"
    if kind == "gate.dossier":
        return f"waiting_{payload['gate']}"
    return "open" if kind in _OPEN else state
