"""Conditions and times of objects, as the API server keeps them."""

from __future__ import annotations

import calendar
import time
from typing import Any

from tests.fakes.cluster_store import Object, stamp

ENDED = ("Succeeded", "Failed")
"""Phases of a pod that runs no more."""


def seconds_of(text: str) -> float:
    """A Kubernetes time as seconds since the epoch."""
    return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))


def condition_of(found: Object, kind: str) -> dict[str, Any] | None:
    """The condition of that type if it is true."""
    conditions = found.get("status", {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)


def set_condition(
    found: Object, kind: str, status: str, now: float, reason: str = "", message: str = ""
) -> None:
    """Set a condition; its transition time moves only with its status."""
    conditions = found.setdefault("status", {}).setdefault("conditions", [])
    old = next((c for c in conditions if c["type"] == kind), None)
    made = {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": stamp(now), "lastProbeTime": stamp(now),
    }  # fmt: skip
    if old is not None and old["status"] == status:
        old |= {"reason": reason or old["reason"], "message": message or old["message"]}
    elif old is not None:
        old |= made
    else:
        conditions.append(made)
