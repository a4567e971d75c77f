"""Pods that ended, and what is seen of them."""

from __future__ import annotations

from typing import Any

from tests.unit.compute.kubernetes.objects import at, condition, pod, terminated

from pretrain_archive.compute.kubernetes.exits import member_of
from pretrain_archive.domain.kinds import MemberObserved

KILLED = terminated(137)


def failed(state: dict[str, Any] | None, *conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    """A pod that failed."""
    return pod(
        phase="Failed", node="gpu-7", state=state, conditions=list(conditions), status={**status}
    )  # fmt: skip


def disrupted(reason: str) -> dict[str, Any]:
    """The condition of a pod that somebody takes away."""
    return condition("DisruptionTarget", reason=reason, message=f"said by {reason}")


def deleted(made: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same pod, to be gone at this moment."""
    return {**made, "metadata": {**made["metadata"], "deletionTimestamp": at(seconds)}}


def seen(made: dict[str, Any], *, seconds: float = 100, **more: Any) -> MemberObserved:
    """What is seen of a pod."""
    return member_of(made, attempt=1, at=at(seconds), **more)
