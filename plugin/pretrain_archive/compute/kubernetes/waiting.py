"""Why a launch waits for its members, in words, and whether waiting on can help. Pure, on the API's plain dicts.

What says it, in this order: the job controller's and Kueue's messages while there are no pods, then each pod that
does not run: the scheduler, the image, the containers' configuration, volumes. A lasting cause is told at once;
every other cause is waited for up to the start limit, counted from the last time the job was held back or let go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pretrain_archive.compute.kubernetes.exits import job_condition
from pretrain_archive.compute.kubernetes.exits_pod import plain
from pretrain_archive.compute.kubernetes.waiting_base import (
    Wait,
    condition_of,
    event_time,
    moment_of,
    name_of,
    running,
)
from pretrain_archive.compute.kubernetes.waiting_pods import pod_wait
from pretrain_archive.compute.kubernetes.waiting_queue import create_wait, queue_wait
from pretrain_archive.domain.kinds.cluster import WaitReason

ORDER: tuple[WaitReason, ...] = (
    "image", "environment", "policy", "data", "quota", "fragmentation", "topology", "resources", "queue", "start",
)  # fmt: skip
"""Which of several members' reasons is told: what a person can mend first."""


def wait_of(
    job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], events: Iterable[Mapping[str, Any]],
    workload: Mapping[str, Any] | None = None, *, now: datetime, start_limit_seconds: float,
    position: Mapping[str, Any] | None = None,
) -> Wait | None:  # fmt: skip
    """Why the job waits at the moment ``now``; None if all members run, or if it is over.

    ``events`` are those about the job, its pods and its workload; ``position`` is the workload's entry in Kueue's
    visibility API where that was asked.
    """
    if job_condition(job, "Complete") or job_condition(job, "Failed"):
        return None
    since = waiting_since(job)
    known = [event for event in events if _current(event, since)]
    found = _found(job, pods, known, workload, position)
    if found is None:
        return None
    waited = (now - since).total_seconds() if since is not None else 0.0
    found = replace(
        found,
        message=plain(found.message),
        details={**found.details, "waited_seconds": round(max(0.0, waited), 3)},
    )
    if not found.hopeless and waited > start_limit_seconds:
        text = (
            f"{found.message} (waited {waited / 60:.0f} min, the limit is {start_limit_seconds / 60:g} min)"
        )
        return replace(found, hopeless=True, message=text)
    return found


def waiting_since(job: Mapping[str, Any]) -> datetime | None:
    """From when this wait counts: the job's creation, or the last time it was held back or let go."""
    suspended = condition_of(job, "Suspended") or {}
    times = [
        moment_of((job.get("metadata") or {}).get("creationTimestamp")),
        moment_of((job.get("status") or {}).get("startTime")),
        moment_of(suspended.get("lastTransitionTime")),
    ]
    return max((time for time in times if time is not None), default=None)


def _current(event: Mapping[str, Any], since: datetime | None) -> bool:
    """Whether an event belongs to this wait; events have whole seconds, and one without a time is kept."""
    time = event_time(event)
    return since is None or time is None or (since - time).total_seconds() < 1


def _found(
    job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], events: list[Mapping[str, Any]],
    workload: Mapping[str, Any] | None, position: Mapping[str, Any] | None,
) -> Wait | None:  # fmt: skip
    spec = job.get("spec") or {}
    if spec.get("suspend") is True:
        return queue_wait(job, workload, position) or Wait(
            reason="start", message="the job is held back; it is released when its record is in the ledger",
            object=f"job/{name_of(job)}",
        )  # fmt: skip
    wanted = int(spec.get("parallelism") or (spec.get("trainer") or {}).get("numNodes") or 1)
    alive = [pod for pod in pods if not (pod.get("metadata") or {}).get("deletionTimestamp")]
    waiting = [pod for pod in alive if not running(pod)]
    if len(alive) < wanted:
        missing = create_wait(job, events)
        if missing is not None or not waiting:
            return missing or _none_yet(job, len(alive), wanted)
    if not waiting:
        return None
    waits = [pod_wait(pod, events) for pod in waiting]
    worst = min(waits, key=lambda wait: (not wait.hopeless, ORDER.index(wait.reason)))
    if wanted == 1:
        return worst
    details = {**worst.details, "waiting": len(waiting), "members": wanted}
    return replace(
        worst, message=f"{len(waiting)} of {wanted} members wait: {worst.message}", details=details
    )


def _none_yet(job: Mapping[str, Any], there: int, wanted: int) -> Wait:
    return Wait(
        reason="start", message=f"the cluster has made {there} of {wanted} pods", object=f"job/{name_of(job)}",
        details={"members": wanted},
    )  # fmt: skip


__all__ = ["Wait", "wait_of", "waiting_since"]
