"""The pod of a launch: the wrapper as its one process, the contract's variables, volumes, and the policy's template."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pretrain_archive.compute.kubernetes.manifest_merge import merge_template
from pretrain_archive.compute.kubernetes.manifest_request import Request
from pretrain_archive.compute.kubernetes.names import pod_hostname
from pretrain_archive.compute.spec import JobSpec, build_process, wall_limit_seconds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy_compute import Kubernetes

CONTAINER = "train"
VOLUME = "archive"
SHARED_MEMORY = "shared-memory"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""What the job controller puts into every container of an Indexed Job."""
INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
RENDEZVOUS_PORT = 29500
"""The port that torchrun takes by itself too."""
DEADLINE_MARGIN = 60.0
"""Seconds that the cluster's deadlines lie behind the limits, so that the rules that are recorded come first."""
END_MARGIN = 10
"""Seconds between the end of a program's grace time and the kubelet's SIGKILL, for the wrapper to write the end."""


def pod_template(spec: JobSpec, cluster: Kubernetes, request: Request) -> dict[str, Any]:
    """The pod template of the job, the policy's own merged into it; ``InputError`` names what cannot be."""
    mount = _mount(cluster)
    own = {
        "metadata": {"labels": dict(request.labels), "annotations": dict(request.annotations)},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": math.ceil(cluster.grace_seconds) + END_MARGIN,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,  # variables of other services are no part of the environment
            **({"serviceAccountName": cluster.service_account} if cluster.service_account else {}),
            **({"priorityClassName": cluster.priority_class} if cluster.priority_class else {}),
            **({"subdomain": request.name} if request.nodes > 1 else {}),
            "containers": [container(spec, cluster, request)],
            "volumes": [*mount["volumes"], _shared_memory(cluster)],
        },
    }
    merged = merge_template(own, cluster.template, container=CONTAINER, allowed=spec.allowed_variables)
    _check_paths(spec, merged)
    return merged


def deadline_seconds(spec: JobSpec, cluster: Kubernetes) -> int:
    """After how many seconds the cluster ends the job: its limit, and what it may wait for nodes on that clock.

    An exploration's ceiling holds without a margin, what it waits for nodes included.
    """
    limit = wall_limit_seconds(spec) + DEADLINE_MARGIN
    if spec.deadline_seconds is not None:
        return max(1, math.floor(min(limit, spec.deadline_seconds)))
    return max(1, math.ceil(limit + cluster.start_minutes * 60))


def container(spec: JobSpec, cluster: Kubernetes, request: Request) -> dict[str, Any]:
    """The container that runs the wrapper; its termination message shows the end of a failed program's log."""
    return {
        "name": CONTAINER,
        "image": request.image,
        "imagePullPolicy": "IfNotPresent",
        "command": command(spec, cluster, request),
        "env": variables(spec, request),
        "resources": resources(cluster, request),
        "volumeMounts": [*_mount(cluster)["mounts"], {"name": SHARED_MEMORY, "mountPath": "/dev/shm"}],  # noqa: S108
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def command(spec: JobSpec, cluster: Kubernetes, request: Request) -> list[str]:
    """The wrapper's call as :func:`~pretrain_archive.compute.spec.build_process` makes it, from the shared folder."""
    argv = list(build_process(spec, inherited={}, python=cluster.python, carried=True).argv)
    at = argv.index("--")
    options, program = argv[:at], argv[at:]
    options[options.index("--grace") + 1] = f"{cluster.grace_seconds:g}"
    indexed = request.nodes > 1 or cluster.object_kind == "TrainJob"
    worker = ["--worker-from", INDEX_VARIABLE] if indexed else ["--worker", "0"]
    return [*options, *worker, *program]


def variables(spec: JobSpec, request: Request) -> list[dict[str, Any]]:
    """The container's variables: the contract's, those the policy allows, and where the other members are.

    Raises ``InputError`` for a variable that the policy does not allow: a manifest is recorded, secrets stay out.
    """
    for name in spec.variables:
        if name not in spec.allowed_variables:
            raise InputError(
                "variables", name, "may not be written into a manifest",
                hint="Add it to environment.allowed_variables, or let the template take it from a secret by reference.",
            )  # fmt: skip
    contract = dict(build_process(spec, inherited={}).environment)
    contract["PRETRAIN_ARCHIVE_IMAGE"] = request.image
    contract["PRETRAIN_ARCHIVE_NODES"] = str(request.nodes)
    contract["PRETRAIN_ARCHIVE_ACCELERATORS_PER_NODE"] = str(request.per_node)
    written: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in sorted(contract.items())
    ]
    written.append(_field("PRETRAIN_ARCHIVE_NODE", "spec.nodeName"))
    return written + rendezvous(request)


