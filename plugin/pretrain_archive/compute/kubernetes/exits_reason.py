"""Why a container ended: what its pod, its own status, its events and the wrapper say, and the class that follows."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pretrain_archive.compute.kubernetes.exits_pod import disruption, main_status, plain
from pretrain_archive.domain.kinds.cluster import ExitClass

DISRUPTIONS: dict[str, ExitClass] = {
    "PreemptionByScheduler": "preempted",
    "EvictionByEvictionAPI": "evicted",
    "DeletionByTaintManager": "node_lost",
    "DeletionByPodGC": "node_lost",
}
"""Reasons of ``DisruptionTarget``; ``TerminationByKubelet`` is told apart by the pod's own reason."""

POD_REASONS: dict[str, ExitClass] = {
    "Evicted": "evicted",
    "Preempting": "preempted",  # the kubelet made room for a critical pod
    "NodeLost": "node_lost",
    "NodeShutdown": "node_lost",
    "Shutdown": "node_lost",
    "Terminated": "node_lost",  # graceful node shutdown
    "DeadlineExceeded": "deadline",
    "UnexpectedAdmissionError": "unschedulable",
    "NodeAffinity": "unschedulable",
    "Taints": "unschedulable",
    "InvalidImageName": "image",
    "ErrImageNeverPull": "image",
}
CONTAINER_REASONS: dict[str, ExitClass] = {
    "OOMKilled": "oom",
    "ContainerStatusUnknown": "node_lost",
    "ContainerCannotRun": "user_error",
    "StartError": "user_error",
    "DeadlineExceeded": "deadline",
}
EVENTS: dict[str, ExitClass] = {
    "Preempted": "preempted",
    "Evicted": "evicted",
    "TaintManagerEviction": "node_lost",
}
"""What older clusters, whose pods carry no condition, only say in an event."""

ENDED: dict[str, ExitClass] = {"deadline": "deadline", "stop_rule": "stopped"}
"""Reasons in the wrapper's last line that are its own doing."""

_ROOT = re.compile(r"Root Cause.*?exitcode\s*:\s*(-?\d+)", re.DOTALL)
_FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Death:
    """What is said about the end of a member's container."""

    phase: str
    disruption: str
    pod_reason: str
    container_reason: str
    event: str
    exit_code: int | None
    signal: int | None
    child: int | None
    out_of_memory: bool
    wrapper: str
    suspended: bool
    reason: str
    message: str

    @classmethod
    def of(
        cls, pod: Mapping[str, Any], *, events: Iterable[Mapping[str, Any]] = (),
        ended: Mapping[str, Any] | None = None, suspended: bool = False,
    ) -> Death:  # fmt: skip
        """Collect it. The end of the program's log is read for torchrun's report and not kept: logs hold secrets."""
        status, found = pod.get("status") or {}, disruption(pod)
        state = main_status(pod).get("state") or {}
        terminated, waiting = state.get("terminated") or {}, state.get("waiting") or {}
        code, event = terminated.get("exitCode"), _event(events)
        child = killed_child(ended, str(terminated.get("message") or ""))
        own = str(terminated.get("reason") or waiting.get("reason") or "")
        told = [
            str((found or {}).get("message") or ""),
            str(status.get("message") or ""),
            str(terminated.get("message") or "") if own in {"ContainerCannotRun", "StartError"} else "",
            f"a child of the program ended with signal {child} ({_name(child)})" if child else "",
        ]
        return cls(
            phase=str(status.get("phase") or ""),
            disruption=str((found or {}).get("reason") or ""),
            pod_reason=str(status.get("reason") or ""),
            container_reason=own,
            event=event,
            exit_code=code,
            signal=_signal(code, terminated.get("signal")),
            child=child,
            out_of_memory=bool((ended or {}).get("oom_kills")),
            wrapper=str((ended or {}).get("reason") or ""),
            suspended=suspended,
            reason=plain(str(status.get("reason") or own)),
            message=plain("; ".join(dict.fromkeys(part for part in told if part))),
        )


def classify(death: Death) -> ExitClass:
    """The class of an end, the most specific statement first."""
    if death.phase == "Succeeded":  # it was done before a disruption came
        return "completed"
    told = _by_pod(death)
    if told is None and death.exit_code == 0:
        return "completed"
    return told or CONTAINER_REASONS.get(death.container_reason) or _by_others(death) or _by_code(death)


def _by_pod(death: Death) -> ExitClass | None:
    """What the pod's condition and its own reason say."""
    if found := DISRUPTIONS.get(death.disruption) or POD_REASONS.get(death.pod_reason):
        return found
    if death.pod_reason.startswith("OutOf"):  # the node had less than the scheduler thought
        return "unschedulable"
    if death.phase == "Unknown":  # the node does not answer, so nobody knows what became of the pod
        return "node_lost"
    return "evicted" if death.disruption else None


def _by_others(death: Death) -> ExitClass | None:
    """What an event or the wrapper says."""
    return EVENTS.get(death.event) or ENDED.get(death.wrapper)


def _by_code(death: Death) -> ExitClass:
    if death.suspended and death.signal in {signals.SIGTERM, signals.SIGKILL}:
        return "requeued"
    if death.out_of_memory:
        return "oom"
    if signals.SIGKILL in {death.signal, death.child}:
        return "killed"
    if death.signal in {signals.SIGTERM, signals.SIGINT}:
        return "interrupted"
    return "unknown" if death.exit_code is None else "user_error"


def killed_child(ended: Mapping[str, Any] | None, log: str = "") -> int | None:
    """The signal that ended a child of the program, from the wrapper's last line or from torchrun's report."""
    for failure in (ended or {}).get("hidden_failures") or []:
        if isinstance(failure, Mapping) and isinstance(failure.get("signal"), int):
            return int(failure["signal"])
    found = _ROOT.search(log) or _FAILED.search(log)
    code = int(found.group(1)) if found else 0
    return -code if code < 0 else None


def _signal(code: Any, given: Any) -> int | None:
    """The signal behind an exit code: a shell, a container and the wrapper report 128 + signal."""
    if isinstance(given, int) and given > 0:
        return given
    return code - 128 if isinstance(code, int) and 128 < code <= 128 + 64 else None


def _name(number: int | None) -> str:
    try:
        return signals.Signals(number or 0).name
    except ValueError:
        return "unknown"


def _event(events: Iterable[Mapping[str, Any]]) -> str:
    return next((str(event["reason"]) for event in events if event.get("reason") in EVENTS), "")
