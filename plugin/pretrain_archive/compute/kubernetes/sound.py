"""Objects of a cluster as their types promise: a part of another type is left out, and is unrecorded then.

An API server checks what it stores, yet what reaches us may come through a proxy, an aggregated API or a kubelet that
is newer or broken. One member's odd status must not keep the others' evidence from being written down.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from pretrain_archive.domain.identity import parse_time

log = logging.getLogger(__name__)

TIME = "time"
"""A text that is a moment (RFC 3339 with a zone)."""

LARGEST = 2**53 - 1
"""Of integers: a larger one is the same number to nobody who reads the record (RFC 8785)."""

Shape = Any
"""A type, :data:`TIME`, ``{name: shape}`` for an object, ``[shape]`` for a list; what is not named passes as it is."""

_TEXTS: Shape = {"": str}
"""An object of any names whose values are texts."""
_CONDITION: Shape = {
    "type": str, "status": str, "reason": str, "message": str, "lastTransitionTime": TIME,
}  # fmt: skip
_STATE: Shape = {
    "waiting": {"reason": str, "message": str},
    "running": {"startedAt": TIME},
    "terminated": {
        "exitCode": int, "signal": int, "reason": str, "message": str, "startedAt": TIME, "finishedAt": TIME,
    },
}  # fmt: skip
_CONTAINER: Shape = {
    "name": str, "image": str, "imageID": str, "restartCount": int, "ready": bool, "state": _STATE,
    "lastState": _STATE, "allocatedResourcesStatus": [{"name": str, "resources": [{"resourceID": str}]}],
}  # fmt: skip
_METADATA: Shape = {
    "name": str, "uid": str, "namespace": str, "labels": _TEXTS, "annotations": _TEXTS, "creationTimestamp": TIME,
    "deletionTimestamp": TIME, "ownerReferences": [{"uid": str, "name": str, "kind": str}],
    "resourceVersion": str, "continue": str,
}  # fmt: skip
_NAMED: Shape = {"name": str}
SHAPE: Shape = {
    "metadata": _METADATA,
    "spec": {
        "nodeName": str, "suspend": bool, "containers": [_NAMED], "parallelism": int, "queueName": str, "active": bool,
        "trainer": {"numNodes": int}, "template": {"spec": {"containers": [_NAMED]}},
    },
    "status": {
        "phase": str, "reason": str, "message": str, "startTime": TIME, "nominatedNodeName": str,
        "conditions": [_CONDITION], "containerStatuses": [_CONTAINER], "initContainerStatuses": [_CONTAINER],
        "admissionChecks": [{"name": str, "state": str, "message": str}], "active": int, "failed": int,
        "succeeded": int,
    },
    "involvedObject": {"kind": str, "name": str, "uid": str}, "regarding": {"kind": str, "name": str, "uid": str},
    "reason": str, "message": str, "note": str, "series": {"lastObservedTime": TIME}, "lastTimestamp": TIME,
    "firstTimestamp": TIME, "eventTime": TIME, "count": int, "kind": str,
    "positionInLocalQueue": int, "positionInClusterQueue": int, "priority": int,
}  # fmt: skip
"""What is read of jobs, pods, workloads, events and places in a queue."""


def sound(item: Mapping[str, Any]) -> dict[str, Any]:
    """``item`` without the parts that have another type than they should; the same object where all is well."""
    odd: list[str] = []
    made = _object(item, SHAPE, "", odd)
    if odd:
        name = (made.get("metadata") or {}).get("name", "")
        log.warning(
            "%s %s says what cannot be read: %s", made.get("kind") or "object", name, ", ".join(odd[:5])
        )
    return made


def _fits(value: Any, shape: Shape) -> bool:
    if isinstance(shape, dict):
        return isinstance(value, Mapping)
    if isinstance(shape, list):
        return isinstance(value, list)
    if shape is TIME:
        return _is_time(value)
    if shape is str:
        return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)
    if shape is int:
        return isinstance(value, int) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST
    return isinstance(value, shape)


def _is_time(value: Any) -> bool:
    """Whether it is a moment that has a place in UTC: the first and last days of the calendar may have none."""
    try:
        return isinstance(value, str) and parse_time(value).astimezone(UTC) is not None
    except (ValueError, OverflowError):
        return False


def _object(item: Mapping[str, Any], shape: dict[str, Shape], where: str, odd: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in item.items():
        wanted = shape.get(name, shape.get(""))
        path = f"{where}.{name}".lstrip(".")
        if wanted is None or value is None:
            made[name] = value
        elif not _fits(value, wanted):
            odd.append(f"{path} is {type(value).__name__}")
        else:
            made[name] = _part(value, wanted, path, odd)
    return made


def _part(value: Any, shape: Shape, path: str, odd: list[str]) -> Any:
    if isinstance(shape, dict):
        return _object(value, shape, path, odd)
    if not isinstance(shape, list):
        return value
    kept = [part for part in value if _fits(part, shape[0])]
    if len(kept) != len(value):
        odd.append(f"{path} has parts of another type")
    return [_part(part, shape[0], path, odd) for part in kept]
