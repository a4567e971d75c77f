"""Bring what a program and its wrappers wrote into the ledger, once, however often it is read.

An attempt's folder holds the program's event file and a status file and a log for each worker: ``status.jsonl`` and
``log.txt`` are worker 0's, ``status-1.jsonl`` and ``log-1.txt`` worker 1's.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pretrain_archive.compute.ingest_config import EffectiveConfiguration
from pretrain_archive.compute.ingest_events import EventReader, OnCheckpoint
from pretrain_archive.compute.ingest_outbox import LAUNCHER, MAX_WORKERS, Outbox
from pretrain_archive.compute.ingest_status import StatusReader
from pretrain_archive.compute.seen import Seen, Writer
from pretrain_archive.compute.spec import worker_file
from pretrain_archive.domain.errors import LedgerUnavailableError, StorageError
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.kinds import EventRecorded, StopFired
from pretrain_archive.domain.records import Draft
from pretrain_archive.storage.regular import NotRegularError, open_regular

__all__ = ["TRANSIENT", "Ingest", "OnCheckpoint"]

TRANSIENT = (LedgerUnavailableError, StorageError)
"""Errors after which :meth:`Ingest.poll` is simply called again."""

_LOOK_SECONDS = 2.0
"""How often the folder is looked through for files of further workers and for the effective configuration."""


class Ingest:
    """Reads status and event files of one attempt and appends what is new.

    ``status`` is worker 0's; those of further workers are found beside it. ``workers`` is how many there must be:
    one that never wrote is then named (None: whoever writes is one).
    """

    def __init__(
        self, writer: Writer, *, status: Path, events: Path, on_checkpoint: OnCheckpoint,
        declared: Mapping[str, Any] | None = None, flush_seconds: float = 1.0, workers: int | None = None,
    ) -> None:  # fmt: skip
        self.writer, self.status, self.declared = writer, status, declared
        self.seen = Seen(expected=workers)
        self.outbox = Outbox(writer, self.seen)
        self.events = EventReader(
            events, outbox=self.outbox, seen=self.seen, on_checkpoint=on_checkpoint, settled=self._settled
        )
        self.effective = EffectiveConfiguration(status.parent, self.outbox)
        self.readers: dict[int, StatusReader] = {}
        self.flush_seconds, self.flushed, self.looked = flush_seconds, 0.0, 0.0
        self._summary: Draft | None = None
        self._logs_told = False
        for worker in range(workers or 1):
            self._follow(worker)

    def poll(self, *, final: bool = False) -> None:
        """Read and append what is new. Raises ``LedgerUnavailableError`` or ``StorageError`` and may be called
        again then: nothing is lost and nothing is written twice.
        """
        self._look_around(final=final)
        self._poll_statuses(final=final)
        self.events.poll(final=final)
        for reader in self.readers.values():
            reader.tell_stop()
        self._poll_statuses(final=final)  # again: verifying a checkpoint may have taken long
        if final:
            self._tell_logs()
        if final or time.monotonic() - self.flushed >= self.flush_seconds:
            self.flush()

    def _poll_statuses(self, *, final: bool) -> None:
        for reader in list(self.readers.values()):
            reader.poll(final=final)

    def flush(self) -> None:
        """Append everything that waits."""
        self.flushed = time.monotonic()
        self.outbox.flush()

    def stop(self, fired: StopFired) -> None:
        """A rule ended the job: recorded once at the next flush, also if a wrapper says the same meanwhile.

        ``seen.fired`` holds the one that counts.
        """
        self.outbox.stop(fired)

    def summary(self) -> Draft | None:
        """A record that counts and locates the lines of the event file that could not be used."""
        if not self.seen.unusable or ("event.recorded", LAUNCHER.ordinal(0)) in self.outbox.known:
            return None
        if self._summary:
            return self._summary
        data = {"count": self.seen.unusable, "first": self.seen.located}
        payload = EventRecorded(attempt=self.writer.attempt, event="unusable_lines", at=utc_now(), data=data)
        self._summary = self.writer.draft(payload, LAUNCHER.ordinal(0))
        return self._summary

    def _settled(self) -> None:
        """A checkpoint was looked at: write soon, but not in the middle of the line that named it."""
        self.flushed = 0.0

    # -- workers -------------------------------------------------------------------------------------

    def _follow(self, worker: int) -> None:
        self.readers[worker] = StatusReader(
            worker, worker_file(self.status, worker), outbox=self.outbox, seen=self.seen,
            declared=self.declared, previous=self.outbox.previous.of(worker),
        )  # fmt: skip

    def _look_around(self, *, final: bool) -> None:
        if not final and time.monotonic() - self.looked < _LOOK_SECONDS:
            return
        self.looked = time.monotonic()
        self.effective.look(final=final)
        for worker in workers_in(self.status):
            if worker not in self.readers:
                self._follow(worker)

    def _tell_logs(self) -> None:
        """Digests of the logs of further workers (worker 0's is in the attempt's end): once, after the end."""
        others = [number for number in sorted(self.readers) if number]
        if not others or self._logs_told or ("event.recorded", LAUNCHER.ordinal(1)) in self.outbox.known:
            return
        logs = [_log_of(self.status.with_name("log.txt"), number) for number in others]
        self.outbox.event(LAUNCHER, 1, "worker_logs", {"logs": logs})
        self._logs_told = True


def workers_in(status: Path) -> list[int]:
    """Indexes of the workers above 0 that have a status file beside worker 0's, in order."""
    pattern = re.compile(rf"{re.escape(status.stem)}-([1-9]\d{{0,4}}){re.escape(status.suffix)}")
    found = []
    try:
        with os.scandir(status.parent) as entries:
            for entry in entries:
                match = pattern.fullmatch(entry.name)
                if match and int(match[1]) < MAX_WORKERS:
                    found.append(int(match[1]))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found)


def _log_of(first: Path, worker: int) -> dict[str, Any]:
    """Name, size and digest of a worker's log; None for what is unrecorded."""
    path = worker_file(first, worker)
    told: dict[str, Any] = {"worker": worker, "name": path.name, "bytes": None, "digest": None}
    try:
        with open_regular(path) as file:
            told["digest"] = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
            told["bytes"] = file.tell()
    except NotRegularError as error:
        told["problem"] = error.found
    except FileNotFoundError:
        told["problem"] = "there is none"
    return told
