"""Whether an object of the cluster is the one that was asked for: defaults may be added, nothing may differ."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pretrain_archive.compute.kubernetes.manifest_pod import CONTAINER

_LIMITS = ("parallelism", "completions", "completionMode", "backoffLimit", "activeDeadlineSeconds")
_QUANTITY = re.compile(r"([0-9.]+)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
_UNITS = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip


def first_difference(wanted: Any, found: Any, where: str = "") -> str:
    """Where ``found`` is not as ``wanted``, in words; empty if it holds all of it.

    Fields that only ``found`` has are defaults of the server; elements of a list are no defaults. Quantities are
    compared as numbers: the server writes 1024Mi as 1Gi.
    """
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return f"{where} is {found!r:.80}"
        parts = (first_difference(value, found.get(key), f"{where}.{key}") for key, value in wanted.items())
        return next(filter(None, parts), "")
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(found, Sequence) or isinstance(found, str) or len(found) != len(wanted):
            return f"{where} has other elements"
        parts = (
            first_difference(left, right, f"{where}[{number}]")
            for number, (left, right) in enumerate(zip(wanted, found, strict=True))
        )
        return next(filter(None, parts), "")
    if wanted == found or (wanted in ("", None, 0, False) and found is None) or _equal(wanted, found):
        return ""
    return f"{where.lstrip('.')} is {found!r:.80} and not {wanted!r:.80}"


def essence(job: Mapping[str, Any]) -> dict[str, Any]:
    """What decides how often and how long a job runs, and what it starts: no webhook and nobody else may change it.

    Placement (tolerations, selectors, sidecars of a mesh) is the cluster's affair and may be added to.
    """
    spec = job.get("spec") or {}
    if job.get("kind") == "TrainJob":
        trainer = spec.get("trainer") or {}
        image = _bytes_of(trainer.get("image"))
        return {"image": image, **{name: trainer.get(name) for name in ("command", "numNodes")}}
    pod = (spec.get("template") or {}).get("spec") or {}
    return {
        **{name: spec.get(name) for name in _LIMITS},
        "restartPolicy": pod.get("restartPolicy"),
        "containers": [
            {"image": _bytes_of(item.get("image")), "command": item.get("command")}
            for item in pod.get("containers") or ()
            if item.get("name") == CONTAINER
        ],
    }


def edits(released: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What somebody changed in a job after it was released, a line for each field; empty if nothing."""
    left, right = essence({"kind": now.get("kind"), **released}), essence(now)
    return [text for name in left if (text := first_difference({name: left[name]}, {name: right[name]}))]


def _bytes_of(image: Any) -> str:
    """What an image reference pins: its digest, so that a mirror may stand in for the registry; else all of it."""
    return str(image).rpartition("@")[2]


def _equal(wanted: Any, found: Any) -> bool:
    left, right = (_QUANTITY.fullmatch(str(value)) for value in (wanted, found))
    if left is None or right is None or isinstance(wanted, bool) or isinstance(found, bool):
        return False
    try:
        return float(left[1]) * _UNITS[left[2] or ""] == float(right[1]) * _UNITS[right[2] or ""]
    except ValueError:
        return False
