"""The objects of a launch, built by a pure function that a dry run can show.

A job is created suspended and without its queue, so that it starts no pod; one patch releases it. What is chosen
here and why:

- ``backoffLimit: 0`` and ``restartPolicy: Never``: an attempt is one try. The next one takes a new token.
- ``podFailurePolicy`` fails the job when a pod is disrupted (preemption, drain, lost node). The default would count
  it against the limit too, but the job's own condition would not say why, and the pod that knew may be gone. Exit
  codes are no rule of it: a job that Kueue suspends ends its pods with 143, which must not fail the job.
- ``podReplacementPolicy: Failed``: a replacement (after Kueue suspended the job and admits it again) starts only
  when the pod before it has really ended, so that two processes never write the same files.
- ``activeDeadlineSeconds``: the backstop of wall time and budget when nobody watches. Its clock starts when the job
  is let go, so it holds what a job may wait for nodes; an exploration's ceiling holds without that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.compute.kubernetes.manifest_pod import RENDEZVOUS_PORT, deadline_seconds, pod_template
from pretrain_archive.compute.kubernetes.manifest_request import Request, request_of
from pretrain_archive.compute.kubernetes.trainjob import train_job
from pretrain_archive.compute.spec import JobSpec, build_process
from pretrain_archive.domain.policy_compute import Kubernetes

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobObjects:
    """What a launch creates: the suspended job, the service of its pods if it has several, and its release.

    ``release_patch`` is a merge patch (RFC 7386) of the job. ``requested`` is what it asks the cluster for.
    """

    name: str
    namespace: str
    job: dict[str, Any]
    service: dict[str, Any] | None
    release_patch: dict[str, Any]
    labels: dict[str, str]
    requested: dict[str, Any]

    @property
    def kind(self) -> str:
        """``Job`` or ``TrainJob``."""
        return str(self.job["kind"])

    @property
    def selector(self) -> str:
        """The label selector of everything that belongs to this launch."""
        return ",".join(f"{name}={value}" for name, value in sorted(self.labels.items()))

    def to_dict(self) -> dict[str, Any]:
        """The objects as plain JSON."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "job": self.job,
            "service": self.service,
            "release_patch": self.release_patch,
            "labels": self.labels,
            "requested": self.requested,
        }


def build_objects(spec: JobSpec, cluster: Kubernetes, *, token_digest: str) -> JobObjects:
    """Turn a specification into the objects of its launch. Pure; raises ``InputError`` naming field and remedy."""
    request = request_of(spec, cluster, token_digest=token_digest)
    several = request.nodes > 1
    template = pod_template(spec, cluster, request)
    if cluster.object_kind == "TrainJob":
        job = train_job(spec, cluster, request, template)
    else:
        job = _job(spec, cluster, request, template)
    return JobObjects(
        name=request.name,
        namespace=cluster.namespace,
        job=job,
        service=_service(cluster, request) if several and cluster.object_kind == "Job" else None,
        release_patch=release_patch(cluster),
        labels=request.labels,
        requested=request.to_dict(),
    )


def build_files(spec: JobSpec) -> dict[Path, bytes]:
    """What must lie in the attempt's folder before the job is released: the configuration, and what runs it."""
    return dict(build_process(spec, inherited={}, carried=True).files)


def _metadata(cluster: Kubernetes, request: Request) -> dict[str, Any]:
    return {
        "name": request.name,
        "namespace": cluster.namespace,
        "labels": dict(request.labels),
        "annotations": dict(request.annotations),
    }


def _job(spec: JobSpec, cluster: Kubernetes, request: Request, template: Mapping[str, Any]) -> dict[str, Any]:
    several = request.nodes > 1
    metadata = _metadata(cluster, request)
    if cluster.workload_priority:
        metadata["labels"][PRIORITY_LABEL] = cluster.workload_priority
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "suspend": True,
            "parallelism": request.nodes,
            "completions": request.nodes,
            "completionMode": "Indexed" if several else "NonIndexed",
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    }
                ]
            },
            "activeDeadlineSeconds": deadline_seconds(spec, cluster),
            "ttlSecondsAfterFinished": round(cluster.keep_hours * 3600),
            "template": dict(template),
        },
    }


def _service(cluster: Kubernetes, request: Request) -> dict[str, Any]:
    """The headless service that gives each pod a name; also before it is ready, since rank 0 waits for the rest."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(cluster, request),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": dict(request.labels),
            "ports": [{"name": "rendezvous", "port": RENDEZVOUS_PORT, "protocol": "TCP"}],
        },
    }


def release_patch(cluster: Kubernetes) -> dict[str, Any]:
    """What sets the job free. With a queue only its name: Kueue lifts the suspension when it admits the job."""
    if cluster.queue:
        return {"metadata": {"labels": {QUEUE_LABEL: cluster.queue}}}
    return {"spec": {"suspend": False}}


def freed(created: Mapping[str, Any]) -> str:
    """Why a job that was just created is not held back, empty if it is.

    A webhook of the cluster may change what is created: Kueue can put every job of a namespace into the queue
    ``default``, and would then lift the suspension before the job is on record.
    """
    if (created.get("spec") or {}).get("suspend") is not True:
        return "the cluster made it without its suspension"
    queue = ((created.get("metadata") or {}).get("labels") or {}).get(QUEUE_LABEL)
    return f"the cluster put it into the queue {queue}" if queue else ""
