"""Follow a job on a cluster from the triggerer: many jobs, one watch, no worker slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.services.caller import Caller

if TYPE_CHECKING:
    from pretrain_archive.compute.kubernetes.follow import Follower

FIELDS = (
    "connection", "namespace", "name", "object_kind", "queued", "run_uid", "attempt", "origin", "seen", "visits",
    "visit_seconds", "start_seconds", "log_offset", "failing_since",
)  # fmt: skip


class LaunchTrigger(BaseTrigger):
    """Fires when a visit to the job is due: it ended, waits for another reason, has other members, or time passed.

    The event is ``{"news", "trigger"}``, where ``trigger`` makes the next one: it knows what was seen. All triggers
    of a process share one follower per connection and namespace. When a person ends the task, the job is deleted
    and its attempt gets its end; a restart of the triggerer does neither.

    :param connection: Airflow connection of type kubernetes; :param origin: the task try, as plain JSON.
    :param log_offset: how much of the log was shown; :param failing_since: since when the ledger does not answer.
    """

    def __init__(
        self, *, connection: str, namespace: str, name: str, run_uid: str, attempt: int, origin: dict[str, Any],
        object_kind: str = "Job", queued: bool = False, seen: dict[str, str] | None = None, visits: int = 0,
        visit_seconds: float = 120.0, start_seconds: float = 3600.0, log_offset: int = 0,
        failing_since: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()  # type: ignore[no-untyped-call]
        self.connection, self.namespace, self.name = connection, namespace, name
        self.object_kind, self.queued = object_kind, queued
        self.run_uid, self.attempt, self.origin = run_uid, attempt, origin
        self.seen, self.visits = dict(seen or {}), visits
        self.visit_seconds, self.start_seconds = visit_seconds, start_seconds
        self.log_offset, self.failing_since = log_offset, failing_since

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Everything that makes the trigger again, as plain JSON."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in FIELDS}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait for news and fire once."""
        from pretrain_archive.compute.kubernetes.follow import Target, follower_for  # noqa: PLC0415 (heavy)
        from pretrain_archive.compute.kubernetes.follow_news import Seen, Watcher  # noqa: PLC0415

        target = Target(
            run_uid=self.run_uid, attempt=self.attempt, name=self.name, object_kind=self.object_kind,
            queued=self.queued,
        )  # fmt: skip
        place = (self.connection, self.namespace)
        async with follower_for(place, self._follower) as follower, follower.follow(target) as view:
            watcher = Watcher(
                view=view, seen=Seen(**self.seen), start_limit_seconds=self.start_seconds,
                visit_seconds=self.visit_seconds, visits=self.visits,
            )  # fmt: skip
            news, seen = await watcher.news()
            problem = view.problem
        self.log.info("job %s in %s: %s %s", self.name, self.namespace, news, problem)
        again = self.serialize()[1] | {"seen": seen.to_json(), "visits": self.visits + 1}
        yield TriggerEvent({"news": news, "trigger": again})  # type: ignore[no-untyped-call]

    def _follower(self) -> Follower:
        from pretrain_archive.compute.kubernetes.follow import Follower  # noqa: PLC0415 (heavy)
        from pretrain_archive_operators.cluster import connect  # noqa: PLC0415

        return Follower(
            lambda: connect(self.connection), namespace=self.namespace,
            name=f"{self.connection}/{self.namespace}",
        )  # fmt: skip

    async def on_kill(self) -> None:
        """A person ended the deferred task: delete the job, prove that no pod is left, record the attempt's end.

        In a thread, which goes on should Airflow's time for it run out. What cannot be done now is done by the next
        try or by the clean-up of the DAG run.
        """
        await asyncio.to_thread(self.settle)

    def settle(self) -> None:
        """The work of :meth:`on_kill`; the job goes first, since it costs, and without the ledger if need be."""
        from pretrain_archive.domain.policy_compute import Kubernetes  # noqa: PLC0415 (heavy)
        from pretrain_archive_operators.cluster import launch_bench, open_cluster  # noqa: PLC0415

        reason = "a person ended the task while it waited for its job"
        cluster = Kubernetes(connection=self.connection, namespace=self.namespace)
        try:
            open_cluster(cluster).delete(self.object_kind, self.namespace, self.name, foreground=True)
        except ArchiveError as error:
            self.log.warning("job %s could not be deleted now: %s", self.name, error)
        try:
            from pretrain_archive.services import open_ledger  # noqa: PLC0415
            from pretrain_archive.services.launch_settle import settle_removed  # noqa: PLC0415

            settle_removed(open_ledger(), self._caller(), self.run_uid, launch_bench(), reason=reason)
        except ArchiveError as error:
            self.log.warning("the end of attempt %s is left to the clean-up: %s", self.attempt, error)

    def _caller(self) -> Caller:
        origin = Origin(**self.origin)
        return Caller(
            origin=origin, actor=Actor(type="task", name=f"{origin.dag_id}.{origin.task_id}"),
            say=lambda line: self.log.info("%s", line),
        )  # fmt: skip
