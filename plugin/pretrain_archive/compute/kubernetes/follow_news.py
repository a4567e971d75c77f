"""What of a followed job is worth a visit: its end, another reason to wait, other members, or time that passed."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from pretrain_archive.compute.kubernetes.exits import job_condition
from pretrain_archive.compute.kubernetes.follow_view import View
from pretrain_archive.compute.kubernetes.waiting import wait_of

News = Literal["ended", "wait", "members", "visit", "away"]
"""Why a visit is due: ``away`` is a cluster that has not answered for long."""

ENDED = {"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"}
FIRST_SECONDS = 5.0
SETTLE_SECONDS = 1.0
"""Changes come in bursts: a job's pods start together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What the last visit knew, small enough to travel with a trigger."""

    wait: str = ""
    members: str = ""

    def to_json(self) -> dict[str, str]:
        """As plain JSON."""
        return {"wait": self.wait, "members": self.members}


@dataclass(kw_only=True)
class Watcher:
    """Waits for news of one job.

    ``visits`` is how many visits there were: they are close together while a job starts, and ``visit_seconds``
    apart later. ``away_seconds`` is after how long without an answer a visit is due anyway.
    """

    view: View
    seen: Seen
    start_limit_seconds: float
    visit_seconds: float = 120.0
    visits: int = 0
    away_seconds: float = 120.0
    begin: float = field(default_factory=time.monotonic)

    @property
    def pause(self) -> float:
        """How long until the next visit if nothing happens."""
        return float(min(self.visit_seconds, FIRST_SECONDS * 2 ** min(self.visits, 20)))

    async def news(self) -> tuple[News, Seen]:
        """Wait until a visit is due; return why, and what was seen."""
        while True:
            passed = time.monotonic() - self.begin
            now = self.look()
            if now is not None and now[0] == "ended":
                return now
            if now is not None and passed >= SETTLE_SECONDS:
                return now
            if min(self.view.away_seconds, passed) >= self.away_seconds:
                return "away", self.seen
            if passed >= self.pause:
                return "visit", self.seen
            due = SETTLE_SECONDS if now is not None else self.pause
            await self.view.changed(max(0.05, min(due - passed, self.away_seconds)))

    def look(self) -> tuple[News, Seen] | None:
        """What is new by what is known of the job now; None without news, or while nothing is known yet."""
        view = self.view
        if not view.ready:
            return None
        if view.job is None or ended(view.job):
            return "ended", self.seen
        found = Seen(wait=self._wait(), members=members_digest(view.pods))
        if found.wait != self.seen.wait:
            return "wait", found
        return ("members", found) if found.members != self.seen.members else None

    def _wait(self) -> str:
        view = self.view
        wait = wait_of(
            view.job or {}, list(view.pods.values()), list(view.events), view.workload, now=datetime.now(UTC),
            start_limit_seconds=self.start_limit_seconds,
        )  # fmt: skip
        return "" if wait is None else f"{wait.reason}{' hopeless' if wait.hopeless else ''}"


def ended(job: dict[str, Any]) -> bool:
    """Whether the job's own conditions say that it is over, or will be as soon as its pods are."""
    return any(job_condition(job, name) is not None for name in ENDED)


def members_digest(pods: dict[str, dict[str, Any]]) -> str:
    """A digest of what a visit would record of the members: another one means that something changed."""
    facts = [
        [
            name,
            (pod.get("metadata") or {}).get("uid"),
            bool((pod.get("metadata") or {}).get("deletionTimestamp")),
            (pod.get("spec") or {}).get("nodeName"),
            (pod.get("status") or {}).get("phase"),
            [
                [
                    c.get("restartCount"),
                    sorted(c.get("state") or {}),
                    (c.get("state") or {}).get("terminated"),
                ]
                for c in (pod.get("status") or {}).get("containerStatuses") or ()
            ],
            [
                [c.get("type"), c.get("reason")]
                for c in (pod.get("status") or {}).get("conditions") or ()
                if c.get("type") == "DisruptionTarget" and c.get("status") == "True"
            ],
        ]
        for name, pod in sorted(pods.items())
    ]
    if not facts:
        return ""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
