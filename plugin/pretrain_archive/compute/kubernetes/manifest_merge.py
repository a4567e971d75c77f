"""Merge the policy's pod template into ours. Pure; what a template may not say is refused by name."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pretrain_archive.compute.spec import INHERITED, INHERITED_PREFIXES
from pretrain_archive.domain.errors import InputError

FIELD = "compute.kubernetes.template"

LIST_KEYS = {"volumeMounts": "mountPath", "volumeDevices": "devicePath", "hostAliases": "ip"}
"""Lists of objects are merged by ``name``, these by another field."""

FIXED_POD = {
    "restartPolicy": "a restart inside an attempt would be a second try on one signature",
    "subdomain": "the members find each other by it",
    "hostname": "the members find each other by it",
    "activeDeadlineSeconds": "the budget sets the deadline",
    "terminationGracePeriodSeconds": "set grace_seconds in [compute.kubernetes]",
    "serviceAccountName": "set service_account in [compute.kubernetes]",
    "serviceAccount": "set service_account in [compute.kubernetes]",
    "priorityClassName": "set priority_class in [compute.kubernetes]",
    "priority": "set priority_class in [compute.kubernetes]",
}
FIXED_CONTAINER = {
    "command": "the wrapper is what runs",
    "args": "the wrapper is what runs",
    "image": "set image in [compute.kubernetes]",
    "workingDir": "the program's folder is part of the launch",
    "terminationMessagePolicy": "the reason of an end is read from it",
    "terminationMessagePath": "the reason of an end is read from it",
    "restartPolicy": "a restart inside an attempt would be a second try on one signature",
}
FIXED_VARIABLES = ("PRETRAIN_ARCHIVE_", "PET_")
FIXED_NAMES = frozenset({"MASTER_ADDR", "MASTER_PORT", "JOB_COMPLETION_INDEX"})
OWN_LABELS = ("pretrain-archive/", "kueue.x-k8s.io/", "batch.kubernetes.io/")
OPEN_PREFIXES = (*INHERITED_PREFIXES, "TORCH_", "GLOO_", "RCCL_", "HIP_", "ROCM_", "FI_", "UCX_", "TRITON_")


def merge_template(
    own: Mapping[str, Any], template: Mapping[str, Any], *, container: str, allowed: Collection[str]
) -> dict[str, Any]:
    """Our pod template with the policy's in it; neither is changed.

    Objects are merged deeply and lists of named objects by name; other lists are appended. ``allowed`` are the
    variables whose values the policy lets be written down. Raises ``InputError`` naming the field for what a
    template may not override.
    """
    for name in template:
        if name not in {"metadata", "spec"}:
            raise _refused(name, template[name], "a pod template has metadata and spec")
    spec, metadata = _object(template, "spec"), _object(template, "metadata")
    _check_metadata(metadata)
    for name, why in FIXED_POD.items():
        if name in spec:
            raise _refused(f"spec.{name}", spec[name], why)
    for kind in ("initContainers", "containers"):
        _check_containers(spec, kind, container, allowed)
    _check_shape(own, template)
    devices = _devices(own, container)
    merged: dict[str, Any] = merge(own, template)
    if _devices(merged, container) != devices:
        raise _refused("spec.containers.resources", devices, "the budget sets the accelerators")
    return merged


def merge(left: Any, right: Any, key: str = "") -> Any:
    """``right`` merged into a copy of ``left``; ``key`` is the name of the field that holds them."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        merged = {name: copy.deepcopy(value) for name, value in left.items()}
        for name, value in right.items():
            merged[name] = merge(left[name], value, name) if name in left else copy.deepcopy(value)
        return merged
    if isinstance(left, list) and isinstance(right, list):
        return _merge_lists(left, right, LIST_KEYS.get(key, "name"))
    return copy.deepcopy(right)


def _merge_lists(left: Sequence[Any], right: Sequence[Any], key: str) -> list[Any]:
    items = [*left, *right]
    if not all(isinstance(item, Mapping) and key in item for item in items):
        return copy.deepcopy([*left, *(item for item in right if item not in left)])
    merged: dict[Any, Any] = {}
    for item in items:
        name = str(item[key])
        merged[name] = merge(merged[name], item) if name in merged else copy.deepcopy(item)
    return list(merged.values())


