"""How an attempt on a cluster stands: what one look at the cluster showed, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pretrain_archive.compute.kubernetes.api import ClusterApi
from pretrain_archive.compute.kubernetes.exits import JobVerdict
from pretrain_archive.compute.kubernetes.waiting import Wait
from pretrain_archive.domain.kinds import MemberObserved, StopFired

RELEASED = "pretrain-archive/released"
"""The annotation that the release leaves: a job that a queue or a person suspends later is not released again."""
MOST_PENDING = 8
"""Pods whose events are asked for; a thousand members wait for the same reason."""

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """The one job of the attempt, as its record names it."""

    kind: str
    name: str
    namespace: str
    uid: str | None
    labels: Mapping[str, str]
    members: int
    queued: bool
    has_service: bool

    @property
    def selector(self) -> str:
        """The label selector of its pods."""
        return ",".join(f"{name}={value}" for name, value in sorted(self.labels.items()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What the cluster showed at the moment ``at``. ``job`` is None if it is gone, or is another one.

    ``position`` is the workload's entry in the order of its queue, where Kueue tells it.
    """

    at: datetime
    job: Object | None
    pods: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    workload: Object | None = None
    position: Object | None = None

    @property
    def suspended(self) -> bool:
        """Whether the job is held back."""
        return self.job is not None and (self.job.get("spec") or {}).get("suspend") is True

    @property
    def released(self) -> bool:
        """Whether it was let go once."""
        return self.job is not None and RELEASED in (self.job["metadata"].get("annotations") or {})


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What a visit found. ``ended``: nothing of it goes on, or must not; :meth:`KubernetesLaunch.end` comes next.

    ``why`` says it in words. ``gone``: the job is no longer in the cluster, which is never a success.
    """

    state: Literal["waiting", "running", "ended"]
    why: str = ""
    wait: Wait | None = None
    verdict: JobVerdict | None = None
    members: tuple[MemberObserved, ...] = ()
    stop: StopFired | None = None
    gone: bool = False
    last_step: int | None = None


def look(api: ClusterApi, job: Job, *, at: datetime, quick: bool = False) -> Look:
    """Look at the job, its pods, and (unless ``quick``) at what is said about those that wait.

    Raises ``ClusterUnavailableError``; an error of another kind names what the account may not read.
    """
    found = api.read(job.kind, job.namespace, job.name)
    if found is not None and job.uid and found["metadata"].get("uid") != job.uid:
        found = None
    pods = api.list("Pod", job.namespace, labels=job.selector)
    if quick or found is None:
        return Look(at=at, job=found, pods=pods)
    workload = _workload(api, job, found) if job.queued else None
    pending = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Running", "Succeeded")]
    events: list[Object] = []
    if len(pods) < job.members or pending:
        about = [found, *([workload] if workload else []), *pending[:MOST_PENDING]]
        for item in about:
            fields = f"involvedObject.uid={item['metadata'].get('uid')}"
            events += api.list("Event", job.namespace, fields=fields)
    position = (
        _position(api, job, workload) if workload and (found.get("spec") or {}).get("suspend") else None
    )
    return Look(at=at, job=found, pods=pods, events=events, workload=workload, position=position)


def _workload(api: ClusterApi, job: Job, found: Object) -> Object | None:
    """Kueue's workload of the job."""
    uid = found["metadata"].get("uid")
    named = api.list("Workload", job.namespace, labels=f"kueue.x-k8s.io/job-uid={uid}")
    return next(iter(named), None)


def _position(api: ClusterApi, job: Job, workload: Object) -> Object | None:
    """The workload among those that wait in its queue."""
    queue, name = (workload.get("spec") or {}).get("queueName"), workload["metadata"].get("name")
    waiting = api.pending(job.namespace, str(queue)) if queue else []
    return next((item for item in waiting if (item.get("metadata") or {}).get("name") == name), None)
