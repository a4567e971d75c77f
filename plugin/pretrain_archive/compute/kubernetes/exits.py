"""How a member of a job ended, and what that says of the attempt. Pure, on the API's plain dicts.

Exit code 137 (SIGKILL) alone says nothing: out of memory, eviction, preemption and a kill by hand share it. What
tells them apart is the pod's condition ``DisruptionTarget``, the pod's and the container's reason, and what the
wrapper saw of the program's children. Sources: the API conventions of Pod and Job (v1.31), "Pod disruption
conditions" and "Pod failure policy" in the Kubernetes documentation.

A job succeeded only if its own condition ``Complete`` has the status "True", compared as text; the absence of an
error is no success.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pretrain_archive.compute.kubernetes.exits_pod import (
    condition_text,
    device_ids,
    disruption,
    ended_now,
    image_digest,
    main_status,
    moment,
    plain,
    worker_of,
)
from pretrain_archive.compute.kubernetes.exits_reason import Death, classify, killed_child
from pretrain_archive.domain.kinds import MemberObserved
from pretrain_archive.domain.kinds.cluster import ExitClass

UNCOUNTED: frozenset[ExitClass] = frozenset({"preempted", "requeued"})
"""Ends that use up no attempt: somebody else needed the machines."""

RETRIED: frozenset[ExitClass] = frozenset({
    "preempted", "evicted", "killed", "node_lost", "interrupted", "unknown",
})  # fmt: skip
"""Ends after which the same launch may go well. Out of memory is none: the same memory ends the same way."""

CAUSES: tuple[ExitClass, ...] = (
    "preempted",
    "node_lost",
    "evicted",
    "oom",
    "image",
    "unschedulable",
    "stopped",
)
"""Ends that explain the others: what peers do afterwards (exit 1, SIGTERM) follows from them."""
FOLLOWERS: tuple[ExitClass, ...] = ("deadline", "killed", "user_error", "unknown", "interrupted")
"""Among the rest the earliest is the cause; at the same second in this order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobVerdict:
    """What the job's state means. ``terminal``: nothing of it goes on; ``retry``: the same launch may go well.

    ``counted`` False: the end uses up none of the run's attempts. ``worker`` is the member that explains it.
    """

    terminal: bool
    succeeded: bool
    exit_class: ExitClass | None
    counted: bool
    retry: bool
    reason: str
    worker: int | None = None


def member_of(
    pod: Mapping[str, Any], *, attempt: int, at: str, events: Iterable[Mapping[str, Any]] = (),
    ended: Mapping[str, Any] | None = None, suspended: bool = False,
) -> MemberObserved:  # fmt: skip
    """What a pod shows of a member at the moment ``at`` (RFC 3339).

    ``events`` are the events about it, ``ended`` is the last line of the wrapper's status file of this worker, and
    ``suspended`` says that the job is suspended, so that SIGTERM was the queue's doing.
    """
    status = pod.get("status") or {}
    container = main_status(pod)
    state = container.get("state") or {}
    terminated = state.get("terminated") or {}
    over = ended_now(pod, at=at)
    death = Death.of(pod, events=events, ended=ended, suspended=suspended)
    code = terminated.get("exitCode")
    return MemberObserved(
        attempt=attempt,
        worker=worker_of(pod),
        name=str((pod.get("metadata") or {}).get("name", "")),
        uid=(pod.get("metadata") or {}).get("uid"),
        phase=str(status.get("phase") or "Unknown"),
        node=(pod.get("spec") or {}).get("nodeName"),
        image=container.get("image"),
        image_digest=image_digest(container),
        devices=device_ids(pod),
        restarts=container.get("restartCount"),
        at=at,
        started_at=moment((terminated or state.get("running") or {}).get("startedAt")),
        ended_at=moment(terminated.get("finishedAt")),
        exit_code=code,
        signal=death.signal if over else None,
        reason=death.reason,
        condition=condition_text(disruption(pod)),
        message=death.message,
        exit_class=classify(death) if over else None,
    )


