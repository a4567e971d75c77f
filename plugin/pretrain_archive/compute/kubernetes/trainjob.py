"""The launch as a Kubeflow ``TrainJob`` (``trainer.kubeflow.org/v1alpha1``), as far as that API lets a job say it.

Up to Kubeflow Trainer 2.1 the pod's own settings stand in ``podTemplateOverrides``; later ones read them from
``runtimePatches``, which the policy's ``train_job_patches`` chooses. What the API cannot express is refused, not
dropped. Restarts are the runtime's affair: its template must have ``backoffLimit: 0`` and no ``maxRestarts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pretrain_archive.compute.kubernetes.manifest_pod import CONTAINER, deadline_seconds
from pretrain_archive.compute.kubernetes.manifest_request import Request
from pretrain_archive.compute.spec import JobSpec
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy_compute import Kubernetes

API_VERSION = "trainer.kubeflow.org/v1alpha1"
STEP = "node"
"""The replicated job of a training runtime that trains, and the name of its container."""
MANAGER = "pretrain-archive/launch"

_OWN = frozenset({"restartPolicy", "terminationGracePeriodSeconds", "automountServiceAccountToken",
                  "enableServiceLinks", "subdomain", "containers"})  # fmt: skip
_OVERRIDES = frozenset({"serviceAccountName", "nodeSelector", "affinity", "tolerations", "volumes", "initContainers",
                        "schedulingGates", "imagePullSecrets"})  # fmt: skip
_PATCHES = _OVERRIDES | {"securityContext"}
_CONTAINER_OWN = frozenset({"name", "image", "imagePullPolicy", "command", "env", "resources",
                            "terminationMessagePolicy"})  # fmt: skip


def train_job(
    spec: JobSpec, cluster: Kubernetes, request: Request, template: Mapping[str, Any]
) -> dict[str, Any]:
    """The suspended TrainJob of this launch; ``InputError`` for what its API cannot say."""
    if not cluster.runtime:
        raise InputError(
            "compute.kubernetes.runtime", cluster.runtime, "is empty",
            hint="A TrainJob refers to a training runtime of the cluster: name it.",
        )  # fmt: skip
    patches = cluster.train_job_patches == "runtimePatches"
    [main] = [item for item in template["spec"]["containers"] if item["name"] == CONTAINER]
    metadata: dict[str, Any] = {
        "name": request.name,
        "namespace": cluster.namespace,
        "labels": dict(request.labels),
        "annotations": dict(request.annotations),
    }
    if cluster.workload_priority:
        metadata["labels"]["kueue.x-k8s.io/priority-class"] = cluster.workload_priority
    body: dict[str, Any] = {
        "suspend": True,
        "runtimeRef": {
            "apiGroup": "trainer.kubeflow.org",
            "kind": "ClusterTrainingRuntime",
            "name": cluster.runtime,
        },
        "trainer": {
            "image": request.image,
            "command": list(main["command"]),
            "env": [variable for variable in main["env"] if not _of_runtime(variable["name"])],
            "numNodes": request.nodes,
            "resourcesPerNode": dict(main.get("resources", {})),
            **({"numProcPerNode": request.per_node} if request.per_node else {}),
        },
    }
    pod = _pod(template, allowed=_PATCHES if patches else _OVERRIDES, main=main, patches=patches)
    if patches:
        job = {"name": STEP, "template": {"spec": {"template": pod}}}
        body["runtimePatches"] = [
            {
                "manager": MANAGER,
                "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
            }
        ]
        body["activeDeadlineSeconds"] = deadline_seconds(spec, cluster)
    elif spec.scope == "exploration":
        raise InputError(
            "compute.kubernetes.train_job_patches", cluster.train_job_patches, "sets no deadline for an exploration",
            hint='Use object_kind = "Job", or a Kubeflow Trainer with runtimePatches.',
        )  # fmt: skip
    else:
        body["podTemplateOverrides"] = [{"targetJobs": [{"name": STEP}], **pod}]
    return {"apiVersion": API_VERSION, "kind": "TrainJob", "metadata": metadata, "spec": body}


def _of_runtime(name: str) -> bool:
    """Whether the runtime itself sets this variable: it refuses a job that does."""
    return name.startswith("PET_") or name in {"MASTER_ADDR", "MASTER_PORT"}


def _pod(
    template: Mapping[str, Any], *, allowed: frozenset[str], main: Mapping[str, Any], patches: bool
) -> dict[str, Any]:
    spec = {}
    for name, value in template["spec"].items():
        if name in allowed:
            spec[name] = value
        elif name not in _OWN:
            raise _unsupported(name, value)
    own: dict[str, Any] = {"name": STEP}
    for name, value in main.items():
        if name == "volumeMounts" or (patches and name == "securityContext"):
            own[name] = value
        elif name not in _CONTAINER_OWN:
            raise _unsupported(f"containers[{CONTAINER}].{name}", value)
    return {"metadata": dict(template["metadata"]), "spec": {**spec, "containers": [own]}}


def _unsupported(name: str, value: object) -> InputError:
    return InputError(
        f"compute.kubernetes.template.spec.{name}", value, "cannot be set through a TrainJob",
        hint='Put it into the training runtime, or use object_kind = "Job".',
    )  # fmt: skip
