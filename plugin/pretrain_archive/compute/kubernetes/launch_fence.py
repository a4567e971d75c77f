"""At most one released job for a launch token, wherever this process is cut off.

1. The job is created suspended, under a name that run, attempt and token determine. It starts no pod. What the
   cluster made of it is looked at: one that a webhook let go, or changed, is deleted and the launch refused.
2. ``job.created`` is appended, and only if no ``attempt.ended`` of the attempt is there at that very moment.
3. Only then the job is released, by one patch that may be repeated.

Cut off before 2, the attempt has no job on record: whoever recovers closes it first and deletes the job then, so that
a creator that wakes up is refused at 2 and deletes the job himself. Cut off after 2, the job on record is adopted:
it is never created again, and if it is gone the attempt is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from pretrain_archive.compute.kubernetes.api import ClusterApi, TakenError
from pretrain_archive.compute.kubernetes.launch_compare import essence, first_difference
from pretrain_archive.compute.kubernetes.manifest import JobObjects, freed
from pretrain_archive.compute.kubernetes.names import ATTEMPT_LABEL, RUN_LABEL, TOKEN_LABEL
from pretrain_archive.compute.kubernetes.removal import remove
from pretrain_archive.compute.kubernetes.standing import RELEASED, Job
from pretrain_archive.compute.seen import Writer
from pretrain_archive.domain.errors import (
    AlreadyRecordedError,
    IdempotencyConflictError,
    RefusedError,
    StillRunningError,
    StreamMovedError,
)
from pretrain_archive.domain.kinds import JobCreated, read_payload
from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.canonical import digest_of

OURS = (RUN_LABEL, ATTEMPT_LABEL, TOKEN_LABEL)


def _take_away(
    api: ClusterApi, objects: JobObjects, made: Mapping[str, Any], why: str, *, seconds: float
) -> NoReturn:
    """Delete a job that was not kept back, with what it may have started meanwhile, and refuse the launch."""
    job = Job(
        kind=objects.kind, name=objects.name, namespace=objects.namespace, uid=made["metadata"].get("uid"),
        labels={name: objects.labels[name] for name in OURS}, members=1, queued=False, has_service=False,
    )  # fmt: skip
    gone = remove(api, job, seconds=seconds)
    hint = "See what a cluster needs (docs/kubernetes.md): no LocalQueue called default, no webhook that changes jobs."
    if not gone.verified:
        raise StillRunningError(
            f"{why}, so it is deleted, and {', '.join(gone.left) or objects.name} of namespace {objects.namespace} "
            f"did not go within {seconds:.0f} s.", hint=hint,
        )  # fmt: skip
    raise RefusedError(
        f"no job was started: {objects.kind} {objects.name} did not stay as it was made, and was deleted",
        reasons=(why, *((f"{gone.pods_before} pods had been made",) if gone.pods_before else ())), hint=hint,
    )  # fmt: skip


def job_of(created: JobCreated, *, queued: bool) -> Job:
    """The job that a record names."""
    labels = created.manifest["metadata"].get("labels") or {}
    spec = created.manifest.get("spec") or {}
    members = spec.get("parallelism") or (spec.get("trainer") or {}).get("numNodes") or 1
    return Job(
        kind=created.object_kind, name=created.name, namespace=created.namespace, uid=created.uid,
        labels={name: labels[name] for name in OURS if name in labels}, members=int(members), queued=queued,
        has_service=created.object_kind == "Job" and int(members) > 1,
    )  # fmt: skip


def recorded_job(writer: Writer) -> Record | None:
    """The record of the attempt's job, None if there is none."""
    records = writer.ledger.records(streams=[writer.run_uid], kinds=["job.created"])
    return next((record for record in records if record.attempt == writer.attempt), None)


