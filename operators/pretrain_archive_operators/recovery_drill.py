"""Prove that a run recovers, before it has to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk.exceptions import AirflowFailException

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive_operators.base import RunOperator, small_json
from pretrain_archive_operators.cluster import launch_bench

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pretrain_archive.compute.local import LocalLaunch
    from pretrain_archive.services.drill_faults import Fault


class RecoveryDrillOperator(RunOperator):
    """Run a job of several workers, injure it, and file what followed; fails where anything did not hold.

    The job goes through the real launch as an exploration under the ceiling of its project's policy.

    :param inject: ``worker_exit``, ``worker_frozen``, ``node_lost`` or ``network_cut``.
    :param program: folder of the training program, with ``nodes.py``.
    :param project: the project whose policy allows the drill.
    :param nodes: agents; ``workers`` of each; ``node`` is hit, at ``at_step``.
    """

    template_fields: tuple[str, ...] = ("inject", "project", "nodes", "workers", "node", "at_step")

    def __init__(
        self, *, inject: str, program: str, project: str = "drill", nodes: int | str = 2, workers: int | str = 2,
        node: int | str = 1, at_step: int | str = 25, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        self.inject, self.program, self.project = inject, program, project
        self.nodes, self.workers, self.node, self.at_step = nodes, workers, node, at_step
        self._job: LocalLaunch | None = None
        self._ended = False

    def execute(self, context: Context) -> dict[str, Any]:
        """Return ``run_uid, injected, passed, checks, boundaries`` (names and verdicts); raise where a check fails.

        Boundaries that no team confirmed are said and fail nothing, as on the command line.
        """
        from pretrain_archive.services.drilling import Plan, drill  # noqa: PLC0415 (heavy)
        from pretrain_archive.services.platform_boundaries import boundaries  # noqa: PLC0415

        try:
            plan = Plan(
                inject=cast("Fault", self.inject), program=Path(self.program), project=self.project,
                nodes=int(self.nodes), workers=int(self.workers), node=int(self.node), at_step=int(self.at_step),
            )  # fmt: skip
            bench = launch_bench(self.store)
            run_uid, filed = drill(self.ledger, self.caller(context), bench, plan, hold=self._hold)
            self.anchor()
            confirmed = boundaries(self.ledger, bench.policies(self.project).policy)
        except ArchiveError as error:
            raise self.end_failed(context, error, None) from error
        for item in confirmed:
            self.log.info("%s %s: %s", item.verdict.value, item.id, item.found or item.hint)
        verdicts = {check["name"]: check["verdict"] for check in filed.checks}
        if not filed.passed:
            gaps = [
                f"{c['name']} {c['verdict']}: {c['found']}"
                for c in filed.checks
                if c["verdict"] != "verified"
            ]
            raise AirflowFailException(f"the drill of run {run_uid} found a gap: {'; '.join(gaps)}")
        return small_json(
            {
                "run_uid": run_uid, "injected": filed.injected, "passed": True, "checks": verdicts,
                "boundaries": {item.id: item.verdict.value for item in confirmed},
            }
        )  # fmt: skip

    def _hold(self, job: LocalLaunch) -> None:
        self._job = job
        if self._ended:
            job.kill()

    def on_kill(self) -> None:
        """End the whole process tree; the drill has not passed."""
        self._ended = True
        if self._job is not None:
            self._job.kill()
