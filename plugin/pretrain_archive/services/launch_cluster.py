"""Launches on a cluster: adopt a job that exists, close an attempt without one, settle what nobody follows.

The job's record ``job.created`` decides. With it the job is the attempt's only one and is adopted, never created
again. Without it the job, should it be there, is suspended and has started nothing: it is deleted and the attempt
is closed as lost, so that the next attempt takes a new token.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain_archive.compute.recovery import close_lost_attempts, kept_stop
from pretrain_archive.domain.errors import (
    RefusedError,
    StillRunningError,
)
from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.kinds import (
    AttemptEnded,
    CheckpointRegistered,
    JobCreated,
    LaunchIntended,
    read_payload,
)
from pretrain_archive.domain.policy_compute import Kubernetes
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.permit import open_attempt
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.checkpoints import registrar
from pretrain_archive.services.launch_bench import Bench
from pretrain_archive.services.launch_inputs import code_of, config_of
from pretrain_archive.services.launch_spec import Resume, data_folder, spec_of
from pretrain_archive.services.recovering import SILENCE, succeeds

if TYPE_CHECKING:
    from pretrain_archive.compute.kubernetes.launch import KubernetesLaunch
    from pretrain_archive.compute.kubernetes.standing import Job
    from pretrain_archive.compute.spec import JobSpec

REMOVE_SECONDS = 60.0
RESUME = "PRETRAIN_ARCHIVE_RESUME_FROM"


def open_job(view: RunView) -> tuple[Record, JobCreated] | None:
    """The launch intent of the attempt without an end, and its job; None if it has no job on record."""
    intent = open_attempt(view)
    if intent is None:
        return None
    created = [job for _, job in view.all(JobCreated) if job.attempt == intent.attempt]
    return (intent, created[-1]) if created else None


def cluster_launch(
    ledger: Ledger, caller: Caller, view: RunView, bench: Bench, cluster: Kubernetes, *,
    spec: JobSpec | None = None, intent: Record | None = None, log_offset: int = 0,
    asked_to_end: Callable[[], bool] = lambda: False,
) -> KubernetesLaunch:  # fmt: skip
    """The launch of a new attempt, or (without ``spec`` and ``intent``) of the one whose job is on record.

    The specification of an adopted job is made again from the ledger: what it was created with stands there.
    """
    from pretrain_archive.compute.kubernetes.launch import KubernetesLaunch  # noqa: PLC0415 (heavy)
    from pretrain_archive.compute.kubernetes.launch_fence import job_of  # noqa: PLC0415

    created: JobCreated | None = None
    if spec is None or intent is None:
        found = open_job(view)
        if found is None:
            raise RefusedError(f"run {view.run_uid} has no job that could be followed")
        intent, created = found
        spec = spec_of(
            view, attempt=created.attempt, code=code_of(config_of(view).command, cluster),
            manifest=data_folder(bench, view.run_uid) / "manifest.jsonl", runs_folder=bench.runs_folder,
            resume=_resumed_from(view, created), resume_refused=tuple(created.resume_refused),
        )  # fmt: skip
    launch = KubernetesLaunch(
        spec, intent=intent, cluster=cluster, api=bench.clusters(cluster), ledger=ledger, actor=caller.actor,
        origin=caller.origin, on_checkpoint=registrar(ledger, caller, view), progress=caller.say,
        log_offset=log_offset, should_stop=lambda: "the task was asked to end" if asked_to_end() else "",
    )  # fmt: skip
    if created is not None:
        launch.job = job_of(created, queued=bool(cluster.queue))
        launch.watch.fired = kept_stop(spec.work_folder)  # by a visitor who could not write it down
    return launch


def _resumed_from(view: RunView, created: JobCreated) -> Resume | None:
    """The recovery point that the job was created with, as its manifest names it."""
    folder = next(iter(_values(created.manifest, RESUME)), "")
    if not folder:
        return None
    steps = [
        checkpoint.step
        for _, checkpoint in view.all(CheckpointRegistered)
        if checkpoint.location.rstrip("/").endswith(Path(folder).as_uri().removeprefix("file://"))
    ]
    return (Path(folder), steps[-1]) if steps else None


def _values(node: Any, name: str) -> list[str]:
    """Values of the variable ``name`` wherever a manifest sets it."""
    if isinstance(node, list):
        return [value for part in node for value in _values(part, name)]
    if not isinstance(node, dict):
        return []
    if node.get("name") == name and isinstance(node.get("value"), str):
        return [node["value"]]
    return [value for part in node.values() for value in _values(part, name)]


def check_cluster(bench: Bench, cluster: Kubernetes, view: RunView) -> None:
    """Ask the cluster something small before any work is done: what is wrong with the connection is named at once."""
    from pretrain_archive.compute.kubernetes.api import KubernetesApi  # noqa: PLC0415 (heavy)
    from pretrain_archive.compute.kubernetes.api_open import check_reachable  # noqa: PLC0415
    from pretrain_archive.compute.kubernetes.names import RUN_LABEL, label_value  # noqa: PLC0415

    api = bench.clusters(cluster)
    if isinstance(api, KubernetesApi):
        check_reachable(api, field="compute.kubernetes.connection", value=cluster.connection)
    api.list(cluster.object_kind, cluster.namespace, labels=f"{RUN_LABEL}={label_value(view.run_uid)}")


def require_buildable(bench: Bench, cluster: Kubernetes, spec: JobSpec) -> None:
    """Refuse before a token is used what no job can be made of, and what the cluster would not take.

    ``InputError`` names the field of the policy: a namespace that is not there among them, which a list of the jobs
    in it would not show. The cluster is asked by a dry run, which stores nothing.
    """
    from pretrain_archive.compute.kubernetes.manifest import build_objects  # noqa: PLC0415 (heavy)

    objects = build_objects(spec, cluster, token_digest=f"sha256:{0:064x}")
    bench.clusters(cluster).rehearse(objects.kind, objects.namespace, objects.job)


def require_data_shared(cluster: Kubernetes, manifest: Path) -> None:
    """Refuse data that the pods would not find: a document that lies outside the shared volume."""
    root = Path(cluster.mount_path).resolve()
    with manifest.open("rb") as file:
        for line in file:
            place = str(json.loads(line)["location"])
            if not Path(place).resolve().is_relative_to(root):
                raise RefusedError(
                    "no launch: the data is out of the pods' reach", reasons=(f"{place} is not below {root}",),
                    hint="Put [pretrain_archive] store_url below [compute.kubernetes] mount_path.",
                )  # fmt: skip


def close_uncreated(
    ledger: Ledger, caller: Caller, view: RunView, bench: Bench, cluster: Kubernetes, *, patient: bool = True
) -> list[AttemptEnded]:
    """Close the open attempt that has no job on record, and delete the suspended job that it may have left.

    Another try than the one that consumed the token has to see silence first, as on a machine; ``patient`` False
    is for a run of which no task is left. Closing is refused by the ledger if the job got its record meanwhile; a
    creator that wakes up after it can never put his job on record, and deletes it himself.
    """
    from pretrain_archive.compute.kubernetes.removal import remove  # noqa: PLC0415 (heavy)

    intent = open_attempt(view)
    if intent is None or open_job(view) is not None:
        return []
    age = datetime.now(UTC) - parse_time(intent.recorded_at)
    if patient and not succeeds(caller.origin, intent.origin) and age < SILENCE:
        raise StillRunningError(
            f"attempt {intent.attempt} of run {view.run_uid} was launched moments ago and has no job yet.",
            hint="Wait for its job or its end; nothing was started and nothing was ended.",
        )
    job, api = _unrecorded_job(view, cluster, intent), bench.clusters(cluster)
    gone = remove(api, job, seconds=REMOVE_SECONDS)
    if not gone.verified:
        raise StillRunningError(
            f"attempt {intent.attempt} of run {view.run_uid} is not over: {', '.join(gone.left) or job.name} in "
            f"namespace {job.namespace} did not go.", hint="Look why, then run the task again.",
        )  # fmt: skip
    closed = close_lost_attempts(
        ledger, view, bench.runs_folder, actor=caller.actor, origin=caller.origin,
        on_checkpoint=registrar(ledger, caller, view),
    )  # fmt: skip
    api.delete(job.kind, job.namespace, job.name)  # made after the look above, by a creator that was cut off
    for attempt in closed:
        caller.say(f"attempt {attempt.attempt} never had a job on record: it is {attempt.state}")
    return closed


def _unrecorded_job(view: RunView, cluster: Kubernetes, intent: Record) -> Job:
    """The job that this launch would have created: its name and labels follow from the token."""
    from pretrain_archive.compute.kubernetes import names  # noqa: PLC0415 (heavy)
    from pretrain_archive.compute.kubernetes.standing import Job  # noqa: PLC0415

    attempt, token = intent.attempt or 0, read_payload(intent, LaunchIntended).token_digest
    labels = {
        names.RUN_LABEL: names.label_value(view.run_uid),
        names.ATTEMPT_LABEL: str(attempt),
        names.TOKEN_LABEL: names.token_label(token),
    }
    return Job(
        kind=cluster.object_kind, name=names.job_name(view.run_uid, attempt, token), namespace=cluster.namespace,
        uid=None, labels=labels, members=1, queued=False, has_service=cluster.object_kind == "Job",
    )  # fmt: skip
