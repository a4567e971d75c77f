"""Take a job away and prove that nothing of it is left: neither the job nor one of its pods."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pretrain_archive.compute.kubernetes.api import ClusterApi
from pretrain_archive.compute.kubernetes.standing import Job, Object

OnPods = Callable[[list[Object]], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """What was there and what is left, by name. ``verified``: neither job nor pods were found afterwards."""

    pods_before: int
    left: tuple[str, ...]
    verified: bool


def remove(
    api: ClusterApi, job: Job, *, seconds: float, on_pods: OnPods = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Removal:  # fmt: skip
    """Delete job and service; look until no pod is left, for ``seconds`` at most. May be called again.

    The job is deleted in the foreground: it stays, and keeps its name, until its pods are gone. Pods that lost
    their owner (somebody deleted the job and left them) are deleted by themselves. ``on_pods`` sees the pods as
    they end. Raises ``ClusterUnavailableError``.
    """
    until = time.monotonic() + seconds
    pods = api.list("Pod", job.namespace, labels=job.selector)
    before, pause = len(pods), 0.05
    on_pods(pods)
    _delete(api, job)
    while True:
        there = _job_there(api, job)
        pods = api.list("Pod", job.namespace, labels=job.selector)
        on_pods(pods)
        if not there and not pods:
            return Removal(pods_before=before, left=(), verified=True)
        if time.monotonic() >= until:
            left = sorted(str(pod["metadata"]["name"]) for pod in pods)
            return Removal(pods_before=before, left=tuple(left), verified=False)
        if not there:
            _delete_orphans(api, job, pods)
        sleep(pause)
        pause = min(1.0, pause * 1.5)


def delete_now(api: ClusterApi, job: Job) -> None:
    """Ask for the deletion and return at once: the pods get SIGTERM and their grace time."""
    api.delete(job.kind, job.namespace, job.name, uid=job.uid, foreground=True)


def _delete(api: ClusterApi, job: Job) -> None:
    delete_now(api, job)
    if job.has_service:
        api.delete("Service", job.namespace, job.name)


def _job_there(api: ClusterApi, job: Job) -> bool:
    found = api.read(job.kind, job.namespace, job.name)
    return found is not None and (not job.uid or found["metadata"].get("uid") == job.uid)


def _delete_orphans(api: ClusterApi, job: Job, pods: list[Object]) -> None:
    for pod in pods:
        meta = pod["metadata"]
        if "deletionTimestamp" not in meta:
            api.delete("Pod", job.namespace, meta["name"], uid=meta.get("uid"))
