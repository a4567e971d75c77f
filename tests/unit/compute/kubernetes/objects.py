"""Objects of a cluster as its API hands them out, small and by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pretrain_archive.compute.spec import JobSpec
from pretrain_archive.domain.kinds import Budget, StopConditions
from pretrain_archive.domain.policy_compute import Kubernetes

RUN = "run_0198f0f0-1111-7222-8333-444455556666"
TOKEN = "sha256:" + "5" * 64
IMAGE = "registry.example.org/trainer@sha256:" + "a" * 64
START = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


def at(seconds: float = 0) -> str:
    """A moment after the start of the tale, as the API writes it."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def spec(**changes: Any) -> JobSpec:
    """A launch of one member without accelerators."""
    budget = {"accelerator": "none", "accelerators": 0, "minutes": 60, "owner": "bo", "nodes": 1}
    names = {name: changes.pop(name) for name in tuple(budget) if name in changes}
    values: dict[str, Any] = {
        "run_uid": RUN,
        "attempt": 1,
        "command": ("python3", "train.py"),
        "configuration": {"steps": 3},
        "data_manifest": Path("/shared/runs/data/manifest.jsonl"),
        "work_folder": Path("/shared/runs/attempt-1"),
        "checkpoint_folder": Path("/shared/checkpoints"),
        "budget": Budget(**(budget | names)),
        "stop": StopConditions(wall_minutes=50, no_progress_minutes=5),
    }
    return JobSpec(**(values | changes))


def cluster(**changes: Any) -> Kubernetes:
    """A policy's cluster."""
    return Kubernetes(**({"image": IMAGE, "claim": "archive", "mount_path": "/shared"} | changes))


def job(*, created: float = 0, **changes: Any) -> dict[str, Any]:
    """A job that was let go."""
    made: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "pa-job", "uid": "job-uid", "creationTimestamp": at(created), "labels": {}},
        "spec": {"suspend": False, "parallelism": 1, "completions": 1},
        "status": {"startTime": at(created)},
    }
    for name, value in changes.items():
        made[name] = {**made.get(name, {}), **value}
    return made


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, Any]:
    """A condition of any object."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at(1),
    }


def pod(
    name: str = "pa-job-0-abcde", *, index: int | None = None, phase: str = "Pending", node: str | None = None,
    state: dict[str, Any] | None = None, init: dict[str, Any] | None = None,
    conditions: list[dict[str, Any]] | None = None, **changes: Any,
) -> dict[str, Any]:  # fmt: skip
    """A pod of a job; ``state`` is that of its own container, ``init`` that of an init container."""
    marks = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
    status: dict[str, Any] = {"phase": phase, "conditions": conditions or []}
    if state is not None:
        status["containerStatuses"] = [
            {"name": "train", "image": IMAGE, "imageID": IMAGE, "restartCount": 0, "state": state}
        ]
    if init is not None:
        status["initContainerStatuses"] = [{"name": "fetch", "image": "fetch:1", "state": init}]
    made: dict[str, Any] = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {**marks}, "annotations": {**marks}},
        "spec": {"nodeName": node} if node else {},
        "status": status,
    }
    for part, value in changes.items():
        made[part] = {**made[part], **value}
    return made


def event(reason: str, message: str, about: dict[str, Any], *, seconds: float = 5) -> dict[str, Any]:
    """A core/v1 event."""
    return {
        "reason": reason,
        "message": message,
        "type": "Warning",
        "count": 1,
        "involvedObject": {"name": about["metadata"]["name"], "uid": about["metadata"].get("uid")},
        "lastTimestamp": at(seconds),
    }


def unschedulable(message: str, reason: str = "Unschedulable") -> list[dict[str, Any]]:
    """What the scheduler writes into a pod that it cannot place."""
    return [condition("PodScheduled", "False", reason, message)]


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """The state of a container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


def terminated(code: int, reason: str = "Error", *, seconds: float = 60, **more: Any) -> dict[str, Any]:
    """The state of a container that ended."""
    return {
        "terminated": {
            "exitCode": code, "reason": reason, "startedAt": at(10), "finishedAt": at(seconds), **more
        }
    }  # fmt: skip


def workload(
    *conditions: dict[str, Any], active: bool = True, checks: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """A workload of Kueue."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "job-pa-job-1a2b3"},
        "spec": {"queueName": "research", "active": active},
        "status": {"conditions": list(conditions), "admissionChecks": checks or []},
    }
