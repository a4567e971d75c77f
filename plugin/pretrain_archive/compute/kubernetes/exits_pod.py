"""Read facts of a pod from the API's plain dict. What is not there is None: unrecorded, never guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pretrain_archive.domain.identity import parse_time

INDEX = "batch.kubernetes.io/job-completion-index"
MAIN = ("train", "node")
"""The container that runs the wrapper: ours, or that of a training runtime."""
LOST = timedelta(seconds=60)
"""A pod that is still there so long after its time to end has a node that does not answer."""
LOST_REASONS = frozenset({"DeletionByTaintManager", "DeletionByPodGC"})

LONGEST_INDEX = 9
"""Digits of a member's index: the API's own is a 32-bit number."""
LONGEST_TEXT = 2000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_DIGEST = re.compile(r"@(sha256:[0-9a-f]{64})$")
_NEVER = ("0001-01-01", "1970-01-01")
_ASCEND = re.compile(r"huawei\.com/(Ascend[0-9A-Za-z]*)$")


def plain(text: str) -> str:
    """What the cluster said, fit for a line of a log and a record: one line, no control characters, bounded."""
    return _CONTROL.sub(" ", text[: 2 * LONGEST_TEXT])[:LONGEST_TEXT]


def worker_of(pod: Mapping[str, Any]) -> int:
    """The member's index; 0 in a job of one."""
    metadata = pod.get("metadata") or {}
    for kind in ("annotations", "labels"):
        text = str((metadata.get(kind) or {}).get(INDEX, ""))
        if text.isdecimal() and len(text) <= LONGEST_INDEX:
            return int(text)
    return 0


def main_status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of the container that runs the wrapper; empty before there is one."""
    found = (pod.get("status") or {}).get("containerStatuses") or []
    named = [status for status in found if status.get("name") in MAIN]
    return dict((named or found or [{}])[0])


def image_digest(container: Mapping[str, Any]) -> str | None:
    """The digest of the pulled image; an id without a repository is the runtime's own and is not comparable."""
    found = _DIGEST.search(str(container.get("imageID") or ""))
    return found.group(1) if found else None


def moment(text: Any) -> str | None:
    """A time of the API; None for the zero times that runtimes write when they do not know."""
    return str(text) if text and not str(text).startswith(_NEVER) else None


def disruption(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The pod's condition ``DisruptionTarget`` if it is "True"."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return dict(condition)
    return None


def condition_text(condition: Mapping[str, Any] | None) -> str:
    """A condition as ``Type: Reason``; empty for none."""
    return plain(f"{condition['type']}: {condition.get('reason') or 'no reason'}") if condition else ""


def ended_now(pod: Mapping[str, Any], *, at: str) -> bool:
    """Whether the member is over at the moment ``at``: ended, or on a node that answers no more."""
    status = pod.get("status") or {}
    if status.get("phase") in {"Succeeded", "Failed"} or status.get("reason") == "NodeLost":
        return True
    if (main_status(pod).get("state") or {}).get("terminated"):
        return True
    deleted = (pod.get("metadata") or {}).get("deletionTimestamp")
    found = disruption(pod)
    taken = status.get("phase") == "Unknown" or (found is not None and found.get("reason") in LOST_REASONS)
    return bool(taken and deleted and parse_time(at) - parse_time(str(deleted)) > LOST)


def device_ids(pod: Mapping[str, Any]) -> list[str] | None:
    """The accelerators that the pod was given, where status or annotations name them.

    Sources: ``allocatedResourcesStatus`` of a container (Kubernetes 1.31, feature ResourceHealthStatus), the
    annotations of Ascend's device plugin and of HAMi. Elsewhere the wrapper's probe is what tells.
    """
    status = main_status(pod)
    listed = [
        str(device["resourceID"])
        for resource in status.get("allocatedResourcesStatus") or []
        for device in resource.get("resources") or []
        if device.get("resourceID")
    ]
    if listed:
        return listed
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return _configured(annotations) or _ascend(annotations) or _hami(annotations) or None


def _configured(annotations: Mapping[str, Any]) -> list[str]:
    """``ascend.kubectl.kubernetes.io/ascend-910-configuration``: ``{"devices": [{"device_id": "0", …}]}``."""
    text = annotations.get("ascend.kubectl.kubernetes.io/ascend-910-configuration")
    try:
        found = json.loads(text) if text else {}
        return [plain(f"Ascend910-{device['device_id']}") for device in found.get("devices", [])]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _ascend(annotations: Mapping[str, Any]) -> list[str]:
    """``huawei.com/Ascend910: "Ascend910-0,Ascend910-1"``; ``huawei.com/AscendReal`` names what was really given."""
    names = sorted(
        (name for name in annotations if _ASCEND.match(name)), key=lambda n: not n.endswith("Real")
    )
    found = [part.strip() for name in names[:1] for part in str(annotations[name]).split(",")]
    return [part for part in found if part]


def _hami(annotations: Mapping[str, Any]) -> list[str]:
    """``hami.io/…-devices-allocated``: containers end with ``;``, devices with ``:``, fields with ``,``."""
    for name, text in sorted(annotations.items()):
        if name.startswith("hami.io/") and name.endswith("-devices-allocated"):
            parts = [part for block in str(text).split(";") for part in block.split(":")]
            return [fields[0] for part in parts if len(fields := part.split(",")) > 1 and fields[0]]
    return []
