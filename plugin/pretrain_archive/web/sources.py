"""Where the pages' facts come from: the ledger and the policies, opened once per API server."""

from __future__ import annotations

import threading
from typing import Protocol

from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.sources import with_sources
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore


class Sources(Protocol):
    """What pages need to be told; the composition root gives it, tests give their own."""

    def ledger(self) -> Ledger:
        """The ledger; raises ``LedgerUnavailableError`` where it cannot be reached."""

    def store(self) -> ObjectStore:
        """The object store with the reports that records name."""

    def policy(self, project: str) -> LoadedPolicy:
        """A project's policy; raises ``PolicyError`` where it cannot be read."""


class Configured:
    """The ledger and policies that Airflow's configuration names; opened on first use."""

    def __init__(self) -> None:
        self._ledger: Ledger | None = None
        self._lock = threading.Lock()

    def ledger(self) -> Ledger:
        """The configured ledger."""
        from pretrain_archive import services  # noqa: PLC0415 - opens databases: only on the first request

        with self._lock:
            if self._ledger is None:
                self._ledger = services.open_ledger(create=False)  # pages only read
            return self._ledger

    def store(self) -> ObjectStore:
        """The configured store."""
        from pretrain_archive import services  # noqa: PLC0415

        return services.open_store()

    def policy(self, project: str) -> LoadedPolicy:
        """The policy as its file says now."""
        from pretrain_archive import services  # noqa: PLC0415

        return services.policy(project)


class KnownDags:
    """Which Dags ever opened a run, learnt from the ledger step by step: each request reads only what is new.

    Airflow forgets a Dag that was deleted; the archive does not, so lists ask about these names.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._after = -1
        self._lock = threading.Lock()

    def names(self, ledger: Ledger) -> set[str]:
        """All dag ids with a run up to now."""
        with self._lock:
            for record in ledger.records(kinds=("run.opened",), after=self._after):
                self._names.add(str(record.payload.get("dag_id", "")))
                self._after = record.position
            return set(self._names)


def opened_record(ledger: Ledger, run_uid: str) -> Record | None:
    """The record that opened a run, or None; nothing else of the stream is read."""
    return next(iter(ledger.records(streams=(run_uid,), kinds=("run.opened",), limit=1)), None)


def whole_run(ledger: Ledger, run_uid: str) -> RunView:
    """Everything that is recorded of a run, and around it of its sources."""
    return with_sources(ledger, RunView.of(run_uid, ledger.records(streams=(run_uid,))))
