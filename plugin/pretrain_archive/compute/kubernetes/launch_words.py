"""What a visit says of members and stops, and what a member's end was whose pod is gone."""

from __future__ import annotations

from collections.abc import Sequence

from pretrain_archive.compute.kubernetes.exits_reason import DISRUPTIONS, EVENTS
from pretrain_archive.compute.kubernetes.standing import Object
from pretrain_archive.domain.kinds import MemberObserved, StopFired
from pretrain_archive.domain.kinds.cluster import ExitClass


def told_end(member: MemberObserved, events: Sequence[Object]) -> ExitClass | None:
    """How a member ended whose pod is gone, by the condition that it had and by the events about it."""
    if member.condition:
        return DISRUPTIONS.get(member.condition.partition(": ")[2], "evicted")
    about = [e for e in events if (e.get("involvedObject") or {}).get("uid") == member.uid]
    return next((EVENTS[str(event.get("reason"))] for event in about if event.get("reason") in EVENTS), None)


def stopped(stop: StopFired) -> str:
    """A stop rule that fired, in a line."""
    return f"stop rule {stop.rule}: {stop.observed}, limit {stop.limit}"


def told(member: MemberObserved) -> str:
    """A member in a line of the log."""
    where = f" on {member.node}" if member.node else ""
    end = f", {member.exit_class}" if member.exit_class else ""
    code = f" (exit code {member.exit_code})" if member.exit_code is not None else ""
    why = next((text for text in (member.condition, member.reason) if text), "")
    return f"worker {member.worker}, pod {member.name}{where}: {member.phase}{end}{code}{': ' + why if why else ''}"
