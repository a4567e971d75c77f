"""Run one attempt on a cluster: create its one job, watch, write down, stop, and leave no pod behind.

An object of this class holds nothing that the ledger, the attempt's folder and the cluster do not hold: another
process makes a new one and goes on, and two at once do no harm. What must never happen twice is in ``launch_fence``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from pretrain_archive.compute.ending import Attempt, append_end, ended_payload
from pretrain_archive.compute.ingest import TRANSIENT, OnCheckpoint
from pretrain_archive.compute.intent import check_intent
from pretrain_archive.compute.kubernetes.api import ClusterApi
from pretrain_archive.compute.kubernetes.launch_end import ended_job, judge
from pretrain_archive.compute.kubernetes.launch_facts import Facts
from pretrain_archive.compute.kubernetes.launch_fence import (
    create_suspended,
    job_of,
    make_service,
    record_job,
    recorded_job,
    release,
)
from pretrain_archive.compute.kubernetes.launch_files import lay_out
from pretrain_archive.compute.kubernetes.launch_watch import Watch
from pretrain_archive.compute.kubernetes.manifest import JobObjects, build_objects, release_patch
from pretrain_archive.compute.kubernetes.manifest_pod import END_MARGIN
from pretrain_archive.compute.kubernetes.removal import delete_now, remove
from pretrain_archive.compute.kubernetes.standing import Job, Standing
from pretrain_archive.compute.outcome import Outcome, conclude
from pretrain_archive.compute.seen import Writer
from pretrain_archive.compute.spec import JobSpec
from pretrain_archive.domain.errors import (
    ArchiveError,
    ClusterUnavailableError,
    InputError,
    RefusedError,
    StillRunningError,
)
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.kinds import AttemptEnded, JobCreated, JobRemoved, LaunchIntended, read_payload
from pretrain_archive.domain.policy_compute import Kubernetes
from pretrain_archive.domain.records import Actor, Origin, Record
from pretrain_archive.ledger.port import Ledger

log = logging.getLogger(__name__)

VISIT_SECONDS = 2.0
AWAY_SECONDS = 900.0
"""How long :meth:`KubernetesLaunch.run` goes on watching the files alone while the cluster does not answer."""
SETTLE_SECONDS = 10.0
"""How long a job that succeeded is waited for to show its last lines: a network file system has caches."""
ABSENCE_SECONDS = 60.0
"""How long pods may take to disappear after their grace time."""

Progress = Callable[[str], None]
ShouldStop = Callable[[], str]


def utc() -> datetime:
    """Now."""
    return datetime.now(UTC)


class KubernetesLaunch:
    """One attempt as one job. :meth:`create` or :meth:`adopt`, then :meth:`visit` until it ended, then :meth:`end`.

    ``log_offset`` is how much of worker 0's log an earlier visitor has shown.
    """

    def __init__(
        self, spec: JobSpec, *, intent: Record, cluster: Kubernetes, api: ClusterApi, ledger: Ledger, actor: Actor,
        origin: Origin, on_checkpoint: OnCheckpoint, progress: Progress = log.info,
        should_stop: ShouldStop = lambda: "", evidence_seconds: float = 120.0, log_offset: int = 0,
        clock: Callable[[], datetime] = utc, sleep: Callable[[float], None] = time.sleep,
        absence_seconds: float | None = None,
    ) -> None:  # fmt: skip
        self.spec, self.intent, self.cluster, self.api = spec, intent, cluster, api
        self.writer = Writer(
            ledger=ledger, run_uid=spec.run_uid, attempt=spec.attempt, actor=actor, origin=origin
        )
        self.progress, self.should_stop = progress, should_stop
        self.clock, self.sleep = clock, sleep
        self.absence_seconds = absence_seconds or cluster.grace_seconds + END_MARGIN + ABSENCE_SECONDS
        self.killed = ""
        self.job: Job | None = None
        self.record: Record | None = None
        self.standing: Standing | None = None
        self.watch = Watch(
            spec, writer=self.writer, cluster=cluster, on_checkpoint=on_checkpoint, progress=progress,
            evidence_seconds=evidence_seconds, log_offset=log_offset,
        )  # fmt: skip

    @property
    def log_offset(self) -> int:
        """How much of worker 0's log was shown."""
        return self.watch.tail.offset

    @property
    def facts(self) -> Facts:
        """What is on record."""
        return self.watch.facts

    # -- create and adopt ------------------------------------------------------------------------------

    def create(self) -> Record:
        """Create the job, record it, release it; return ``job.created``. Called again, it goes on where it was.

        Raises ``RefusedError`` if the attempt was closed meanwhile or a job of this name is not this one, and
        ``InputError`` for what the cluster refuses: then the attempt has an end that says so. After
        ``ClusterUnavailableError`` or ``LedgerUnavailableError`` nothing runs that is not on record.
        """
        if (known := recorded_job(self.writer)) is not None:
            self.facts.reload()
            if self.facts.ended is not None:
                raise RefusedError(
                    f"no job was started: attempt {self.spec.attempt} has ended",
                    reasons=(self.facts.ended.reason,),
                    hint="A launch token starts one job once; consume a new one for the next attempt.",
                )
            return self.adopt(known)
        check_intent(self.spec, self.intent, self.writer.ledger)
        intended = read_payload(self.intent, LaunchIntended)
        if intended.target != "kubernetes":
            raise RefusedError(f"no job was started: the launch token is for the target {intended.target!r}")
        try:
            objects = build_objects(self.spec, self.cluster, token_digest=intended.token_digest)
            lay_out(self.spec)
            job = create_suspended(self.api, objects, seconds=self.absence_seconds)
        except (InputError, RefusedError) as error:
            if (known := recorded_job(self.writer)) is not None:  # another launcher of this token was first
                return self.adopt(known)
            self._close_unborn(error)
            raise
        try:
            record = record_job(self.writer, objects, job, api=self.api, refused=self.spec.resume_refused)
        except RefusedError:
            self.api.delete(objects.kind, objects.namespace, objects.name, uid=job["metadata"].get("uid"))
            raise
        try:
            return self._let_go(record, objects)
        except InputError as error:
            self.killed = self.killed or f"the job could not be released: {error}"
            self.end()
            raise

    def adopt(self, record: Record) -> Record:
        """Go on with the job that ``record`` (``job.created``) names; it is released if it never was."""
        created = read_payload(record, JobCreated)
        if record.attempt != self.spec.attempt or record.stream != self.spec.run_uid:
            raise RefusedError(f"job {created.name} belongs to {record.stream} attempt {record.attempt}")
        self.record, self.job = record, job_of(created, queued=bool(self.cluster.queue))
        self.facts.reload()
        self.killed = self.killed or self.should_stop()
        if self.facts.ended is None and not self.killed:
            release(self.api, self.job, release_patch(self.cluster))
        return record

    def _let_go(self, record: Record, objects: JobObjects) -> Record:
        created = read_payload(record, JobCreated)
        self.record, self.job = record, job_of(created, queued=bool(self.cluster.queue))
        self.progress(f"job {created.name} is on record in namespace {created.namespace}")
        make_service(self.api, objects, self.job)
        if not self.killed:
            release(self.api, self.job, objects.release_patch)
        if self.killed:  # asked to end between the lines above
            delete_now(self.api, self.job)
        return record

    def _close_unborn(self, error: ArchiveError) -> None:
        """The token is consumed and there is no job: the attempt has an end, and it is known why."""
        outcome = Outcome(state="failed", reason=f"no job was created: {error}")
        payload = ended_payload(self._attempt(), outcome, self.watch.ingest, self.watch.tail)
        try:
            append_end(self.writer, payload, unless="job.created")
        except (*TRANSIENT, StillRunningError) as second:
            log.warning("the attempt's end could not be written; the next try does it: %s", second)

    # -- visit -----------------------------------------------------------------------------------------

    def visit(self) -> Standing:
        """Look once, write down what is new, and say how the attempt stands.

        Raises ``ClusterUnavailableError``; a ledger that cannot be reached is noticed, not raised, until the rule
        about evidence stops the job. The files are read also while the cluster does not answer.
        """
        job = self._job()
        if job is None:
            return Standing(state="ended", why="the attempt has no job on record", gone=True)
        self.killed = self.killed or self.should_stop()
        self.standing = self.watch.visit(self.api, job, killed=self.killed, now=self.clock)
        if self.watch.unreleased and not self.killed and self.standing.state != "ended":
            release(self.api, job, release_patch(self.cluster))
        return self.standing

    def _job(self) -> Job | None:
        if self.job is None and (known := recorded_job(self.writer)) is not None:
            self.record = known
            self.job = job_of(read_payload(known, JobCreated), queued=bool(self.cluster.queue))
        return self.job

    def run(self) -> AttemptEnded:
        """Visit until the attempt ended and return how, as the ledger holds it; creates the job if there is none."""
        if self._job() is None:
            self.create()
        away: float | None = None
        while True:
            try:
                standing, away = self.visit(), None
                if standing.state == "ended":
                    return self.end()
            except ClusterUnavailableError as error:
                away = away or time.monotonic()
                if time.monotonic() - away > AWAY_SECONDS:
                    raise
                self.progress(f"the cluster does not answer, the job goes on by itself: {error}")
            self.sleep(VISIT_SECONDS)

    def kill(self, reason: str = "the task was asked to end") -> None:
        """Ask the cluster for the end of everything and return; :meth:`end` then proves it and writes it down."""
        self.killed = self.killed or reason
        if self.job is None:
            return
        try:
            delete_now(self.api, self.job)
        except ArchiveError as error:
            log.warning("the job could not be deleted now, its end does it: %s", error)

    # -- end -------------------------------------------------------------------------------------------

    def end(self) -> AttemptEnded:
        """Judge the attempt, take the job away, prove that no pod is left, and append the end. May be repeated.

        A job that still runs is ended. Raises ``StillRunningError`` naming the pods that are left after a bounded
        wait: the attempt then stays open, so that nothing starts beside them, and a later call goes on.
        """
        if self.facts.ended is not None:
            return self.facts.ended
        job = self._job()
        if job is None:
            raise RefusedError(
                f"attempt {self.spec.attempt} has no job on record: it is closed as lost instead"
            )
        standing = self.standing if self.standing and self.standing.state == "ended" else self.visit()
        self._remove(job, standing)
        succeeded = standing.verdict is not None and standing.verdict.succeeded
        self.watch.settle(SETTLE_SECONDS if succeeded else 0, at=self.clock(), sleep=self.sleep)
        return self._append(standing)

    def _remove(self, job: Job, standing: Standing) -> None:
        if self.facts.removed is not None and self.facts.removed.verified_absent:
            return
        why, verdict = self.killed or standing.why or "the attempt is over", standing.verdict
        if verdict is not None and verdict.terminal and not standing.gone:
            self.facts.end(ended_job(job, verdict, attempt=self.spec.attempt, at=format_time(self.clock())))
        removal = remove(
            self.api, job, seconds=self.absence_seconds, sleep=self.sleep,
            on_pods=lambda pods: self.watch.observe(pods, at=self.clock(), removing=True),
        )  # fmt: skip
        self.facts.remove(JobRemoved(
            attempt=self.spec.attempt, name=job.name, namespace=job.namespace, reason=why[:2000],
            pods_before=removal.pods_before, pods_left=list(removal.left), verified_absent=removal.verified,
            at=format_time(self.clock()),
        ))  # fmt: skip
        if not removal.verified:
            left = ", ".join(removal.left[:10]) or f"the {job.kind} itself"
            raise StillRunningError(
                f"attempt {self.spec.attempt} of run {self.spec.run_uid} is not over: {left} of namespace "
                f"{job.namespace} did not go within {self.absence_seconds:.0f} s.",
                hint="A pod of a node that is lost stays until the node is removed, or the pod is deleted by force "
                "(kubectl delete pod --force) by somebody who knows that nothing of it runs; then run the task again.",
            )

    def _append(self, standing: Standing) -> AttemptEnded:
        watch = self.watch
        outcome = conclude(
            watch.seen, target_steps=self.spec.target_steps, fired=standing.stop, killed=self.killed,
            checkpoint_every=self.spec.checkpoint_every,
        )  # fmt: skip
        ending = judge(outcome, standing, killed=self.killed)
        payload = ended_payload(self._attempt(), ending.outcome, watch.ingest, watch.tail)
        requested = read_payload(self.record, JobCreated).requested if self.record else {}
        per_node = requested.get("accelerators_per_node")
        held = self.facts.allocated_seconds(self.clock())
        payload = payload.model_copy(update={
            "exit_class": ending.exit_class, "counted": ending.counted,
            "accelerator_seconds": round(held * per_node, 3) if isinstance(per_node, int) else None,
        })  # fmt: skip
        summary = watch.ingest.summary()
        return append_end(self.writer, payload, before=[summary] if summary else [])

    def _attempt(self) -> Attempt:
        return Attempt(
            attempt=self.spec.attempt, accelerators=self.spec.budget.accelerators, resume_step=self.spec.resume_step,
            target_steps=self.spec.target_steps, checkpoint_every=self.spec.checkpoint_every,
        )  # fmt: skip
