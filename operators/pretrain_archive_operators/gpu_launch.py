"""Start the training program of a run, fail-closed, on this machine or on a cluster."""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import ResumableJobMixin
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from pretrain_archive.domain.errors import ArchiveError, ClusterUnavailableError, LedgerUnavailableError
from pretrain_archive_operators.base import RunOperator, small_json
from pretrain_archive_operators.links import DossierLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pretrain_archive.compute.kubernetes.launch import KubernetesLaunch
    from pretrain_archive.compute.local import LocalLaunch
    from pretrain_archive.domain.kinds import AttemptEnded
    from pretrain_archive.services.launch_bench import Bench
    from pretrain_archive.services.launching import Begun

TARGETS = ("local", "kubernetes")
ASKED = "the task was asked to end"
NEWS = {
    "ended": "it ended", "members": "its pods changed", "wait": "why it waits changed",
    "visit": "time for a look", "away": "the cluster does not answer",
}  # fmt: skip
"""Why the trigger fired, in words."""


class GpuLaunchOperator(ResumableJobMixin, RunOperator):
    """Consume a launch token that is derived from the ledger, run the program, and record how it ended.

    Whether the gate task looks successful is not asked: without a fresh approval in the ledger nothing starts, and
    the error names what is missing or stale. A try after a lost one resumes from the last verified checkpoint as
    the next attempt. The task succeeds only if the program completed.

    Where to launch stands in the policy that was recorded with the run. On a cluster there is one job per token;
    a later try follows the job that is there. The task defers while the job waits and runs, and a worker is
    occupied only for short visits, which bring the evidence into the ledger and judge the stop rules.

    :param target: confirms the policy's target (``local`` or ``kubernetes``) and cannot change it.
    :param deferrable: False holds the worker until the job ended; a lost worker's next try reconnects.
    :param visit_seconds: how long a deferred task leaves its job without a visit.
    """

    operator_extra_links = (DossierLink(),)
    external_id_key = "pretrain_archive_job"

    def __init__(
        self,
        *,
        target: str | None = None,
        deferrable: bool = True,
        visit_seconds: float = 120.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if target is not None and target not in TARGETS:
            raise ValueError(f"target must be one of {', '.join(TARGETS)}, got {target!r}")
        if not visit_seconds > 0:
            raise ValueError(f"visit_seconds must be above 0, got {visit_seconds!r}")
        self.target, self.deferrable, self.visit_seconds = target, deferrable, visit_seconds
        self._job: LocalLaunch | KubernetesLaunch | None = None
        self._begun: Begun | None = None
        self._ended = False

    # -- the task --------------------------------------------------------------------------------------

    def execute(self, context: Context) -> dict[str, Any]:
        """Return ``attempt, state, scope, last_step, last_checkpoint_step, seconds``; raise unless it completed."""
        from pretrain_archive.services.launch_follow import on_cluster  # noqa: PLC0415 (heavy)

        try:
            if not self.deferrable and on_cluster(self.ledger, self.caller(context), str(self.run_uid)):
                return dict(self.execute_resumable(context))
            begun = self._begin(context)
            if begun.cluster is not None:
                return self._look_after(context, begun.cluster, self._trigger_of(context, begun.cluster))
            return self._done(context, self._run(context, begun))
        except ArchiveError as error:
            raise self.end_failed(context, error, str(self.run_uid)) from error

    def visit(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look after the job for a few seconds; defer again unless it ended. Called when the trigger fired."""
        from pretrain_archive.services.launch_follow import follow  # noqa: PLC0415 (heavy)

        trigger = dict(event["trigger"])
        news = str(event["news"])
        self.log.info("visit %s to job %s: %s", trigger["visits"], trigger["name"], NEWS.get(news, news))
        try:
            try:
                found = follow(
                    self.ledger, self.caller(context), str(self.run_uid), self.bench,
                    log_offset=trigger["log_offset"],
                )  # fmt: skip
            except LedgerUnavailableError as error:
                self._wait_for_ledger(trigger, error)
                raise
            if found.job is None:
                assert found.ended is not None
                return self._done(context, found.ended)
            self._hold(found.job)
            return self._look_after(context, found.job, trigger)
        except ArchiveError as error:
            raise self.end_failed(context, error, str(self.run_uid)) from error

    def _look_after(self, context: Context, job: KubernetesLaunch, trigger: dict[str, Any]) -> dict[str, Any]:
        """One visit. A cluster or a ledger that does not answer is waited for: the job goes on without them."""
        from pretrain_archive.services.launch_follow import finish  # noqa: PLC0415 (heavy)

        try:
            standing = job.visit()
            trigger |= {"log_offset": job.log_offset}
            if standing.state == "ended" or self._ended:
                return self._done(context, finish(self.ledger, self.caller(context), job))
            if job.watch.failing_since is None:
                trigger |= {"failing_since": None}
            else:
                self._wait_for_ledger(trigger, LedgerUnavailableError("evidence could not be written"))
        except ClusterUnavailableError as error:
            if self._ended:
                raise
            self.log.warning("the cluster does not answer, the job goes on by itself: %s", error)
        except LedgerUnavailableError as error:
            self._wait_for_ledger(trigger, error)
            raise
        return self._defer(trigger)

    def _wait_for_ledger(self, trigger: dict[str, Any], error: LedgerUnavailableError) -> None:
        """Come back soon, unless evidence could not be written for so long that the job has to be stopped."""
        from pretrain_archive.services.launch_follow import evidence_lost, stop_unwritten  # noqa: PLC0415 (heavy)
        from pretrain_archive_operators.cluster import open_cluster  # noqa: PLC0415

        if self._ended:
            return
        fired = evidence_lost(trigger)
        if fired is None:
            self.log.warning("the ledger does not answer, the job goes on for now: %s", error)
            self._defer(trigger)
        self.log.error("the job is stopped: %s", fired)
        stop_unwritten(open_cluster, self.bench.runs_folder, trigger, fired)

    def _trigger_of(self, context: Context, job: KubernetesLaunch) -> dict[str, Any]:
        """What a trigger needs to follow the job; with the next one it changes in what was seen."""
        cluster, followed = job.cluster, job.job
        assert followed is not None
        return {
            "connection": cluster.connection, "namespace": followed.namespace, "name": followed.name,
            "object_kind": followed.kind, "queued": followed.queued, "run_uid": job.spec.run_uid,
            "attempt": job.spec.attempt, "origin": asdict(self.caller(context).origin), "seen": {}, "visits": 0,
            "visit_seconds": self.visit_seconds, "start_seconds": cluster.start_minutes * 60,
            "log_offset": 0, "failing_since": None,
        }  # fmt: skip

    def _defer(self, trigger: dict[str, Any]) -> NoReturn:
        from pretrain_archive_operators.launch_trigger import LaunchTrigger  # noqa: PLC0415 (triggerer's module)

        self.defer(trigger=LaunchTrigger(**trigger), method_name="visit")
        raise AssertionError("deferring raises")

    def _run(self, context: Context, begun: Begun) -> AttemptEnded:
        from pretrain_archive.services.launch_follow import run_to_end  # noqa: PLC0415 (heavy)

        return run_to_end(self.ledger, self.caller(context), str(self.run_uid), begun)

    def _begin(self, context: Context) -> Begun:
        from pretrain_archive.services.launching import begin  # noqa: PLC0415 (heavy)

        begun = begin(
            self.ledger, self.caller(context), str(self.run_uid), self.bench, target=self.target,
            asked_to_end=lambda: self._ended,
        )  # fmt: skip
        if (job := begun.local or begun.cluster) is not None:
            self._hold(job)
        return begun

    @cached_property
    def bench(self) -> Bench:
        """What a launch works with, by the settings; tests assign their own."""
        from pretrain_archive_operators.cluster import launch_bench  # noqa: PLC0415 (heavy)

        return launch_bench(self.store)

    def _hold(self, job: LocalLaunch | KubernetesLaunch) -> None:
        """Keep the job for :meth:`on_kill`; a signal that came before it ends it before it starts."""
        self._job = job
        if self._ended:
            job.kill(ASKED)

    def _done(self, context: Context, ended: AttemptEnded) -> dict[str, Any]:
        if ended.state != "completed":
            raise self._not_completed(context, ended, str(self.run_uid))
        self.log.info("attempt %s completed at step %s after %.0f s: %s", ended.attempt, ended.last_step,
                      ended.seconds or 0, ended.reason)  # fmt: skip
        from pretrain_archive.services.launch_follow import scope_at  # noqa: PLC0415 (heavy)

        return small_json(
            {
                "attempt": ended.attempt,
                "state": ended.state,
                "scope": scope_at(self.ledger, self.caller(context), str(self.run_uid)),
                "last_step": ended.last_step,
                "last_checkpoint_step": ended.last_checkpoint_step,
                "seconds": ended.seconds,
            }
        )

    def _not_completed(self, context: Context, ended: AttemptEnded, run_uid: str) -> Exception:
        """What a person has to look at ends the run; anything else may be tried again."""
        from pretrain_archive.services.launch_follow import may_try_again  # noqa: PLC0415 (heavy)

        text = f"attempt {ended.attempt} {ended.state} at step {ended.last_step}: {ended.reason}"
        ti = context["ti"]
        if may_try_again(ended) and ti.try_number <= (ti.max_tries or 0):
            return AirflowException(text)
        error = ArchiveError(
            text, hint="Read the log and the run's page; a retry resumes from the last checkpoint."
        )
        self.end_failed(context, error, run_uid)
        return AirflowFailException(text)

    def on_kill(self) -> None:
        """Ask for the end of the process tree or of the job; the attempt ends as interrupted, never as completed."""
        self._ended = True
        if self._job is not None:
            self._job.kill(ASKED)

    # -- holding the worker: Airflow's mixin keeps the job's name for the next try, the ledger decides ---

    def submit_job(self, context: Context) -> dict[str, Any]:
        """Launch the next attempt, or take the job that is there; a failed one leads on through permission only."""
        self._begun = self._begin(context)
        job, ended = self._begun.cluster, self._begun.ended
        if job is None:
            return {"attempt": ended.attempt if ended else None}
        followed = job.job
        assert followed is not None
        return {"namespace": followed.namespace, "name": followed.name, "attempt": job.spec.attempt}

    def get_job_status(self, external_id: Any, context: Context) -> str:
        """The attempt's state in the ledger: ``open`` or how it ended."""
        from pretrain_archive.services.launch_follow import state_of  # noqa: PLC0415 (heavy)

        return state_of(
            self.ledger, self.caller(context), str(self.run_uid), attempt=(external_id or {}).get("attempt")
        )

    def is_job_active(self, status: str) -> bool:
        """The attempt has no end."""
        return status == "open"

    def is_job_succeeded(self, status: str) -> bool:
        """The attempt completed."""
        return status == "completed"

    def poll_until_complete(self, external_id: Any, context: Context) -> dict[str, Any]:  # type: ignore[override]  # noqa: ARG002
        """Follow the job to its end; return the task's result or raise."""
        begun, self._begun = self._begun or self._begin(context), None
        return self._done(context, self._run(context, begun))

    def get_job_result(self, external_id: Any, context: Context) -> dict[str, Any]:
        """The result of the attempt that ended."""
        from pretrain_archive.services.launch_follow import end_of  # noqa: PLC0415 (heavy)

        ended = end_of(self.ledger, self.caller(context), str(self.run_uid), external_id["attempt"])
        return self._done(context, ended)
