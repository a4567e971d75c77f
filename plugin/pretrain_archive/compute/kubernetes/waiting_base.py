"""A reason to wait, and how to read what the cluster says: conditions, events and their times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.kinds.cluster import ExitClass, WaitReason


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """Why a launch has not all its members, in words.

    ``object`` is what says so, as ``kind/name``. ``hopeless``: waiting on does not help, the launch should end.
    """

    reason: WaitReason
    message: str
    object: str = ""
    hopeless: bool = False
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_class(self) -> ExitClass:
        """How an attempt ended that waited for this in vain."""
        return "image" if self.reason == "image" else "unschedulable"


def name_of(item: Mapping[str, Any]) -> str:
    """The object's name."""
    return str((item.get("metadata") or {}).get("name", ""))


def condition_of(item: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The condition of this type, whatever its status."""
    for condition in (item.get("status") or {}).get("conditions") or []:
        if condition.get("type") == name:
            return dict(condition)
    return None


def holds(condition: Mapping[str, Any] | None) -> bool:
    """Whether a condition's status is exactly "True": other texts are truthy too."""
    return condition is not None and condition.get("status") == "True"


def moment_of(text: Any) -> datetime | None:
    """A time of the API, None where there is none."""
    try:
        return parse_time(str(text)) if text else None
    except ValueError:
        return None


def event_time(event: Mapping[str, Any]) -> datetime | None:
    """When an event was last seen."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        (event.get("metadata") or {}).get("creationTimestamp"),
    )
    return next((found for text in times if (found := moment_of(text)) is not None), None)


def events_of(
    events: Iterable[Mapping[str, Any]], item: Mapping[str, Any], *reasons: str
) -> Iterator[Mapping[str, Any]]:
    """Events about this object with one of these reasons (all if none is given), newest first."""
    uid, name = (item.get("metadata") or {}).get("uid"), name_of(item)
    about = []
    for event in events:
        target = event.get("involvedObject") or event.get("regarding") or {}
        same = target.get("uid") == uid if uid and target.get("uid") else target.get("name") == name
        if same and (not reasons or event.get("reason") in reasons):
            about.append(event)
    # Text compares as time here: RFC 3339 in UTC; events without a time come last.
    yield from sorted(about, key=lambda e: str(event_time(e) or ""), reverse=True)


def text_of(event: Mapping[str, Any]) -> str:
    """What an event says."""
    return str(event.get("message") or event.get("note") or "")


def running(pod: Mapping[str, Any]) -> bool:
    """Whether the member's own container runs, or has run and ended: it waits for nothing."""
    status = pod.get("status") or {}
    if status.get("phase") in {"Succeeded", "Failed"}:
        return True
    states = [item.get("state") or {} for item in status.get("containerStatuses") or []]
    return bool(states) and all("running" in state or "terminated" in state for state in states)
