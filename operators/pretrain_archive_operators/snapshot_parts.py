"""Snapshot a large source in parts: plan, one mapped task per part, merge.

In a DAG::

    PLAN = "{{ ti.xcom_pull(task_ids='plan', key='plan') }}"
    plan = SnapshotPlanOperator(task_id="plan", parts=32)
    parts = SnapshotPartOperator.partial(task_id="part", plan=PLAN).expand(part=plan.output)
    parts >> SnapshotMergeOperator(task_id="merge", plan=PLAN)

Within a run each takes ``run_uid`` too. The digest is the same for any number of parts, and as from
``DataSnapshotOperator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pretrain_archive_operators.base import ArchiveOperator
from pretrain_archive_operators.data_snapshot import summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from pretrain_archive.services.caller import Caller

BOUND = 200
"""Characters of a path that are shown in XCom; the plan in the store holds it whole."""


class SnapshotPlanOperator(ArchiveOperator):
    """List the source once and cut the listing into parts of about the same work.

    The listing is kept in the store, not in XCom. An empty source ends the task: there is no plan with nothing to do.

    :param parts: how many parts at most, a number or a template; :param request: outside of a run, what the form
        says of ``name, source, mode, include, exclude``; by default the DAG run's params.
    """

    template_fields = ("run_uid", "parts", "request")

    def __init__(
        self, *, parts: int | str = 8, request: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.parts = parts
        self.request = request

    def execute(self, context: Context) -> Any:
        """Return the numbers of the parts, to map over; ``plan``, ``files`` and ``bytes`` are XComs of their own.

        Airflow maps over return values only.
        """
        if self.request is None and self.run_uid is None:
            self.request = dict(context["params"])
        done = super().execute(context)
        parts = done.pop("parts")
        for key, value in done.items():
            context["ti"].xcom_push(key=key, value=value)
        return parts

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Return ``plan, parts, files, bytes``; ``parts`` are numbers from 1."""
        from pretrain_archive.domain.errors import InputError  # noqa: PLC0415
        from pretrain_archive.services import snapshotting  # noqa: PLC0415 (heavy)

        try:
            parts = int(self.parts)
        except ValueError:
            raise InputError("parts", str(self.parts), "not a number") from None
        if self.run_uid is None:
            wanted = snapshotting.wanted_by_form(self.request or {})
        else:
            wanted = snapshotting.wanted_by_run(self.ledger, caller, run_uid)
        plan = snapshotting.plan_parts(self.ledger, self.store, caller, wanted, parts=parts)
        numbers = [part.number for part in plan.parts]
        return {"plan": plan.name, "parts": numbers, "files": plan.files, "bytes": plan.size}


class SnapshotPartOperator(ArchiveOperator):
    """Hash one part of a plan, and keep its bytes in copy mode.

    A try that was killed goes on after the last piece it left; a part that is done is not read again.

    :param plan: the plan's name; :param part: the number of the part: map over it with ``expand``.
    """

    template_fields = ("run_uid", "plan", "part")

    def __init__(
        self, *, plan: str, part: int, map_index_template: str = "part {{ task.part }}", **kwargs: Any
    ) -> None:
        super().__init__(map_index_template=map_index_template, **kwargs)
        self.plan = plan
        self.part = part

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:  # noqa: ARG002 - the plan names its run
        """Return ``part, files, bytes, first, last, steps, found``."""
        from pretrain_archive.services.snapshotting import make_part  # noqa: PLC0415 (heavy)

        done = make_part(self.store, caller, str(self.plan), int(self.part))
        return {
            "part": done.part.number,
            "files": done.part.files,
            "bytes": done.part.size,
            "first": done.part.first[:BOUND],
            "last": done.part.last[:BOUND],
            "steps": done.steps,
            "found": done.found,
        }


class SnapshotMergeOperator(ArchiveOperator):
    """Merge the parts into the next version, once all are there and the source is still as it was listed.

    What the plan left in the store is dropped, with a record.

    :param plan: the plan's name.
    """

    template_fields = ("run_uid", "plan")

    def __init__(self, *, plan: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan = plan

    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:  # noqa: ARG002 - the plan names its run
        """Return what ``DataSnapshotOperator`` returns."""
        from pretrain_archive.services.snapshotting import merge  # noqa: PLC0415 (heavy)

        made, split = merge(self.ledger, self.store, caller, str(self.plan))
        return summary(made, split)
