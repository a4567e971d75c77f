"""Defaults and checks that an API server applies to what is written: jobs, pods and their status."""

from __future__ import annotations

import copy
import re
from typing import Any

from tests.fakes.cluster_store import ApiError, Object

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_LABEL = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
JOB_DEFAULTS: dict[str, Any] = {
    "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False,
}  # fmt: skip


def admit(resource: str, body: Object) -> Object:
    """What is stored of a new object; 422 where it is not valid."""
    made = copy.deepcopy(body)
    _check_metadata(resource, made)
    if resource == "jobs":
        _admit_job(made)
    if resource in ("jobs", "pods", "workloads", "trainjobs"):
        made["status"] = {}
    if resource == "pods":
        made["status"] = {"phase": "Pending"}
        made.setdefault("spec", {}).setdefault("terminationGracePeriodSeconds", 30)
    return made


def _check_metadata(resource: str, made: Object) -> None:
    meta = made.setdefault("metadata", {})
    name = meta.get("name", meta.get("generateName", "").rstrip("-.") or None)
    if name is None:
        raise invalid(resource, "", "metadata.name", "Required value: name or generateName is required")
    longest = 63 if resource in ("services", "jobs", "namespaces") else 253
    if not _NAME.match(name) or len(name) > longest:
        raise invalid(resource, name, "metadata.name", f'Invalid value: "{name}": a lowercase RFC 1123 name')
    for where, labels in (
        ("metadata", meta),
        ("spec.template.metadata", _template(made).get("metadata", {})),
    ):
        for key, value in (labels.get("labels") or {}).items():
            if not isinstance(value, str) or len(value) > 63 or not _LABEL.match(value):
                raise invalid(resource, name, f"{where}.labels", f"Invalid value: {value!r} of {key}")


def _template(made: Object) -> dict[str, Any]:
    return (made.get("spec") or {}).get("template") or {}


def _admit_job(made: Object) -> None:  # noqa: C901 (one rule after the other)
    name, spec = made["metadata"].get("name", ""), made.setdefault("spec", {})
    for key, value in JOB_DEFAULTS.items():
        if spec.get(key) is None:
            spec[key] = value
    template = spec.setdefault("template", {})
    pod = template.setdefault("spec", {})
    if not pod.get("containers"):
        raise invalid("jobs", name, "spec.template.spec.containers", "Required value")
    for number, container in enumerate(pod["containers"]):
        if not container.get("image"):
            raise invalid("jobs", name, f"spec.template.spec.containers[{number}].image", "Required value")
        for variable in container.get("env", ()):
            if not isinstance(variable.get("value", ""), str):
                raise ApiError(
                    400, "BadRequest", f"cannot unmarshal number into {variable.get('name')} of type string"
                )
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        raise invalid(
            "jobs",
            name,
            "spec.template.spec.restartPolicy",
            'Required value: valid values: "OnFailure", "Never"',
        )
    if spec.get("podFailurePolicy") and pod["restartPolicy"] != "Never":
        raise invalid("jobs", name, "spec.template.spec.restartPolicy", "only Never with podFailurePolicy")
    for whole in (
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ):
        if not isinstance(spec.get(whole, 0), int) or spec.get(whole, 0) < 0:
            raise invalid("jobs", name, f"spec.{whole}", f"Invalid value: {spec[whole]!r}")
    pod.setdefault("terminationGracePeriodSeconds", 30)


def keep_parts(resource: str, subresource: str, old: Object, new: Object) -> Object:
    """What a write to an object, or to its status, may change of it."""
    result = copy.deepcopy(new)
    meta, before = result.setdefault("metadata", {}), old["metadata"]
    for fixed in ("uid", "creationTimestamp", "name", "namespace", "generation", "deletionTimestamp"):
        if fixed in before:
            meta[fixed] = before[fixed]
    if subresource == "status":
        result = {**copy.deepcopy(old), "status": result.get("status", {})}
        result["metadata"]["resourceVersion"] = meta.get("resourceVersion")
        if result["metadata"]["resourceVersion"] is None:
            del result["metadata"]["resourceVersion"]
        return result
    if "status" in old:
        result["status"] = copy.deepcopy(old["status"])
    if resource == "jobs":
        _check_job_change(old, result)
    return result


def _check_job_change(old: Object, new: Object) -> None:
    name, before, after = old["metadata"]["name"], old["spec"], new.get("spec", {})
    for fixed in ("completionMode", "podFailurePolicy", "selector", "backoffLimit"):
        if before.get(fixed) != after.get(fixed):
            raise invalid("jobs", name, f"spec.{fixed}", "field is immutable")
    free = before.get("suspend") and not old.get("status", {}).get("startTime")
    if before.get("template") != after.get("template") and not free:
        raise invalid("jobs", name, "spec.template", "field is immutable")


def invalid(resource: str, name: str, field: str, problem: str) -> ApiError:
    """422 in the API server's words."""
    kind = {"jobs": "Job.batch", "pods": "Pod", "services": "Service"}.get(resource, resource)
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {field}: {problem}', name=name, kind=kind)