def with_replacements(members: Sequence[MemberObserved]) -> list[MemberObserved]:
    """The members in order, each naming the pod of the same worker that it replaces."""
    last: dict[int, MemberObserved] = {}
    named = []
    for member in members:
        before = last.get(member.worker)
        if before is not None and before.uid != member.uid and member.replaces is None:
            member = member.model_copy(update={"replaces": before.name})  # noqa: PLW2901
        last[member.worker] = member
        named.append(member)
    return named


def verdict_of(job: Mapping[str, Any], members: Sequence[MemberObserved]) -> JobVerdict:
    """Judge a Job or TrainJob by its own conditions, and name the member that explains its end."""
    complete, failed = job_condition(job, "Complete"), job_condition(job, "Failed")
    if failed is not None:
        return _failed(failed, members)
    if complete is not None:
        return JobVerdict(
            terminal=True, succeeded=True, exit_class="completed", counted=True, retry=False,
            reason="the job's condition Complete is True",
        )  # fmt: skip
    suspended = (job.get("spec") or {}).get("suspend") is True
    over = [member for member in _newest(members) if member.exit_class not in {None, "completed"}]
    if suspended and over:
        return _goes_on("requeued", "the job was suspended and waits to be admitted again")
    if not suspended and (gone := [member for member in over if member.exit_class == "node_lost"]):
        # The job itself may wait for days: a pod of a dead node has no end until somebody removes the node.
        return _ended("node_lost", f"{_who(gone[0])}: {_why(gone[0])}", gone[0].worker)
    return _goes_on(None, "suspended" if suspended else "running")


def job_condition(job: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The job's condition of this type whose status is exactly "True", or None."""
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition.get("type") == name and condition.get("status") == "True":
            return dict(condition)
    return None


def _failed(condition: Mapping[str, Any], members: Sequence[MemberObserved]) -> JobVerdict:
    told = plain(f"{condition.get('reason') or 'Failed'}: {condition.get('message') or 'no message'}")
    if condition.get("reason") == "DeadlineExceeded":
        return _ended("deadline", told, None)
    cause = _cause(members)
    if cause is not None and cause.exit_class is not None:
        return _ended(cause.exit_class, f"{_who(cause)}: {_why(cause)}", cause.worker)
    if condition.get("reason") == "PodFailurePolicy" and "DisruptionTarget" in told:
        return _ended(
            "evicted", f"a member was disrupted, its pod is gone and how is unrecorded ({told})", None
        )
    return _ended("unknown", told, None)


def _newest(members: Sequence[MemberObserved]) -> list[MemberObserved]:
    """The last observation of each worker: how a pod ended that was replaced explains nothing that came later."""
    return list({member.worker: member for member in members}.values())


def _cause(members: Sequence[MemberObserved]) -> MemberObserved | None:
    newest = _newest(members)
    for name in CAUSES:
        if found := [member for member in newest if member.exit_class == name]:
            return min(found, key=lambda member: (member.ended_at or "~", member.worker))
    found = [member for member in newest if member.exit_class in FOLLOWERS]
    if not found:
        return None
    return min(
        found,
        key=lambda m: (m.ended_at or "~", FOLLOWERS.index(m.exit_class or "unknown"), m.worker),
    )


def _ended(name: ExitClass, reason: str, worker: int | None) -> JobVerdict:
    return JobVerdict(
        terminal=True, succeeded=False, exit_class=name, counted=name not in UNCOUNTED, retry=name in RETRIED,
        reason=reason, worker=worker,
    )  # fmt: skip


def _goes_on(name: ExitClass | None, reason: str) -> JobVerdict:
    return JobVerdict(
        terminal=False,
        succeeded=False,
        exit_class=name,
        counted=name not in UNCOUNTED,
        retry=False,
        reason=reason,
    )


def _who(member: MemberObserved) -> str:
    return f"worker {member.worker} (pod {member.name} on {member.node or 'no node'})"


def _why(member: MemberObserved) -> str:
    parts = [
        str(member.exit_class),
        f"exit code {member.exit_code}" if member.exit_code is not None else "",
        f"signal {member.signal}" if member.signal is not None else "",
        member.reason,
        member.condition,
        member.message,
    ]
    return ", ".join(part for part in parts if part)


__all__ = [
    "JobVerdict", "job_condition", "killed_child", "member_of", "verdict_of", "with_replacements",
]  # fmt: skip
