"""What a launch asks the cluster for: nodes, accelerators on each, and how the objects are called and labelled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pretrain_archive.compute.kubernetes import names
from pretrain_archive.compute.spec import JobSpec
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy_compute import Kubernetes

NO_ACCELERATOR = "none"
VENDORS = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "ascend": "huawei.com/Ascend910",
    "intel": "gpu.intel.com/i915",
}
"""Short names of resources that device plugins offer; any other resource name is taken as it is."""

_RESOURCE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_QUANTITY = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
_PINNED = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """Nodes and what each of them holds. ``accelerator`` is a resource name, empty without accelerators."""

    name: str
    nodes: int
    accelerator: str
    per_node: int
    image: str
    labels: dict[str, str]
    annotations: dict[str, str]
    queue: str | None
    workload_priority: str | None
    priority_class: str | None

    def to_dict(self) -> dict[str, Any]:
        """The request as plain JSON, for the record beside what was allocated."""
        return {
            "nodes": self.nodes,
            "accelerator": self.accelerator or NO_ACCELERATOR,
            "accelerators": self.nodes * self.per_node,
            "accelerators_per_node": self.per_node,
            "image": self.image,
            "queue": self.queue,
            "workload_priority": self.workload_priority,
            "priority_class": self.priority_class,
        }


def request_of(spec: JobSpec, cluster: Kubernetes, *, token_digest: str) -> Request:
    """Read the request; ``InputError`` for an uneven division, an image by tag, or a name that cannot be."""
    accelerator = resource_name(spec.budget.accelerator)
    nodes, per_node = divide(spec, cluster)
    if per_node and not accelerator:
        raise InputError(
            "accelerator", spec.budget.accelerator, f"names no resource, although {per_node} are asked for",
            hint=f"Give a resource name, or one of {', '.join(VENDORS)}.",
        )  # fmt: skip
    _check_names(cluster)
    _check_amounts(cluster)
    name = names.job_name(spec.run_uid, spec.attempt, token_digest)
    names.check_lengths(name, nodes=nodes, train_job=cluster.object_kind == "TrainJob")
    labels = {
        names.RUN_LABEL: names.label_value(spec.run_uid),
        names.ATTEMPT_LABEL: str(spec.attempt),
        names.TOKEN_LABEL: names.token_label(token_digest),
    }
    if spec.scope == "exploration":
        labels[names.SCOPE_LABEL] = spec.scope
    return Request(
        name=name,
        nodes=nodes,
        accelerator=accelerator if per_node else "",
        per_node=per_node,
        image=_image(spec, cluster),
        labels=labels,
        annotations={
            "pretrain-archive/run": spec.run_uid,
            "pretrain-archive/attempt": str(spec.attempt),
            "pretrain-archive/token": token_digest,
            "pretrain-archive/scope": spec.scope,
        },
        queue=cluster.queue,
        workload_priority=cluster.workload_priority,
        priority_class=cluster.priority_class,
    )


def _check_names(cluster: Kubernetes) -> None:
    """Names that the cluster would refuse only when the job is released, or by its controllers."""
    for field in ("namespace", "service_account", "queue", "workload_priority", "priority_class"):
        value = getattr(cluster, field)
        if value is not None and (len(value) > names.LONGEST or not _NAME.fullmatch(value)):
            raise InputError(
                f"compute.kubernetes.{field}", value, "is no name of a cluster",
                hint=f"Lower case letters, digits, - and . are allowed, {names.LONGEST} at most.",
            )  # fmt: skip


def _check_amounts(cluster: Kubernetes) -> None:
    for field in ("cpu", "memory", "shared_memory"):
        value = getattr(cluster, field)
        if value is not None and not _QUANTITY.fullmatch(value):
            raise InputError(
                f"compute.kubernetes.{field}", value, "is no amount of a cluster",
                hint="Write it as 8, 500m, 64Gi and the like.",
            )  # fmt: skip
    if not cluster.python.strip():
        raise InputError(
            "compute.kubernetes.python",
            cluster.python,
            "is empty",
            hint="Name the image's interpreter: python3.",
        )


def resource_name(accelerator: str) -> str:
    """The resource name of an accelerator; empty for none. ``InputError`` if it cannot be one."""
    text = accelerator.strip()
    if text.lower() in {"", NO_ACCELERATOR, "cpu"}:
        return ""
    if short := VENDORS.get(text.lower()):
        return short
    if not _RESOURCE.fullmatch(text):
        raise InputError(
            "accelerator", accelerator, "is not a resource name of a cluster",
            hint=f"Write it as the device plugin offers it, such as nvidia.com/gpu, or one of {', '.join(VENDORS)}.",
        )  # fmt: skip
    return text


def divide(spec: JobSpec, cluster: Kubernetes) -> tuple[int, int]:
    """Nodes and accelerators on each; ``InputError`` if they do not divide evenly."""
    total, nodes, per_node = spec.budget.accelerators, spec.budget.nodes, cluster.accelerators_per_node
    if not per_node or not total:
        if total % nodes:
            raise InputError(
                "accelerators", total, f"cannot be shared evenly by {nodes} nodes",
                hint="Ask for a multiple of the nodes.",
            )  # fmt: skip
        return nodes, total // nodes
    if total < per_node and nodes == 1:
        return 1, total
    if total % per_node:
        raise InputError(
            "accelerators", total, f"is no multiple of the {per_node} that a node has (accelerators_per_node)",
            hint="Ask for whole nodes, or for fewer than one.",
        )  # fmt: skip
    needed = total // per_node
    if nodes not in {1, needed}:
        raise InputError(
            "nodes", nodes, f"{total} accelerators at {per_node} a node are {needed} nodes",
            hint="Leave nodes out, or make the two agree.",
        )  # fmt: skip
    return needed, per_node


def _image(spec: JobSpec, cluster: Kubernetes) -> str:
    image = cluster.image.strip()
    if not image:
        raise InputError("compute.kubernetes.image", image, "is empty", hint="Name an image by its digest.")
    if not _PINNED.fullmatch(image) and spec.scope != "exploration":
        raise InputError(
            "compute.kubernetes.image", image, "is not pinned by digest",
            hint="Write it as name@sha256:…: a tag can be moved after the sign-off.",
        )  # fmt: skip
    return image
