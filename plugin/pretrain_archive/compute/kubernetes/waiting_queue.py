"""Why a job has no pods: the job controller's events, and what Kueue says of its workload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pretrain_archive.compute.kubernetes.waiting_base import (
    Wait,
    condition_of,
    events_of,
    holds,
    name_of,
    text_of,
)
from pretrain_archive.domain.kinds.cluster import WaitReason

CREATE_REASONS = ("FailedCreate", "FailedJob", "JobCreationFailed")

CREATE_RULES: tuple[tuple[str, WaitReason, bool], ...] = (
    (r"failed calling webhook|context deadline exceeded|connection refused|too many requests", "policy", False),
    (r"error looking up service account|serviceaccount \S+ not found", "environment", True),
    (r"exceeded quota", "quota", False),
    (r"failed quota|must specify", "quota", True),
    (r"PriorityClass|priority class", "policy", True),
    (r"RuntimeClass \S+ not found", "environment", True),
    (r"violates PodSecurity|denied the request|denied by|security context constraint", "policy", True),
    (r"(maximum|minimum) \S+ usage per|LimitRange", "policy", True),
    (r"(secret|configmap|persistentvolumeclaim|namespace)s? \S+ not found", "environment", True),
    (r"is being terminated", "environment", True),
    (r"is forbidden", "policy", True),
    (r"is invalid|Invalid value|field is immutable", "environment", True),
)  # fmt: skip
"""What an API server answers to the job controller, the first that matches: reason, and whether it stays so."""

_EXCEEDED = re.compile(r"requested: (?P<asked>[^:]+?), used: .*?limited: (?P<limit>.+)$", re.DOTALL)
_SUFFIXES = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20,
             "Gi": 2.0**30, "Ti": 2.0**40, "P": 1e15, "Pi": 2.0**50, "E": 1e18, "Ei": 2.0**60}  # fmt: skip
_QUANTITY = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?)([A-Za-z]*)$")
_TOO_MUCH = re.compile(r"maximum capacity \(\S+(?: > \S+)?\)|unavailable in ClusterQueue")
_PODSET = re.compile(r"couldn't assign flavors to pod set \S+: ")


def create_wait(job: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> Wait | None:
    """Why the controller cannot make the job's pods, from the newest event that says so.

    The pods of a TrainJob are made by the job that its runtime makes, which is named after it.
    """
    known = list(events)
    makers = [{"metadata": {"name": f"{name_of(job)}-node-0"}}] if job.get("kind") == "TrainJob" else []
    for event in [e for maker in (job, *makers) for e in events_of(known, maker, *CREATE_REASONS)]:
        text = text_of(event)
        for pattern, reason, stays in CREATE_RULES:
            if re.search(pattern, text, re.IGNORECASE):
                lasting = stays or (reason == "quota" and never_fits(text))
                return Wait(
                    reason=reason, message=text, object=f"job/{name_of(job)}", hopeless=lasting,
                    details={"event": str(event.get("reason")), "count": event.get("count")},
                )  # fmt: skip
        return Wait(
            reason="environment", message=text, object=f"job/{name_of(job)}",
            details={"event": str(event.get("reason")), "count": event.get("count")},
        )  # fmt: skip
    return None


def never_fits(message: str) -> bool:
    """Whether a resource quota is smaller than one member alone asks for, such as a quota of zero."""
    found = _EXCEEDED.search(message)
    if not found:
        return False
    asked, limits = _pairs(found["asked"]), _pairs(found["limit"])
    return any(amount > limits[name] for name, amount in asked.items() if name in limits)


def quantity(text: str) -> float | None:
    """A quantity of the API (``500m``, ``4Gi``) as a number; None if it is none."""
    found = _QUANTITY.fullmatch(text.strip())
    if not found or found[2] not in _SUFFIXES:
        return None
    try:
        return float(found[1]) * _SUFFIXES[found[2]]
    except ValueError:
        return None


def _pairs(text: str) -> dict[str, float]:
    parts = (part.strip().partition("=") for part in text.split(","))
    return {name: amount for name, _, value in parts if (amount := quantity(value)) is not None}


def queue_wait(
    job: Mapping[str, Any], workload: Mapping[str, Any] | None, position: Mapping[str, Any] | None = None
) -> Wait | None:
    """Why Kueue does not let the job start; None for a job without a queue, or one that it has admitted.

    ``position`` is the workload's entry of Kueue's visibility API (``positionInLocalQueue`` and so on).
    """
    queue = ((job.get("metadata") or {}).get("labels") or {}).get("kueue.x-k8s.io/queue-name")
    if workload is None:
        if not queue:
            return None
        text = f"queue {queue}: Kueue has made no workload for the job yet"
        return Wait(reason="queue", message=text, object=f"job/{name_of(job)}", details={"queue": queue})
    if holds(condition_of(workload, "Admitted")) and not holds(condition_of(workload, "Evicted")):
        return None
    queue = queue or (workload.get("spec") or {}).get("queueName")
    reason, told, hopeless = _judge(workload)
    place, details = _place(position), {"queue": queue, **_numbers(position)}
    text = f"queue {queue}{place}: {told}"
    return Wait(
        reason=reason,
        message=text,
        object=f"workload/{name_of(workload)}",
        hopeless=hopeless,
        details=details,
    )


def _judge(workload: Mapping[str, Any]) -> tuple[WaitReason, str, bool]:
    evicted, reserved = condition_of(workload, "Evicted"), condition_of(workload, "QuotaReserved")
    if (workload.get("spec") or {}).get("active") is False:
        told = (evicted or {}).get("message") or "the workload was deactivated"
        return "policy", str(told), True
    for check in (workload.get("status") or {}).get("admissionChecks") or []:
        if check.get("state") in {"Rejected", "Retry", "Pending"} and (
            holds(reserved) or check["state"] == "Rejected"
        ):
            told = f"admission check {check.get('name')} is {check['state']}: {check.get('message') or 'no message'}"
            return "policy", told, check["state"] == "Rejected"
    told = str((reserved or {}).get("message") or "")
    if reserved is not None and not holds(reserved) and told:
        return _reserved(told)
    if holds(evicted):
        return "queue", f"put back: {(evicted or {}).get('message') or (evicted or {}).get('reason')}", False
    return "queue", "not considered yet", False


def _reserved(told: str) -> tuple[WaitReason, str, bool]:
    """What the message of ``QuotaReserved`` says (kueue, pkg/scheduler/flavorassigner)."""
    if re.search(r"(LocalQueue|ClusterQueue) \S+ (doesn't|does not) exist", told):
        return "queue", told, True
    if re.search(r"is inactive|is stopped|stopped", told):
        return "queue", told, False
    if "topology" in told:
        return "topology", told, False
    if re.search(r"quota|unavailable in ClusterQueue", told):
        sets = [part for part in _PODSET.split(told) if part.strip()]
        never = any(_TOO_MUCH.search(part) and "unused quota" not in part for part in sets)
        return "quota", told, never
    if re.search(r"taint|affinity", told):
        return "topology", told, False
    return "queue", told, False


def _numbers(position: Mapping[str, Any] | None) -> dict[str, Any]:
    names = ("positionInLocalQueue", "positionInClusterQueue", "priority")
    return {name: position[name] for name in names if position and name in position}


def _place(position: Mapping[str, Any] | None) -> str:
    found = (position or {}).get("positionInClusterQueue")
    return f", {found} others before it" if isinstance(found, int) else ""
