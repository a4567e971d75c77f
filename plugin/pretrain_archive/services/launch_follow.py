"""Look after an attempt that was begun: follow it to its end, or only for a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain_archive.compute.kubernetes.exits import RETRIED
from pretrain_archive.compute.recovery import keep_stop
from pretrain_archive.compute.spec import attempt_folder
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.exploration import Scope, is_exploration
from pretrain_archive.domain.identity import format_time, parse_time
from pretrain_archive.domain.kinds import AttemptEnded, StopFired
from pretrain_archive.domain.policy_compute import Kubernetes
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.launch_bench import Bench, ClusterOf, cluster_of
from pretrain_archive.services.launch_cluster import cluster_launch, open_job
from pretrain_archive.services.launching import Begun
from pretrain_archive.services.resuming import reconcile_ended
from pretrain_archive.services.runs import policy_of, run_of

if TYPE_CHECKING:
    from pretrain_archive.compute.kubernetes.launch import KubernetesLaunch


EVIDENCE_SECONDS = 120.0
"""How long a job goes on while nothing of it can be written down, as on a machine."""
SOON = 2
"""As many visits as make the pause before the next one short."""


def may_try_again(ended: AttemptEnded) -> bool:
    """Whether the next try of the task may launch the next attempt by itself.

    On a cluster only after ends that the same launch may not have again; else something has to be mended first.
    """
    return ended.state != "stopped" and (ended.exit_class is None or ended.exit_class in RETRIED)


def on_cluster(ledger: Ledger, caller: Caller, run_uid: str) -> bool:
    """Whether the policy that was recorded with the run launches on a cluster."""
    return cluster_of(policy_of(run_of(ledger, caller, run_uid))) is not None


@dataclass(frozen=True, kw_only=True)
class Followed:
    """The run's job, or how its newest attempt ended where somebody else wrote the end."""

    job: KubernetesLaunch | None = None
    ended: AttemptEnded | None = None


def follow(ledger: Ledger, caller: Caller, run_uid: str, bench: Bench, *, log_offset: int = 0) -> Followed:
    """What there is to look after; ``log_offset`` is how much of the log was shown."""
    view = run_of(ledger, caller, run_uid, open_only=False)
    cluster = cluster_of(policy_of(view))
    if cluster is not None and open_job(view) is not None:
        job = cluster_launch(ledger, caller, view, bench, cluster, log_offset=log_offset)
        if view.state == "closed":  # nothing may be added to it any more, least of all training
            job.kill("the run is closed")
            raise RefusedError(f"run {run_uid} is closed: its job is deleted", hint="Trigger a new run.")
        return Followed(job=job)
    ended = view.latest(AttemptEnded)
    if ended is None:
        raise RefusedError(f"run {run_uid} has no attempt that could be followed")
    return Followed(ended=ended)


def evidence_lost(trigger: dict[str, Any]) -> StopFired | None:
    """The stop of a job whose evidence could not be written for too long; None while there is time.

    ``trigger`` remembers since when, and is made to come back soon.
    """
    now = datetime.now(UTC)
    since = parse_time(trigger["failing_since"]) if trigger.get("failing_since") else now
    trigger |= {"failing_since": format_time(since), "visits": SOON}
    failing = (now - since).total_seconds()
    if failing < EVIDENCE_SECONDS:
        return None
    return StopFired(
        attempt=trigger["attempt"], rule="evidence", observed=f"no evidence written for {failing:.1f} s",
        limit=f"{EVIDENCE_SECONDS:.1f} s",
    )  # fmt: skip


def stop_unwritten(clusters: ClusterOf, runs_folder: Path, trigger: dict[str, Any], fired: StopFired) -> None:
    """Stop a job without the ledger: the rule is kept beside the attempt, where its end will find it."""
    keep_stop(attempt_folder(runs_folder, trigger["run_uid"], trigger["attempt"]), fired)
    cluster = Kubernetes(connection=trigger["connection"], namespace=trigger["namespace"])
    clusters(cluster).delete(trigger["object_kind"], trigger["namespace"], trigger["name"], foreground=True)


def run_to_end(ledger: Ledger, caller: Caller, run_uid: str, begun: Begun) -> AttemptEnded:
    """Run or follow what was begun to its end."""
    job = begun.local or begun.cluster
    if job is None:
        assert begun.ended is not None
        return begun.ended
    ended: AttemptEnded = job.run()
    reconcile_ended(ledger, caller, run_of(ledger, caller, run_uid, open_only=False))
    return ended


def finish(ledger: Ledger, caller: Caller, job: KubernetesLaunch) -> AttemptEnded:
    """Write the end of a job that a visit found ended, and take it away."""
    ended: AttemptEnded = job.end()
    reconcile_ended(ledger, caller, run_of(ledger, caller, job.spec.run_uid, open_only=False))
    return ended


def state_of(ledger: Ledger, caller: Caller, run_uid: str, *, attempt: int | None) -> str:
    """``open`` for an attempt without an end, else how it ended; ``unknown`` for one that is not on record."""
    view = run_of(ledger, caller, run_uid, open_only=False)
    ended = [end.state for _, end in view.all(AttemptEnded) if end.attempt == attempt]
    if ended:
        return str(ended[-1])
    return "open" if attempt is not None and 0 < attempt <= view.attempts else "unknown"


def scope_at(ledger: Ledger, caller: Caller, run_uid: str) -> Scope:
    """Whether the run is an exploration: told with every result, so that nobody takes it for a signed one."""
    return "exploration" if is_exploration(run_of(ledger, caller, run_uid, open_only=False)) else "full"


def end_of(ledger: Ledger, caller: Caller, run_uid: str, attempt: int) -> AttemptEnded:
    """How an attempt ended."""
    view = run_of(ledger, caller, run_uid, open_only=False)
    found = [end for _, end in view.all(AttemptEnded) if end.attempt == attempt]
    if not found:
        raise RefusedError(f"attempt {attempt} of run {run_uid} has no recorded end")
    return found[-1]
