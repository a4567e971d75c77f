"""What every operator shares: the ledger, the store, who calls, and how errors end a task.

An operator reads its inputs, calls one use case of ``pretrain_archive.services`` and returns a small JSON
value; the full record is in the ledger. Nothing heavy is imported before a task runs.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from pretrain_archive.domain.errors import (
    ArchiveError,
    AskedToEndError,
    ClusterUnavailableError,
    EvaluationFailedError,
    LedgerError,
    LedgerUnavailableError,
    SourceChangedError,
    StillRunningError,
    StorageError,
    StreamMovedError,
)
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.services.caller import Caller

if TYPE_CHECKING:
    from airflow.sdk import Context

    from pretrain_archive.ledger.port import Ledger
    from pretrain_archive.storage.port import ObjectStore

XCOM_LIMIT = 8192
"""Bytes of JSON that a task may return (invariant 4): identifiers, digests and a short summary."""

RETRIED = (
    AskedToEndError,
    ClusterUnavailableError,
    EvaluationFailedError,
    LedgerUnavailableError,
    StorageError,
    SourceChangedError,
    StillRunningError,
    StreamMovedError,
)
"""Errors that may pass by themselves; all others end the task at once."""


def small_json(value: dict[str, Any]) -> dict[str, Any]:
    """Return ``value`` if it is strict JSON below :data:`XCOM_LIMIT` bytes, else raise ``ValueError``."""
    size = len(json.dumps(value, allow_nan=False).encode())
    if size >= XCOM_LIMIT:
        raise ValueError(f"a task returns less than {XCOM_LIMIT} bytes of JSON, got {size}")
    return value


class ArchiveTask:
    """Mixed into every operator: collaborators built when a task runs, and the end of a failed task."""

    run_uid: str | None
    log: Any

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger that the settings name; tests assign a fake."""
        from pretrain_archive.services import open_ledger  # noqa: PLC0415 (heavy)

        return open_ledger()

    @cached_property
    def store(self) -> ObjectStore:
        """The object store that the settings name; tests assign a fake."""
        from pretrain_archive.services import open_store  # noqa: PLC0415 (heavy)

        return open_store()

    def caller(self, context: Context) -> Caller:
        """The task try behind this execution, and the person who triggered the DAG run."""
        ti, run = context["ti"], context["dag_run"]
        return Caller(
            origin=Origin(
                dag_id=ti.dag_id,
                dag_run_id=ti.run_id,
                task_id=ti.task_id,
                map_index=ti.map_index if ti.map_index is not None else -1,
                try_number=ti.try_number,
            ),
            actor=Actor(type="task", name=f"{ti.dag_id}.{ti.task_id}"),
            submitter=getattr(run, "triggering_user_name", None),
            say=lambda line: self.log.info("%s", line),
        )

    def anchor(self) -> None:
        """Sign and anchor what this task wrote, where this process holds the key; elsewhere the signer does it.

        A run may wait at a gate for days: what stands then must not wait for the next append (invariant 2).
        """
        try:
            self.ledger.seal()
        except LedgerError as error:
            self.log.info("left to the signer: %s", error)

    def end_failed(self, context: Context, error: ArchiveError, run_uid: str | None) -> Exception:
        """Record why the run failed (unless a retry may mend it) and return what the task raises."""
        ti = context["ti"]
        last_try = ti.try_number > (ti.max_tries or 0)
        if isinstance(error, RETRIED) and not last_try:
            return AirflowException(str(error))
        if run_uid and not isinstance(error, LedgerUnavailableError):
            from pretrain_archive.services.opening import record_failure  # noqa: PLC0415 (heavy)

            try:
                record_failure(self.ledger, self.caller(context), run_uid, error)
            except ArchiveError as second:  # a ledger that takes no records must not hide why the task failed
                self.log.warning("the failure could not be recorded: %s", second)
        return AirflowFailException(f"{error.code}: {error}")


class RunOperator(ArchiveTask, BaseOperator):
    """Base of the operators that work on an open run.

    :param run_uid: the run, usually ``{{ ti.xcom_pull(task_ids='open_run')['run_uid'] }}``; it is checked
        against the ledger, since XCom can be overwritten by hand.
    """

    template_fields: tuple[str, ...] = ("run_uid",)
    ui_color = "#eef4fb"

    def __init__(self, *, run_uid: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run_uid = run_uid


class ArchiveOperator(RunOperator):
    """A :class:`RunOperator` that does one thing and returns a small JSON value."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Call :meth:`work` and return its small JSON value; errors end the task as their kind demands."""
        try:
            done = small_json(self.work(self.caller(context), str(self.run_uid)))
            self.anchor()
        except ArchiveError as error:
            raise self.end_failed(context, error, self.run_uid) from error
        return done

    @abstractmethod
    def work(self, caller: Caller, run_uid: str) -> dict[str, Any]:
        """Do the operator's one thing and return its small JSON value."""
