"""What the program wrote into its event file: metrics, checkpoints, notes, and lines that cannot be used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from pretrain_archive.compute.events import (
    CheckpointEvent,
    DataRead,
    Line,
    Metric,
    Note,
    Unusable,
    not_finite,
    read_event,
)
from pretrain_archive.compute.ingest_lines import Lines
from pretrain_archive.compute.ingest_outbox import EVENTS, Outbox
from pretrain_archive.compute.seen import Seen
from pretrain_archive.domain.errors import ArchiveError, LedgerError, StorageError
from pretrain_archive.domain.kinds import MetricPoint

log = logging.getLogger(__name__)

OnCheckpoint = Callable[[CheckpointEvent], bool]
"""Verifies and registers a checkpoint; True if it counts. May be called again for the same event."""

_LOCATED = 20


class EventReader:
    """Reads the event file of one attempt. ``settled`` is called when a checkpoint was looked at."""

    def __init__(
        self, path: Path, *, outbox: Outbox, seen: Seen, on_checkpoint: OnCheckpoint,
        settled: Callable[[], None],
    ) -> None:  # fmt: skip
        self.outbox, self.seen, self.on_checkpoint, self.settled = outbox, seen, on_checkpoint, settled
        self.lines = Lines(path, seen)

    def poll(self, *, final: bool) -> None:
        """Take the new lines."""
        self.lines.drain(self._take, final=final)

    def _take(self, line: Line) -> None:
        for event in read_event(line, attempt=self.outbox.writer.attempt):
            match event:
                case Metric():
                    self._metric(event)
                case CheckpointEvent():
                    self._checkpoint(event)
                case Note():
                    self._note(event)
                case DataRead():
                    self._data_read(event)
                case Unusable():
                    self.seen.unusable += 1
                    if len(self.seen.located) < _LOCATED:
                        self.seen.located.append({"position": event.position, "problem": event.problem})

    def _metric(self, metric: Metric) -> None:
        self.seen.step(metric.step)
        if not metric.name.startswith("data_read_"):  # reading begins before training does
            self.seen.trained()
        if metric.name.lower().endswith("loss"):
            self.seen.loss(metric.step, metric.value, metric.name)
        odd = not_finite(metric.value)
        point = MetricPoint(
            name=metric.name, step=metric.step, tokens=metric.tokens, value=None if odd else metric.value,
            not_finite=odd, at=metric.at,
        )  # fmt: skip
        self.outbox.point(EVENTS, metric.position, point)

    def _checkpoint(self, event: CheckpointEvent) -> None:
        self.outbox.flush()
        problem, good = "", False
        try:
            good = self.on_checkpoint(event)
        except (LedgerError, StorageError):
            raise
        except (ArchiveError, OSError, ValueError) as error:
            problem = str(error)
            log.warning("checkpoint of step %s does not count: %s", event.step, problem)
        self.seen.step(event.step)
        self.seen.trained()
        if good:
            self.seen.checkpoints += 1
            saved = self.seen.last_checkpoint_step
            self.seen.last_checkpoint_step = event.step if saved is None else max(saved, event.step)
        data = {
            "path": event.path, "tokens": event.tokens, "seconds": event.seconds,
            "registered": good, "problem": problem,
        }  # fmt: skip
        self.outbox.event(EVENTS, event.position, "checkpoint", data, at=event.at, step=event.step)
        self.settled()

    def _data_read(self, read: DataRead) -> None:
        """Count the reads; the first anomalies stand on the timeline, errors and empty reads as metrics too."""
        reads = self.seen.reads
        reads.reads += max(read.reads, read.errors, read.empty)
        reads.errors += read.errors
        reads.empty += read.empty
        if problem := read.text():
            reads.problem = reads.problem or f"{problem} at step {read.step}"
        for name, count in (("errors", read.errors), ("empty", read.empty)):
            if count:
                point = MetricPoint(name=f"data_read_{name}", step=read.step, value=count, at=read.at)
                self.outbox.point(EVENTS, read.position, point)
        if (problem or read.errors or read.empty) and reads.told < _LOCATED:
            reads.told += 1
            said = problem or f"{read.errors} read errors, {read.empty} empty reads of {read.reads}"
            data = {"shard": read.shard, "problem": said, "errors": read.errors, "empty": read.empty}
            self.outbox.event(EVENTS, read.position, "data_read", data, at=read.at, step=read.step)

    def _note(self, note: Note) -> None:
        if note.step is not None:
            self.seen.step(note.step)
        if note.complete:
            self.seen.complete, self.seen.complete_step = True, note.step
        self.outbox.event(EVENTS, note.position, note.event, dict(note.data), at=note.at, step=note.step)
