"""Bring what a program and its wrapper wrote into the ledger, once, however often it is read.

A record's ordinal is the position of its first line, so the same step of the same task finds its record again.
Another task try (a recovery) asks the ledger first which lines are known, and keeps the batches as they are.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pretrain_archive.compute.environment import compare_environments, environment_of
from pretrain_archive.compute.events import (
    CheckpointEvent,
    Line,
    Metric,
    Note,
    Place,
    Unusable,
    not_finite,
    number_of,
    plain,
    read_event,
    read_lines,
)
from pretrain_archive.compute.seen import Seen, Writer
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import (
    ArchiveError,
    LedgerError,
    LedgerUnavailableError,
    StorageError,
)
from pretrain_archive.domain.identity import Ref, utc_now
from pretrain_archive.domain.kinds import MetricPoint
from pretrain_archive.domain.records import Draft, Edge, Relation
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.storage.regular import NotRegularError

log = logging.getLogger(__name__)

OnCheckpoint = Callable[[CheckpointEvent], bool]
"""Verifies and registers a checkpoint; True if it counts. May be called again for the same event."""

MAX_POINTS = 500
EVENTS, STATUS, LAUNCHER = 0, 1, 2
"""Who wrote the line behind an ordinal: ordinal = 4 × position + source."""
_TIMELINE = ("signal", "ending_tree", "libraries", "not_started")
_SYSTEM_EVERY = 12  # heartbeats: one a minute
_LOCATED = 20


class Ingest:
    """Reads status and event file of one attempt and appends what is new."""

    def __init__(
        self, writer: Writer, *, status: Path, events: Path, on_checkpoint: OnCheckpoint,
        declared: Mapping[str, Any] | None = None, flush_seconds: float = 1.0,
    ) -> None:  # fmt: skip
        self.writer, self.on_checkpoint, self.declared = writer, on_checkpoint, declared
        self.paths = {EVENTS: events, STATUS: status}
        self.places = {EVENTS: Place(), STATUS: Place()}
        self.queues: dict[int, deque[Line]] = {EVENTS: deque(), STATUS: deque()}
        self.seen = Seen()
        self.outbox: list[Draft] = []
        self.batches: dict[int, list[tuple[int, MetricPoint]]] = {EVENTS: [], STATUS: []}
        self.skipping = {EVENTS: 0, STATUS: 0}
        self.flush_seconds, self.flushed = flush_seconds, 0.0
        self.heartbeats = 0
        self._summary: Draft | None = None
        self.known = self._known()

    def _known(self) -> dict[tuple[str, int], int]:
        """Ordinals of this attempt that are in the ledger, by kind; the value is the number of points."""
        names = ("metrics.recorded", "event.recorded", "environment.observed")
        records = self.writer.ledger.records(streams=[self.writer.run_uid], kinds=names)
        return {
            (record.kind, record.ordinal): len(record.payload.get("points", ()))
            for record in records
            if record.attempt == self.writer.attempt
        }

    def poll(self, *, final: bool = False) -> None:
        """Read and append what is new. Raises ``LedgerUnavailableError`` or ``StorageError`` and may be called
        again then: nothing is lost and nothing is written twice.
        """
        for source in (STATUS, EVENTS, STATUS):  # again: verifying a checkpoint may have taken long
            while True:
                if not self.queues[source] and not self._read(source, final=final):
                    break
                while self.queues[source]:
                    self._take(source, self.queues[source][0])
                    self.queues[source].popleft()
                if not final:  # one block a call: a program that writes without end must still be watched
                    break
        if final or time.monotonic() - self.flushed >= self.flush_seconds:
            self.flush()

    def _read(self, source: int, *, final: bool) -> bool:
        """Read the next lines of a file; False if there are none, or if the file is none any more."""
        try:
            lines, place = read_lines(self.paths[source], self.places[source], final=final)
        except NotRegularError as error:
            self.seen.replaced = self.seen.replaced or f"{error.path.name} is {error.found}"
            return False
        self.places[source] = place
        self.queues[source].extend(lines)
        return bool(lines)

    def flush(self) -> None:
        """Append everything that waits."""
        for source in self.batches:
            self._close_batch(source)
        self.flushed = time.monotonic()
        while self.outbox:
            self.writer.ledger.append(self.outbox[:50])
            del self.outbox[:50]

    def summary(self) -> Draft | None:
        """A record that counts and locates the lines of the event file that could not be used."""
        if not self.seen.unusable or ("event.recorded", LAUNCHER) in self.known:
            return None
        if self._summary:
            return self._summary
        data = {"count": self.seen.unusable, "first": self.seen.located}
        payload = kinds.EventRecorded(
            attempt=self.writer.attempt, event="unusable_lines", at=utc_now(), data=data
        )
        self._summary = self.writer.draft(payload, LAUNCHER)
        return self._summary

    def _take(self, source: int, line: Line) -> None:
        if source == STATUS:
            self._status(line)
            return
        for event in read_event(line, attempt=self.writer.attempt):
            match event:
                case Metric():
                    self._metric(event)
                case CheckpointEvent():
                    self._checkpoint(event)
                case Note():
                    self._note(event)
                case Unusable():
                    self.seen.unusable += 1
                    if len(self.seen.located) < _LOCATED:
                        self.seen.located.append({"position": event.position, "problem": event.problem})

    # -- the event file -----------------------------------------------------------------------------

    def _metric(self, metric: Metric) -> None:
        self.seen.step(metric.step)
        if metric.name.lower().endswith("loss"):
            self.seen.loss(metric.step, metric.value)
        odd = not_finite(metric.value)
        point = MetricPoint(
            name=metric.name, step=metric.step, tokens=metric.tokens, value=None if odd else metric.value,
            not_finite=odd, at=metric.at,
        )  # fmt: skip
        self._point(EVENTS, metric.position, point)

    def _point(self, source: int, position: int, point: MetricPoint) -> None:
        self.seen.points += 1
        if self.skipping[source] == 0 and (
            count := self.known.get(("metrics.recorded", 4 * position + source))
        ):
            self._close_batch(source)
            self.skipping[source] = count
        if self.skipping[source]:
            self.skipping[source] -= 1
            return
        self.batches[source].append((position, point))
        if len(self.batches[source]) >= MAX_POINTS:
            self._close_batch(source)

    def _close_batch(self, source: int) -> None:
        if self.batches[source]:
            points = [point for _, point in self.batches[source]]
            payload = kinds.MetricsRecorded(attempt=self.writer.attempt, points=points)
            self.outbox.append(self.writer.draft(payload, 4 * self.batches[source][0][0] + source))
            self.batches[source] = []

    def _checkpoint(self, event: CheckpointEvent) -> None:
        self.flush()
        problem, good = "", False
        try:
            good = self.on_checkpoint(event)
        except (LedgerError, StorageError):
            raise
        except (ArchiveError, OSError, ValueError) as error:
            problem = str(error)
            log.warning("checkpoint of step %s does not count: %s", event.step, problem)
        self.seen.step(event.step)
        if good:
            self.seen.checkpoints += 1
            saved = self.seen.last_checkpoint_step
            self.seen.last_checkpoint_step = event.step if saved is None else max(saved, event.step)
        data = {"path": event.path, "tokens": event.tokens, "registered": good, "problem": problem}
        self._event(EVENTS, event.position, "checkpoint", data, step=event.step)
        self.flushed = 0.0  # not here: after the verification this line must never be taken again

    def _note(self, note: Note) -> None:
        if note.step is not None:
            self.seen.step(note.step)
        if note.complete:
            self.seen.complete, self.seen.complete_step = True, note.step
        self._event(EVENTS, note.position, note.event, dict(note.data), at=note.at, step=note.step)

    def _event(
        self,
        source: int,
        position: int,
        event: str,
        data: dict[str, Any],
        *,
        at: str | None = None,
        step: int | None = None,
    ) -> None:
        ordinal = 4 * position + source
        if ("event.recorded", ordinal) not in self.known:
            payload = kinds.EventRecorded(
                attempt=self.writer.attempt, event=event, at=at or utc_now(), step=step, data=plain(data)
            )
            self.outbox.append(self.writer.draft(payload, ordinal))

    # -- the status file ----------------------------------------------------------------------------

    def _status(self, line: Line) -> None:
        data = line.data or {}
        self.seen.heard(data.get("at"))
        at = data.get("at") if isinstance(data.get("at"), str) else None
        match data.get("status"):
            case "environment":
                self._environment(line.position, data)
            case "program_started":
                self.seen.program = data
            case "heartbeat":
                self._heartbeat(line.position, data, at)
            case "ended":
                self.seen.ended = data
            case str(name) if name in _TIMELINE:
                if name == "not_started":
                    self.seen.problem = str(data.get("problem", ""))
                rest = {key: value for key, value in data.items() if key not in {"status", "at"}}
                self._event(STATUS, line.position, name, rest, at=at, step=self.seen.last_step)

    def _environment(self, position: int, data: Mapping[str, Any]) -> None:
        environment = environment_of(data.get("environment") or {})
        found = compare_environments(self.declared, environment) if self.declared is not None else []
        self.seen.differences = [difference.to_dict() for difference in found]
        self.seen.environment = environment
        if ("environment.observed", 4 * position + STATUS) in self.known:
            return
        digest = digest_of(environment)
        payload = kinds.EnvironmentObserved(
            moment=data.get("moment", "start"), environment=environment, environment_digest=digest,
            differences=self.seen.differences,
        )  # fmt: skip
        edge = Edge(
            subject=Ref(type="run", id=self.writer.run_uid),
            relation=Relation.USED,
            object=Ref(type="environment", id=digest),
        )
        self.outbox.append(self.writer.draft(payload, 4 * position + STATUS, edges=(edge,)))

    def _heartbeat(self, position: int, data: Mapping[str, Any], at: str | None) -> None:
        self.seen.last_heartbeat = time.monotonic()
        self.heartbeats += 1
        if self.heartbeats % _SYSTEM_EVERY != 1:
            return
        values = {name: number_of(data.get(name)) for name in ("rss_bytes", "cpu_seconds", "processes")}
        for device in data.get("accelerators") or ():
            for name in ("percent", "memory_mib"):
                text = str(device.get(name, ""))
                values[f"accelerator{device.get('index')}/{name}"] = float(text) if text.isdigit() else None
        for name, value in values.items():
            if value is not None:
                step = self.seen.last_step or 0
                self._point(
                    STATUS, position, MetricPoint(name=f"system/{name}", step=step, value=value, at=at)
                )


TRANSIENT = (LedgerUnavailableError, StorageError)
"""Errors after which :meth:`Ingest.poll` is simply called again."""
