"""How an attempt on a cluster ended: the job's own condition and the evidence together. Pure.

Success needs both: the job's condition ``Complete`` and the program's exit code 0 with its end marker or target
step. A job that is gone is never a success, whatever the evidence says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pretrain_archive.compute.kubernetes.exits import JobVerdict, verdict_of
from pretrain_archive.compute.kubernetes.standing import Job, Standing
from pretrain_archive.compute.outcome import Outcome, State
from pretrain_archive.domain.kinds import JobEnded, MemberObserved
from pretrain_archive.domain.kinds.cluster import ExitClass

STATES: dict[ExitClass, State] = {
    "preempted": "interrupted",
    "requeued": "interrupted",
    "evicted": "interrupted",
    "interrupted": "interrupted",
    "killed": "interrupted",
    "node_lost": "lost",
    "deadline": "stopped",
    "stopped": "stopped",
}
"""The state of an attempt whose job failed for this reason; all others are failures."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """An outcome with its class; ``counted`` False: the end uses up none of the run's attempts."""

    outcome: Outcome
    exit_class: ExitClass
    counted: bool


def gone_verdict(members: Sequence[MemberObserved]) -> JobVerdict:
    """What a job that is no longer there means, by the members that were seen."""
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": "Gone",
        "message": "the job is no longer in the cluster",
    }
    return verdict_of({"status": {"conditions": [condition]}}, members)


def ended_job(job: Job, verdict: JobVerdict, *, attempt: int, at: str) -> JobEnded:
    """The record of a terminal verdict that the cluster's own job gave."""
    return JobEnded(
        attempt=attempt, name=job.name, namespace=job.namespace, succeeded=verdict.succeeded,
        exit_class=verdict.exit_class, counted=verdict.counted, retry=verdict.retry, reason=verdict.reason[:2000],
        at=at,
    )  # fmt: skip


def recorded_verdict(over: JobEnded) -> JobVerdict:
    """What the job had shown, of a job that we have taken away since."""
    return JobVerdict(
        terminal=True, succeeded=over.succeeded, exit_class=over.exit_class, counted=over.counted,
        retry=over.retry, reason=over.reason,
    )  # fmt: skip


def judge(outcome: Outcome, standing: Standing, *, killed: str) -> Ending:
    """Put the evidence's outcome and what the cluster says together."""
    verdict = standing.verdict
    if outcome.state == "stopped":
        return Ending(outcome=outcome, exit_class="stopped", counted=True)
    if killed:
        return Ending(outcome=outcome, exit_class="interrupted", counted=True)
    if standing.wait is not None and standing.wait.hopeless:
        return _ended(outcome, "failed", f"it never began: {standing.why}", standing.wait.exit_class)
    if standing.gone:
        return _gone(outcome, verdict)
    if verdict is None or not verdict.terminal:
        return _ended(outcome, "interrupted", "it was ended while its job was running", "interrupted")
    return _succeeded(outcome, verdict) if verdict.succeeded else _failed(outcome, verdict)


def _succeeded(outcome: Outcome, verdict: JobVerdict) -> Ending:
    """The job is Complete: what the evidence says decides."""
    done = outcome.state == "completed"
    why = f"{outcome.reason}; {verdict.reason}" if done else f"{outcome.reason}, although {verdict.reason}"
    name: ExitClass = "completed" if done else "unknown"
    return Ending(outcome=replace(outcome, reason=why), exit_class=name, counted=True)


def _gone(outcome: Outcome, verdict: JobVerdict | None) -> Ending:
    told = (
        f"its job is no longer in the cluster, so its end is unrecorded (the evidence says: {outcome.reason})"
    )
    name = (verdict.exit_class if verdict else None) or "unknown"
    counted = verdict.counted if verdict else True
    return Ending(outcome=replace(outcome, state="lost", reason=told), exit_class=name, counted=counted)


def _failed(outcome: Outcome, verdict: JobVerdict) -> Ending:
    name = verdict.exit_class or "unknown"
    state = STATES.get(name, "failed")
    why = verdict.reason
    if outcome.state not in ("lost", "completed"):
        why = f"{outcome.reason}; {verdict.reason}"
    if outcome.state == "completed":
        why = f"{verdict.reason} (the program had reported its end)"
    return Ending(outcome=replace(outcome, state=state, reason=why), exit_class=name, counted=verdict.counted)


def _ended(outcome: Outcome, state: State, reason: str, name: ExitClass) -> Ending:
    return Ending(outcome=replace(outcome, state=state, reason=reason), exit_class=name, counted=True)
