"""Build the objects of a launch, and look into them."""

from __future__ import annotations

from typing import Any

from tests.unit.compute.kubernetes.objects import TOKEN, cluster, spec

from pretrain_archive.compute.kubernetes.manifest import JobObjects, build_objects

GPUS = {"accelerator": "nvidia", "accelerators": 16}


def build(*, on: dict[str, Any] | None = None, **changes: Any) -> JobObjects:
    """The objects of a launch with these changes, on a cluster with those."""
    return build_objects(spec(**changes), cluster(**(on or {})), token_digest=TOKEN)


def pod_spec(objects: JobObjects) -> dict[str, Any]:
    """The pod's specification."""
    found: dict[str, Any] = objects.job["spec"]["template"]["spec"]
    return found


def main(objects: JobObjects) -> dict[str, Any]:
    """The one container."""
    [found] = pod_spec(objects)["containers"]
    return dict(found)


def environment(objects: JobObjects) -> dict[str, Any]:
    """The container's variables by name."""
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in main(objects)["env"]}
