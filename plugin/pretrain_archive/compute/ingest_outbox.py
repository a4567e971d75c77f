"""Records that wait to be appended: each once, whoever reads the files and however often.

A record's ordinal is the position of its first line and who wrote it, so the same step of the same task finds its
record again. Another task try (a recovery) asks the ledger first which ordinals are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pretrain_archive.compute.events import plain
from pretrain_archive.compute.seen import Seen, Writer
from pretrain_archive.domain.errors import AlreadyRecordedError
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.kinds import (
    EnvironmentObserved,
    EventRecorded,
    MetricPoint,
    MetricsRecorded,
    Payload,
    StopFired,
    read_payload,
)
from pretrain_archive.domain.records import Draft, Edge, Record

MAX_POINTS = 500
MAX_WORKERS = 4096
LARGEST = 2**31 - 1
"""The largest ordinal that the ledger takes: 512 MiB of events, or 131,072 recorded lines of another worker."""
_AT_ONCE = 50
_LIMIT = 5  # where the launcher's own records stand: 0 unusable lines, 1 logs, 2 and 3 the configuration
_STOP = 1  # a refusal of a further attempt is a stop of this attempt too, with ordinal 0
_WORKERS = 3
_KINDS = ("metrics.recorded", "event.recorded", "environment.observed")


@dataclass(frozen=True, slots=True)
class Source:
    """Who wrote a line. ``code`` is 0 for the program, 1 for worker 0's wrapper, 2 for the launcher itself."""

    code: int
    worker: int = 0

    def ordinal(self, position: int) -> int:
        """The ordinal of the record that a line at ``position`` becomes; no two lines share one.

        ``position`` is in bytes for worker 0 and the program, and the number of the recorded line for other workers.
        """
        if self.worker:
            return 4 * (position * MAX_WORKERS + self.worker) + _WORKERS
        return 4 * position + self.code


EVENTS, STATUS, LAUNCHER = Source(0), Source(1), Source(2)


def status_of(worker: int) -> Source:
    """The status file of a worker."""
    return STATUS if worker == 0 else Source(_WORKERS, worker)


class PreviousEnvironments:
    """What each worker was in the newest attempt before ``attempt`` that it took part in.

    That is the environment of its (last) start, with the libraries that were loaded by its end.
    """

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self._found: dict[int, tuple[int, dict[str, Any]]] = {}

    def add(self, record: Record) -> None:
        """Take what a worker told of itself; records come oldest first."""
        if record.attempt >= self.attempt:
            return
        observed = read_payload(record, EnvironmentObserved)
        known = self._found.get(observed.worker, (0, {}))
        if observed.moment == "end" and known[0] == record.attempt:
            known[1]["libraries"] = observed.environment.get("libraries")
        elif observed.moment != "end" and known[0] <= record.attempt:
            self._found[observed.worker] = (record.attempt, dict(observed.environment))

    def of(self, worker: int) -> Mapping[str, Any] | None:
        """The environment of a worker, None if it never told."""
        found = self._found.get(worker)
        return found[1] if found else None


class Outbox:
    """What waits for the ledger."""

    def __init__(self, writer: Writer, seen: Seen) -> None:
        self.writer, self.seen = writer, seen
        self.drafts: list[Draft] = []
        self.batches: dict[Source, list[tuple[int, MetricPoint]]] = {}
        self.skipping: dict[Source, int] = {}
        self.stop_draft: Draft | None = None
        self.limited = False
        self.known: dict[tuple[str, int], int] = {}
        self.previous = PreviousEnvironments(writer.attempt)
        for record in writer.ledger.records(streams=[writer.run_uid], kinds=_KINDS):
            self._know(record)

    def _know(self, record: Record) -> None:
        """Remember an ordinal of this attempt by its kind; for metrics the number of points stays with it."""
        if record.attempt == self.writer.attempt:
            self.known[record.kind, record.ordinal] = len(record.payload.get("points", ()))
        elif record.kind == "environment.observed":
            self.previous.add(record)

    def put(self, kind: str, payload: Payload, ordinal: int, *, edges: tuple[Edge, ...] = ()) -> None:
        """A fact that is appended unless it is known."""
        if self._fits(ordinal) and (kind, ordinal) not in self.known:
            self.drafts.append(self.writer.draft(payload, ordinal, edges=edges))

    def _fits(self, ordinal: int) -> bool:
        """Whether the ledger takes a record of this ordinal; that it does not is told once."""
        if ordinal > LARGEST and not self.limited:
            self.limited = True
            self.event(LAUNCHER, _LIMIT, "evidence_limit", {"largest": LARGEST})
        return ordinal <= LARGEST

    def event(
        self, source: Source, position: int, event: str, data: Mapping[str, Any], *, at: str | None = None,
        step: int | None = None,
    ) -> None:  # fmt: skip
        """Something for the timeline."""
        payload = EventRecorded(
            attempt=self.writer.attempt, event=event, at=at or utc_now(), step=step, data=plain(data)
        )
        self.put("event.recorded", payload, source.ordinal(position))

    def point(self, source: Source, position: int, point: MetricPoint) -> None:
        """A metric point, gathered with its neighbours; a batch that is on record is left as it is."""
        self.seen.points += 1
        if not self._fits(source.ordinal(position)):
            return
        count = self.known.get(("metrics.recorded", source.ordinal(position)))
        if count and not self.skipping.get(source):
            self.close_batch(source)
            self.skipping[source] = count
        if self.skipping.get(source):
            self.skipping[source] -= 1
            return
        batch = self.batches.setdefault(source, [])
        batch.append((position, point))
        if len(batch) >= MAX_POINTS:
            self.close_batch(source)

    def close_batch(self, source: Source) -> None:
        """Make a record of the points that were gathered."""
        if batch := self.batches.pop(source, []):
            payload = MetricsRecorded(attempt=self.writer.attempt, points=[point for _, point in batch])
            self.drafts.append(self.writer.draft(payload, source.ordinal(batch[0][0])))

    def stop(self, fired: StopFired) -> None:
        """The rule that ended the job: the first one counts, and it is recorded once."""
        if self.seen.fired is None:
            key = f"stop.fired/{self.writer.run_uid}/{self.writer.attempt}"
            self.seen.fired, self.stop_draft = fired, self.writer.draft(fired, _STOP, unique=key)

    def flush(self) -> None:
        """Append everything that waits."""
        for source in list(self.batches):
            self.close_batch(source)
        if self.stop_draft is not None:
            self._append_stop(self.stop_draft)
            self.stop_draft = None
        while self.drafts:
            self.writer.ledger.append(self.drafts[:_AT_ONCE])
            del self.drafts[:_AT_ONCE]

    def _append_stop(self, draft: Draft) -> None:
        """Append it, unless another process (or an earlier reader) did: then that record is the answer."""
        if self._take_recorded_stop():
            return
        try:
            self.writer.ledger.append([draft])
        except AlreadyRecordedError:
            self._take_recorded_stop()

    def _take_recorded_stop(self) -> bool:
        records = self.writer.ledger.records(streams=[self.writer.run_uid], kinds=["stop.fired"])
        for record in records:
            stored = read_payload(record, StopFired)
            # A refusal of a further attempt is recorded for the last attempt too: it ended no job.
            if record.attempt == self.writer.attempt and stored.rule != "repeated_failure":
                self.seen.fired = stored
                return True
        return False