def _check_shape(own: Any, template: Any, where: str = "") -> None:
    """Refuse what would put something else in the place of a table or a list of ours."""
    if isinstance(own, Mapping):
        if not isinstance(template, Mapping):
            raise _refused(where, template, "is a table")
        for name in own.keys() & template.keys():
            _check_shape(own[name], template[name], f"{where}.{name}".lstrip("."))
    elif isinstance(own, list):
        if not isinstance(template, list):
            raise _refused(where, template, "is a list")
        named = {item["name"]: item for item in own if isinstance(item, Mapping) and "name" in item}
        for item in template:
            name = item.get("name") if isinstance(item, Mapping) else None
            if isinstance(name, str) and name in named:
                _check_shape(named[name], item, f"{where}[{name}]")


def _check_metadata(metadata: Mapping[str, Any]) -> None:
    for name in metadata:
        if name not in {"labels", "annotations"}:
            raise _refused(f"metadata.{name}", metadata[name], "a pod template gives labels and annotations")
    for kind in ("labels", "annotations"):
        for name, value in _object(metadata, kind, "metadata.").items():
            if name.startswith(OWN_LABELS):
                raise _refused(f"metadata.{kind}.{name}", value, "the launch sets it")


def _check_containers(spec: Mapping[str, Any], kind: str, main: str, allowed: Collection[str]) -> None:
    for index, item in enumerate(_list(spec, kind, "spec.")):
        if not isinstance(item, Mapping) or not item.get("name"):
            raise _refused(f"spec.{kind}[{index}]", item, "a container has a name")
        where = f"spec.{kind}[{item['name']}]"
        if kind == "containers":
            if item["name"] != main:
                raise _refused(
                    where, item["name"],
                    f"the pod has one container, {main}; write a sidecar as init container with restartPolicy Always, "
                    "since any other would hold the node after the end of the program",
                )  # fmt: skip
            for name, why in FIXED_CONTAINER.items():
                if name in item:
                    raise _refused(f"{where}.{name}", item[name], why)
        _check_variables(item, where, allowed)


def _check_variables(item: Mapping[str, Any], where: str, allowed: Collection[str]) -> None:
    for variable in _list(item, "env", f"{where}."):
        name = str(variable.get("name", "")) if isinstance(variable, Mapping) else ""
        if name.startswith(FIXED_VARIABLES) or name in FIXED_NAMES:
            raise _refused(f"{where}.env.{name}", name, "the contract with the program sets it")
        known = name in allowed or name in INHERITED or name.startswith(OPEN_PREFIXES)
        if isinstance(variable, Mapping) and "value" in variable and not known:
            raise _refused(
                f"{where}.env.{name}", "…",
                "its value would be recorded: take it from a secret (valueFrom), or add it to "
                "environment.allowed_variables",
            )  # fmt: skip


def _devices(template: Mapping[str, Any], container: str) -> dict[str, Any]:
    """Extended resources (those with a domain) that the main container asks for."""
    [main] = [item for item in template["spec"]["containers"] if item["name"] == container]
    held = main.get("resources", {})
    return {
        f"{kind}.{name}": value
        for kind in ("limits", "requests")
        for name, value in _object(held, kind, "spec.containers.resources.").items()
        if "/" in name
    }


def _object(parent: Mapping[str, Any], name: str, where: str = "") -> Mapping[str, Any]:
    found = parent.get(name) or {}
    if not isinstance(found, Mapping):
        raise _refused(f"{where}{name}", found, "is a table")
    return found


def _list(parent: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found = parent.get(name) or []
    if not isinstance(found, list):
        raise _refused(f"{where}{name}", found, "is a list")
    return found


def _refused(where: str, value: object, why: str) -> InputError:
    return InputError(f"{FIELD}.{where}", value, f"cannot be set so by a template: {why}")
