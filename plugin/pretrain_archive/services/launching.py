"""Launch the next attempt of a run: permission, data, recovery point, one job, how it ended.

The steps are the same on every target; the policy that was recorded with the run says which one it is. What the
steps do is in ``launch_permission``, ``launch_inputs``, ``launch_spec`` and, for a cluster, ``launch_cluster``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pretrain_archive.compute.local import LocalLaunch
from pretrain_archive.domain.errors import AskedToEndError
from pretrain_archive.domain.kinds import AttemptEnded
from pretrain_archive.domain.policy_compute import Kubernetes
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.permit import consume_permit, open_attempt
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.checkpoints import registrar
from pretrain_archive.services.launch_bench import Bench, cluster_of, require_shared
from pretrain_archive.services.launch_cluster import (
    check_cluster,
    close_uncreated,
    cluster_launch,
    open_job,
    require_buildable,
    require_data_shared,
)
from pretrain_archive.services.launch_permission import refuse_repetition, require_allowed, take_permit
from pretrain_archive.services.launch_spec import data_folder, prove_data, spec_of
from pretrain_archive.services.recovering import take_over
from pretrain_archive.services.resuming import ResumePoint, reconcile_ended, resume_point
from pretrain_archive.services.runs import policy_of, run_of

if TYPE_CHECKING:
    from pretrain_archive.compute.kubernetes.launch import KubernetesLaunch

__all__ = ["Begun", "Bench", "begin", "launch", "never"]


def never() -> bool:
    """Nobody asked for an end."""
    return False


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What :func:`begin` leads to: exactly one of an end that was there, a process tree to run, a job to follow.

    ``adopted`` says that the job was created by an earlier try.
    """

    ended: AttemptEnded | None = None
    local: LocalLaunch | None = None
    cluster: KubernetesLaunch | None = None
    adopted: bool = False


def launch(
    ledger: Ledger, caller: Caller, run_uid: str, bench: Bench, *,
    hold: Callable[[LocalLaunch], None], asked_to_end: Callable[[], bool] = never,
) -> AttemptEnded:  # fmt: skip
    """Run the next attempt to its end and return how it ended; a completed one is returned and not repeated.

    ``hold`` is given the launch of a process tree before it starts, so that a signal can end it; ``asked_to_end``
    says that one came earlier. Raises as :func:`begin`.
    """
    begun = begin(ledger, caller, run_uid, bench, asked_to_end=asked_to_end)
    if begun.local is not None:
        hold(begun.local)
    job = begun.local or begun.cluster
    if job is None:
        assert begun.ended is not None
        return begun.ended
    ended = job.run()
    reconcile_ended(ledger, caller, run_of(ledger, caller, run_uid))
    return ended


def begin(
    ledger: Ledger, caller: Caller, run_uid: str, bench: Bench, *, target: str | None = None,
    asked_to_end: Callable[[], bool] = never,
) -> Begun:  # fmt: skip
    """Do everything up to the start of the next attempt; on a cluster its job is created and released.

    Permission is asked first, before anything is touched, and again after the long work of proving and laying
    out the data, right before the token is consumed. Raises :class:`RefusedError` naming everything that is
    missing or stale; then nothing was started. A job that runs on a cluster is adopted: following it is no launch.
    """
    view = run_of(ledger, caller, run_uid)
    cluster = cluster_of(policy_of(view), target)
    if cluster is not None and open_job(view) is not None:
        job = cluster_launch(ledger, caller, view, bench, cluster, asked_to_end=asked_to_end)
        caller.say(f"attempt {job.spec.attempt} has a job on the cluster: it is followed, none is started")
        return Begun(cluster=job, adopted=True)
    if open_attempt(view) is None:
        refuse_repetition(ledger, caller, view)
    require_allowed(ledger, caller, view, bench)
    if (done := _completed(view)) is not None:
        caller.say(f"attempt {done.attempt} completed with exactly these inputs: nothing is started")
        return Begun(ended=done)
    if cluster is not None:
        check_cluster(bench, cluster, view)
        close_uncreated(ledger, caller, view, bench, cluster)
    else:
        take_over(ledger, caller, view, bench.runs_folder)
    refuse_repetition(ledger, caller, run_of(ledger, caller, run_uid))
    manifest = _data(run_of(ledger, caller, run_uid), bench, caller, cluster)
    reconcile_ended(ledger, caller, run_of(ledger, caller, run_uid))
    point = resume_point(ledger, caller, run_of(ledger, caller, run_uid))
    view = run_of(ledger, caller, run_uid)
    return _start(
        ledger, caller, view, bench, cluster=cluster, manifest=manifest, point=point, asked_to_end=asked_to_end
    )  # fmt: skip


def _data(view: RunView, bench: Bench, caller: Caller, cluster: Kubernetes | None) -> Path:
    """The list of documents, every one of them proved and in reach of the job."""
    if cluster is not None:
        require_shared(cluster, {"the work folder": data_folder(bench, view.run_uid)})
    manifest = prove_data(view, bench, caller)
    if cluster is not None:
        require_data_shared(cluster, manifest)
    return manifest


def _start(
    ledger: Ledger, caller: Caller, view: RunView, bench: Bench, *, cluster: Kubernetes | None, manifest: Path,
    point: ResumePoint, asked_to_end: Callable[[], bool],
) -> Begun:  # fmt: skip
    permit, code = take_permit(ledger, caller, view, bench)
    resume = point.resume
    spec = spec_of(
        view, attempt=permit.attempt, code=code, manifest=manifest, runs_folder=bench.runs_folder,
        resume=resume, resume_refused=point.refused, deadline_seconds=permit.token.get("deadline_seconds"),
        not_after=None if permit.token.get("deadline_seconds") else permit.token.get("expires"),
    )  # fmt: skip
    if cluster is not None:
        places = {"the checkpoint folder": spec.checkpoint_folder}
        places |= {"the program's folder": spec.program_folder} if spec.program_folder else {}
        require_shared(cluster, places)
        require_buildable(bench, cluster, spec)
    if resume:
        caller.say(f"attempt {permit.attempt} resumes from the verified checkpoint of step {resume[1]}")
    if asked_to_end():
        raise AskedToEndError("no launch: the task was asked to end before anything was started.")
    name = "kubernetes" if cluster else "local"
    intent = consume_permit(ledger, permit, target=name, actor=caller.actor, origin=caller.origin)
    ledger.seal()
    if cluster is not None:
        job = cluster_launch(
            ledger, caller, view, bench, cluster, spec=spec, intent=intent, asked_to_end=asked_to_end
        )
        record = job.create()
        caller.say(f"job {record.payload['name']} is released in namespace {record.payload['namespace']}")
        return Begun(cluster=job)
    local = LocalLaunch(
        spec, intent=intent, ledger=ledger, actor=caller.actor, origin=caller.origin,
        on_checkpoint=registrar(ledger, caller, view), progress=caller.say,
    )  # fmt: skip
    return Begun(local=local)


def _completed(view: RunView) -> AttemptEnded | None:
    """The run's newest attempt, if it completed."""
    ended = view.latest(AttemptEnded)
    return ended if ended is not None and ended.state == "completed" and open_attempt(view) is None else None