def create_suspended(api: ClusterApi, objects: JobObjects, *, seconds: float = 60.0) -> dict[str, Any]:
    """Create the job, or take the one of that name if it is exactly this one, suspended and never released.

    :class:`RefusedError` names what another one differs in; such a job is left alone. One that the cluster
    let go by itself is deleted first; ``StillRunningError`` if something of it does not go within ``seconds``.
    """
    for _ in range(3):
        try:
            made = api.create(objects.kind, objects.namespace, objects.job)
        except TakenError:
            there = api.read(objects.kind, objects.namespace, objects.name)
        else:
            if why := freed(made) or first_difference(essence(objects.job), essence(made)):
                _take_away(api, objects, made, why, seconds=seconds)
            return made
        if there is None or "deletionTimestamp" in there["metadata"]:
            continue
        released = RELEASED in (there["metadata"].get("annotations") or {})
        where = first_difference(objects.job, there)
        held = {**there, "spec": {**(there.get("spec") or {}), "suspend": True}}
        if not released and (why := freed(there)) and not first_difference(objects.job, held):
            _take_away(api, objects, there, why, seconds=seconds)
        if where or released:
            raise RefusedError(
                f"no job was started: {objects.kind} {objects.name} is there already and is not this launch",
                reasons=(where or "it was released before",),
                hint="Look who made it, delete it, and launch again: the next attempt takes a new token.",
            )
        return there
    raise RefusedError(
        f"no job was started: {objects.kind} {objects.name} is being deleted",
        hint="Launch again: the next attempt takes a new token.",
    )


def record_job(
    writer: Writer, objects: JobObjects, created: Mapping[str, Any], *, api: ClusterApi, refused: Sequence[str]
) -> Record:  # fmt: skip
    """Append ``job.created`` unless the attempt has ended: :class:`RefusedError` then, and nothing is written."""
    payload = JobCreated(
        attempt=writer.attempt, object_kind="TrainJob" if objects.kind == "TrainJob" else "Job", name=objects.name,
        namespace=objects.namespace, uid=created["metadata"].get("uid"), manifest=objects.job,
        cluster=str(getattr(api, "server", "")),
        manifest_digest=digest_of(objects.job), requested=objects.requested,
        resume_refused=list(refused),
    )  # fmt: skip
    key = f"job/{writer.run_uid}/{writer.attempt}"
    while True:
        newest, known = _seen(writer)
        if known is not None:
            return _same(known, payload)
        draft = writer.draft(payload, 0, unique=key, follows=newest)
        try:
            return writer.ledger.append([draft])[0]
        except StreamMovedError:
            continue
        except (AlreadyRecordedError, IdempotencyConflictError):
            known = recorded_job(writer)
            if known is None:
                raise
            return _same(known, payload)


def _seen(writer: Writer) -> tuple[int, Record | None]:
    """The newest sequence of the run, and the attempt's job; refuses where the attempt has ended."""
    newest, job = -1, None
    for record in writer.ledger.records(streams=[writer.run_uid]):
        newest = record.sequence
        if record.attempt != writer.attempt:
            continue
        if record.kind == "attempt.ended":
            raise RefusedError(
                f"no job was started: attempt {writer.attempt} was closed meanwhile",
                reasons=(str(record.payload.get("reason", "")),),
                hint="Launch again: the next attempt takes a new token.",
            )
        if record.kind == "job.created":
            job = record
    return newest, job


def _same(known: Record, payload: JobCreated) -> Record:
    """Another process was first: its record must be of the very same job."""
    there = read_payload(known, JobCreated)
    if (there.name, there.uid) != (payload.name, payload.uid):
        raise RefusedError(
            f"no job was started: attempt {payload.attempt} has another job on record",
            reasons=(f"on record is {there.name} ({there.uid}), created was {payload.name} ({payload.uid})",),
        )
    return known


def make_service(api: ClusterApi, objects: JobObjects, job: Job) -> None:
    """The members' names: owned by the job, so that the service goes with it."""
    if objects.service is None or api.read("Service", objects.namespace, objects.name) is not None:
        return
    owner = {
        "apiVersion": objects.job["apiVersion"], "kind": objects.kind, "name": objects.name, "uid": job.uid,
    }  # fmt: skip
    metadata = {**objects.service["metadata"], "ownerReferences": [owner]}
    with suppress(TakenError):
        api.create("Service", objects.namespace, {**objects.service, "metadata": metadata})


def release(api: ClusterApi, job: Job, patch: Mapping[str, Any]) -> bool:
    """Let the job go; False if it is not there. The patch names the job's uid: another one is never released."""
    metadata = dict(patch.get("metadata") or {})
    annotations = {**(metadata.get("annotations") or {}), RELEASED: "true"}
    whole = {
        **patch,
        "metadata": {**metadata, "annotations": annotations, **({"uid": job.uid} if job.uid else {})},
    }
    found = api.read(job.kind, job.namespace, job.name)
    if found is None or "deletionTimestamp" in found["metadata"]:
        return False
    if job.uid and found["metadata"].get("uid") != job.uid:
        return False
    if RELEASED in (found["metadata"].get("annotations") or {}):
        return True
    return api.patch(job.kind, job.namespace, job.name, whole) is not None
