"""Start the training program of a run, fail-closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive_operators.base import RunOperator, small_json
from pretrain_archive_operators.links import DossierLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pretrain_archive.compute.local import LocalLaunch
    from pretrain_archive.domain.kinds import AttemptEnded

TARGETS = ("local",)


class GpuLaunchOperator(RunOperator):
    """Consume a launch token that is derived from the ledger, run the program, and record how it ended.

    Whether the gate task looks successful is not asked: without a fresh approval in the ledger no process
    starts, and the error names what is missing or stale. A try after a lost one resumes from the last verified
    checkpoint as the next attempt. The task succeeds only if the program completed.

    :param target: where to launch; ``local`` is a process tree of the worker.
    """

    operator_extra_links = (DossierLink(),)

    def __init__(self, *, target: str = "local", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if target not in TARGETS:
            raise ValueError(f"target must be one of {', '.join(TARGETS)}, got {target!r}")
        self.target = target
        self._job: LocalLaunch | None = None
        self._ended = False

    def execute(self, context: Context) -> dict[str, Any]:
        """Return ``attempt, state, last_step, last_checkpoint_step, seconds``; raise unless it completed."""
        from pretrain_archive.services.launching import Bench, launch  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.wiring import policy, runs_folder  # noqa: PLC0415

        bench = Bench(store=self.store, policies=policy, runs_folder=runs_folder())
        run_uid = str(self.run_uid)
        try:
            ended = launch(
                self.ledger,
                self.caller(context),
                run_uid,
                bench,
                hold=self._hold,
                asked_to_end=lambda: self._ended,
            )
        except ArchiveError as error:
            raise self.end_failed(context, error, run_uid) from error
        if ended.state != "completed":
            raise self._not_completed(context, ended, run_uid)
        return small_json(
            {
                "attempt": ended.attempt,
                "state": ended.state,
                "last_step": ended.last_step,
                "last_checkpoint_step": ended.last_checkpoint_step,
                "seconds": ended.seconds,
            }
        )

    def _hold(self, job: LocalLaunch) -> None:
        """Keep the job for :meth:`on_kill`; a signal that came before it ends it before it starts."""
        self._job = job
        if self._ended:
            job.kill()

    def _not_completed(self, context: Context, ended: AttemptEnded, run_uid: str) -> Exception:
        """A stop rule ends the run for a person to look at; anything else may be tried again."""
        text = f"attempt {ended.attempt} {ended.state} at step {ended.last_step}: {ended.reason}"
        ti = context["ti"]
        if ended.state != "stopped" and ti.try_number <= (ti.max_tries or 0):
            return AirflowException(text)
        error = ArchiveError(
            text, hint="Read the log and the run's page; a retry resumes from the last checkpoint."
        )
        self.end_failed(context, error, run_uid)
        return AirflowFailException(text)

    def on_kill(self) -> None:
        """End the whole process tree; the attempt ends as interrupted, never as completed."""
        self._ended = True
        if self._job is not None:
            self._job.kill()
