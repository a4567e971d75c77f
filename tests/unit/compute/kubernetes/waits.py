"""Ask why a launch waits, and what the cluster says then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.unit.compute.kubernetes.objects import IMAGE, START, event, job, pod, waiting

from pretrain_archive.compute.kubernetes.waiting import Wait, wait_of

JOB = job()
QUEUED = job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "research"}}, spec={"suspend": True})


def why(
    pods: list[dict[str, Any]] | None = None, events: list[dict[str, Any]] | None = None, *,
    made: dict[str, Any] = JOB, of: dict[str, Any] | None = None, seconds: float = 60, limit: float = 3600,
    **more: Any,
) -> Wait | None:  # fmt: skip
    """The reason a minute after the start."""
    now = START + timedelta(seconds=seconds)
    return wait_of(made, pods or [], events or [], of, now=now, start_limit_seconds=limit, **more)


def said(*args: Any, **more: Any) -> Wait:
    """The same where there is a reason."""
    found = why(*args, **more)
    assert found is not None
    return found


def image(reason: str, message: str) -> dict[str, Any]:
    """A pod whose container waits for its image."""
    return pod(node="gpu-7", state=waiting(reason, message))


def failed_pull(cause: str) -> dict[str, Any]:
    """The event of a failed pull."""
    return event("Failed", f'Failed to pull image "{IMAGE}": {cause}', pod())


NOT_FOUND = (
    f'rpc error: code = NotFound desc = failed to pull and unpack image "{IMAGE}": failed to resolve reference '
    f'"{IMAGE}": {IMAGE}: not found'
)
RATE = (
    "failed to copy: httpReadSeeker: failed open: unexpected status code 429 Too Many Requests - Server message: "
    "toomanyrequests: You have reached your unauthenticated pull rate limit; access denied"
)
BACKOFF = f'Back-off pulling image "{IMAGE}"'


def create(message: str) -> dict[str, Any]:
    """The event of a job controller that cannot make a pod."""
    return event("FailedCreate", f"Error creating: {message}", JOB)


QUOTA = (
    'pods "pa-job-x" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=8, '
    "used: requests.nvidia.com/gpu={used}, limited: requests.nvidia.com/gpu={limit}"
)