def rendezvous(request: Request) -> list[dict[str, Any]]:
    """How the members find each other: torchrun reads its options from ``PET_`` variables, others ``MASTER_``.

    Source of the names: ``torch.distributed.argparse_util.env``. The rank is read from the pod's annotation, since
    the job controller appends its own variable behind ours, where ``$(…)`` does not see it.
    """
    local = [{"name": "PET_NPROC_PER_NODE", "value": str(request.per_node)}] if request.per_node else []
    if request.nodes == 1:
        return local
    first = f"{pod_hostname(request.name, 0)}.{request.name}"
    port = str(RENDEZVOUS_PORT)
    return [
        *local,
        {"name": "PET_NNODES", "value": str(request.nodes)},
        _field("PET_NODE_RANK", f"metadata.annotations['{INDEX_ANNOTATION}']"),
        {"name": "PET_MASTER_ADDR", "value": first},
        {"name": "PET_MASTER_PORT", "value": port},
        {"name": "MASTER_ADDR", "value": first},
        {"name": "MASTER_PORT", "value": port},
    ]


def resources(cluster: Kubernetes, request: Request) -> dict[str, Any]:
    """What one member asks for. Accelerators and memory are limits too; CPU is not, a throttled loader is no gain."""
    devices = {request.accelerator: str(request.per_node)} if request.per_node else {}
    memory = {"memory": cluster.memory} if cluster.memory else {}
    cpu = {"cpu": cluster.cpu} if cluster.cpu else {}
    found = {"requests": {**cpu, **memory, **devices}, "limits": {**memory, **devices}}
    return {name: values for name, values in found.items() if values}


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _mount(cluster: Kubernetes) -> dict[str, list[dict[str, Any]]]:
    if not cluster.mount_path.startswith("/"):
        raise InputError(
            "compute.kubernetes.mount_path", cluster.mount_path, "is no absolute path",
            hint="Name the folder that Airflow's workers and the pods share.",
        )  # fmt: skip
    if not cluster.claim:
        return {"volumes": [], "mounts": []}
    return {
        "volumes": [{"name": VOLUME, "persistentVolumeClaim": {"claimName": cluster.claim}}],
        "mounts": [{"name": VOLUME, "mountPath": cluster.mount_path}],
    }


def _shared_memory(cluster: Kubernetes) -> dict[str, Any]:
    """Shared memory beyond the 64 MiB of a container: data loaders and collectives need it. It counts as memory."""
    limit = {"sizeLimit": cluster.shared_memory} if cluster.shared_memory else {}
    return {"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory", **limit}}


def _check_paths(spec: JobSpec, merged: dict[str, Any]) -> None:
    """Everything that worker and pods hand each other must lie on a volume of the pod."""
    [main] = [c for c in merged["spec"]["containers"] if c["name"] == CONTAINER]
    mounts = [Path(str(mount.get("mountPath", ""))) for mount in main.get("volumeMounts", [])]
    paths = {
        "work_folder": spec.work_folder,
        "checkpoint_folder": spec.checkpoint_folder,
        "data_manifest": spec.data_manifest,
        "resume_from": spec.resume_from,
    }
    for field, path in paths.items():
        if path is not None and not any(path.is_relative_to(mount) for mount in mounts):
            raise InputError(
                field, str(path), "lies on no volume of the pod",
                hint="Set claim and mount_path in [compute.kubernetes] to the volume that Airflow's workers share.",
            )  # fmt: skip
