"""Why a pod does not run, from its conditions, its containers' states and its events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pretrain_archive.compute.kubernetes.waiting_base import (
    Wait,
    condition_of,
    events_of,
    name_of,
    text_of,
)
from pretrain_archive.compute.kubernetes.waiting_image import image_wait
from pretrain_archive.compute.kubernetes.waiting_schedule import schedule_wait
from pretrain_archive.domain.kinds.cluster import WaitReason

CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_MISSING = re.compile(
    r'(secret|configmap|config map)s? "[^"]*" not found|couldn\'t find key|could not find key', re.IGNORECASE
)
_NOT_ALLOWED = re.compile(r"runAsNonRoot|must not run as root|will run as root|is not allowed", re.IGNORECASE)


def pod_wait(pod: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> Wait:
    """Why this pod has no running container; in the end only that the node gets it ready."""
    known = list(events)
    return (
        _unscheduled(pod)
        or next(_containers(pod, known), None)
        or _volumes(pod, known)
        or _sandbox(pod, known)
        or _starting(pod, known)
    )


def _unscheduled(pod: Mapping[str, Any]) -> Wait | None:
    condition = condition_of(pod, "PodScheduled")
    if condition is None or condition.get("status") != "False":
        return None
    return schedule_wait(pod, condition)


def _containers(pod: Mapping[str, Any], events: list[Mapping[str, Any]]) -> Iterator[Wait]:
    """What the containers that wait say, init containers first: the others wait for them."""
    status = pod.get("status") or {}
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        if (found := image_wait(pod, container, events)) is not None:
            yield found
            continue
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, told = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
        name = str(container.get("name") or "")
        if reason in CONFIG_REASONS:
            refused, missing = _NOT_ALLOWED.search(told), _MISSING.search(told)
            kind: WaitReason = "policy" if refused else "environment"
            yield Wait(
                reason=kind, message=f"container {name}: {reason}: {told}", object=f"pod/{name_of(pod)}",
                hopeless=bool(refused or missing), details={"state": reason},
            )  # fmt: skip
        elif reason == "CrashLoopBackOff":
            yield Wait(
                reason="environment", message=f"container {name} fails again and again: {told}",
                object=f"pod/{name_of(pod)}", details={"state": reason},
            )  # fmt: skip


def _volumes(pod: Mapping[str, Any], events: list[Mapping[str, Any]]) -> Wait | None:
    for event in events_of(events, pod, "FailedMount", "FailedAttachVolume", "FailedMapVolume"):
        text = text_of(event)
        missing = bool(_MISSING.search(text))
        return Wait(
            reason="environment" if missing else "data", message=text, object=f"pod/{name_of(pod)}",
            hopeless=missing, details={"event": str(event.get("reason"))},
        )  # fmt: skip
    return None


def _sandbox(pod: Mapping[str, Any], events: list[Mapping[str, Any]]) -> Wait | None:
    for event in events_of(
        events, pod, "FailedCreatePodSandBox", "NetworkNotReady", "FailedPodSandBoxStatus"
    ):
        return Wait(
            reason="environment", message=text_of(event), object=f"pod/{name_of(pod)}",
            details={"event": str(event.get("reason"))},
        )  # fmt: skip
    return None


def _starting(pod: Mapping[str, Any], events: list[Mapping[str, Any]]) -> Wait:
    node = (pod.get("spec") or {}).get("nodeName")
    where = f"node {node} gets it ready" if node else "the scheduler has not looked at it yet"
    last = next(events_of(events, pod, "Pulling", "Pulled", "Created", "SuccessfulAttachVolume"), None)
    told = f": {text_of(last)}" if last is not None else ""
    return Wait(
        reason="start", message=f"{where}{told}", object=f"pod/{name_of(pod)}", details={"node": node}
    )
