"""End the jobs on clusters that no DAG run follows any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive_operators.base import ArchiveTask, small_json
from pretrain_archive_operators.cluster import launch_bench

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pretrain_archive.domain.records import Origin
    from pretrain_archive.services.launch_settle import DagRunState

ACTIVE = ["queued", "running"]
MOST_NAMED = 5


class UnfollowedJobsOperator(ArchiveTask, BaseOperator):
    """Delete jobs whose DAG run is over or was deleted, prove that no pod is left, and record the attempts' ends.

    What a task, a trigger or the DAG run's own clean-up left behind. A DAG run that this Airflow does not know may
    be another one's: its job is left alone until its budget and a day have passed.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Return ``settled`` (how many) and ``runs``; raise, to be tried again, while a run could not be settled."""
        from pretrain_archive.services.launch_settle import settle_unfollowed  # noqa: PLC0415 (heavy)

        ti: Any = context["ti"]

        def state_of(origin: Origin) -> DagRunState:
            named = {"dag_id": origin.dag_id, "run_ids": [origin.dag_run_id]}
            if ti.get_dr_count(**named, states=ACTIVE):
                return "active"
            return "over" if ti.get_dr_count(**named) else "unknown"

        try:
            settled, faults = settle_unfollowed(
                self.ledger, self.caller(context), launch_bench(self.store), state_of=state_of
            )
        except ArchiveError as error:
            raise self.end_failed(context, error, None) from error
        self.log.info("%d jobs that nobody followed were ended", len(settled))
        if faults:
            raise AirflowException(f"{len(faults)} jobs could not be ended: {'; '.join(faults[:MOST_NAMED])}")
        return small_json({"settled": len(settled), "runs": settled[:MOST_NAMED]})
