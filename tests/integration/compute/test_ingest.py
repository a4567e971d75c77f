"""What was read is in the ledger once, however often and by whom it is read again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute.events import CheckpointEvent
from pretrain_archive.compute.ingest import Ingest
from pretrain_archive.compute.seen import Writer
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import LedgerUnavailableError, StorageError
from pretrain_archive.domain.records import Draft

from .conftest import ACTOR, Job, origin

STEPS = 900


def event_file(path: Path) -> None:
    """Metrics, data reads, checkpoints, notes and garbage; a NaN and three bad steps among them."""
    with path.open("w") as file:
        for step in range(1, STEPS + 1):
            value = "NaN" if step == 500 else repr(5 / step)
            file.write(f'{{"event": "metric", "name": "loss", "step": {step}, "value": {value}}}\n')
            file.write(json.dumps({"event": "data_read", "step": step, "seconds": 0.1, "bytes": 10}) + "\n")
            if step % 100 == 0:
                file.write(json.dumps({"event": "checkpoint", "step": step, "path": f"/c/{step}"}) + "\n")
            if step == 300:
                file.write('garbage\n{"event": "metric", "name": "loss", "value": 0.1}\n')
                file.write('{"event": "metric", "name": "loss", "value": 0.1, "step": -5}\n')
                file.write('{"event": "metric", "name": "loss", "value": 0.1, "step": "310"}\n')
        file.write('{"event": "note", "text": "training complete", "complete": true}\n')


def status_file(path: Path) -> None:
    """A start and heartbeats."""
    lines: list[dict[str, Any]] = [
        {
            "status": "environment",
            "moment": "start",
            "at": "2026-01-01T00:00:00.000000Z",
            "environment": {"node": "n"},
        }
    ]
    lines += [
        {"status": "heartbeat", "at": f"2026-01-01T00:00:{n:02}.000000Z", "rss_bytes": n, "accelerators": []}
        for n in range(30)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def ingest(
    job: Job,
    attempt: int = 1,
    *,
    ledger: Any = None,
    try_number: int = 1,
    accept: Callable[[Any], bool] | None = None,
) -> Ingest:
    """An ingest over the files in the job's folder."""
    writer = Writer(
        ledger=ledger or job.ledger,
        run_uid=job.run_uid,
        attempt=attempt,
        actor=ACTOR,
        origin=origin(try_number),
    )
    return Ingest(
        writer, status=job.root / "status.jsonl", events=job.root / "events.jsonl",
        on_checkpoint=accept or (lambda _event: True), declared={}, flush_seconds=0.0,
    )  # fmt: skip


def facts(job: Job) -> dict[str, Any]:
    """What the ledger holds, without how it was cut into records."""
    view = job.view()
    points = [p for _, m in view.all(kinds.MetricsRecorded) for p in m.points]
    return {
        "points": sorted((p.name, p.step, str(p.value), p.not_finite) for p in points),
        "events": sorted(
            (e.event, e.step or 0, str(e.data.get("path"))) for _, e in view.all(kinds.EventRecorded)
        ),
        "environments": [e.moment for _, e in view.all(kinds.EnvironmentObserved)],
    }


@pytest.fixture
def files(job: Job) -> Job:
    """A job with its event and status files."""
    event_file(job.root / "events.jsonl")
    status_file(job.root / "status.jsonl")
    return job


@pytest.mark.requirement("R088", "R089", "R091")
def test_everything_is_read_in_bounded_records(files: Job) -> None:
    """All metrics in order, at most 500 a record; a NaN is marked; bad lines are counted and located."""
    reader = ingest(files)
    reader.poll(final=True)
    summary = reader.summary()

    sizes = [len(m.points) for _, m in files.view().all(kinds.MetricsRecorded)]
    found = facts(files)
    assert max(sizes) <= 500
    assert 3 * STEPS == len([p for p in found["points"] if not p[0].startswith("system/")])
    assert [("loss", 500, "None", "nan")] == [p for p in found["points"] if p[3]]
    assert 9 == len([e for e in found["events"] if e[0] == "checkpoint"])
    assert ["start"] == found["environments"]
    assert (1, STEPS, 900, True) == (
        reader.seen.first_step, reader.seen.last_step, reader.seen.last_checkpoint_step, reader.seen.complete,
    )  # fmt: skip
    assert summary is not None
    assert 4 == summary.payload["data"]["count"]
    raw = (files.root / "events.jsonl").read_bytes()
    assert b"garbage" == raw[summary.payload["data"]["first"][0]["position"] :][:7]


@pytest.mark.parametrize("try_number", [pytest.param(1, id="same try"), pytest.param(2, id="next try")])
def test_reading_again_writes_nothing(files: Job, try_number: int) -> None:
    """A second reader finds every record and adds none, and knows as much as the first."""
    first = ingest(files)
    first.poll(final=True)
    before = [r.record_id for r in files.view().records]
    again = ingest(files, try_number=try_number)
    again.poll(final=True)

    assert before == [r.record_id for r in files.view().records]
    assert (first.seen.last_step, first.seen.complete, first.seen.points) == (
        again.seen.last_step, again.seen.complete, again.seen.points,
    )  # fmt: skip


class Cut:
    """A ledger whose connection fails at one append, before or after the commit."""

    def __init__(self, ledger: Any, at: int, *, after: bool) -> None:
        self.ledger, self.at, self.after, self.calls = ledger, at, after, 0

    def append(self, drafts: list[Draft]) -> Any:
        """Append; the chosen call gives no answer."""
        self.calls += 1
        if self.calls == self.at and not self.after:
            raise LedgerUnavailableError("cut")
        stored = self.ledger.append(drafts)
        if self.calls == self.at:
            raise LedgerUnavailableError("cut")
        return stored

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)


@pytest.mark.parametrize("seed", range(12))
def test_a_reader_that_dies_anywhere_is_continued(files: Job, seed: int) -> None:
    """The file grows in random pieces, the reader dies at a random append; the next try completes it exactly."""
    source = (files.root / "events.jsonl").read_bytes()
    expected_job = Job(ledger=files.ledger, root=files.root)
    ingest(expected_job).poll(final=True)

    chance = random.Random(seed)
    grown = files.root / "events.jsonl"
    grown.write_bytes(b"")
    reader = ingest(files, ledger=Cut(files.ledger, chance.randint(1, 14), after=seed % 2 == 0))
    at, died = 0, False
    while at < len(source):
        piece = chance.randint(1, 16_000)
        grown.open("ab").write(source[at : at + piece])
        at += piece
        try:
            reader.poll()
        except LedgerUnavailableError:
            died = True
            if seed % 3 == 0:
                continue  # the same process tries again
            break
    grown.open("ab").write(source[at:])
    if seed % 3 == 0:
        reader.poll(final=True)
    ingest(files, try_number=2).poll(final=True)

    assert died
    assert facts(expected_job) == facts(files)


def test_a_checkpoint_is_offered_until_it_is_settled(files: Job) -> None:
    """While the store is out of reach a checkpoint is tried again; it is on the timeline once."""
    calls: list[int] = []

    def accept(event: CheckpointEvent) -> bool:
        calls.append(event.step)
        if calls.count(200) == 1 and event.step == 200:
            raise StorageError("bucket out of reach")
        return True

    reader = ingest(files, accept=accept)
    with pytest.raises(StorageError):
        reader.poll(final=True)
    reader.poll(final=True)

    assert [100, 200, 200, *range(300, 901, 100)] == calls
    assert 9 == len([e for e in facts(files)["events"] if e[0] == "checkpoint"])


@pytest.mark.case("E05")
def test_steps_that_run_backwards_keep_both_attempts(files: Job) -> None:
    """A resumed attempt repeats steps: both are stored and tagged with their attempt."""
    ingest(files).poll(final=True)
    (files.root / "events.jsonl").write_text(
        "".join(f'{{"event":"metric","name":"loss","step":{s},"value":1}}\n' for s in range(850, 1000))
    )
    ingest(files, 2).poll(final=True)

    by_attempt = {
        attempt: [
            p.step
            for _, m in files.view().all(kinds.MetricsRecorded)
            if m.attempt == attempt
            for p in m.points
            if p.name == "loss"
        ]
        for attempt in (1, 2)
    }
    assert list(range(1, STEPS + 1)) == by_attempt[1]
    assert list(range(850, 1000)) == by_attempt[2]


def test_what_the_ledger_cannot_number_is_told_and_not_raised(job: Job) -> None:
    """Beyond half a gibibyte of events points are no longer recorded; steps and the end still count."""
    path = job.root / "events.jsonl"
    with path.open("wb") as file:
        file.write(b'{"event":"metric","name":"loss","step":1,"value":1}\n')
        file.seek(600 * 1024 * 1024)  # a hole costs no disk
        file.write(b'\n{"event":"metric","name":"loss","step":2,"value":NaN}\n')
        file.write(b'{"event":"note","text":"training complete","complete":true,"step":3}\n')
    reader = ingest(job)
    reader.poll(final=True)

    assert (3, True) == (reader.seen.last_step, reader.seen.complete)
    assert reader.seen.worst_loss is not None
    assert [("loss", 1, "1.0", "")] == facts(job)["points"]
    assert ["evidence_limit"] == [name for name, _, _ in facts(job)["events"]]


def test_a_long_status_file_of_another_worker_is_numbered(job: Job) -> None:
    """A day of heartbeats of the last of many workers stays below the largest ordinal."""
    status_file(job.root / "status.jsonl")
    with (job.root / "status-4095.jsonl").open("w") as file:
        file.write(
            json.dumps({"status": "environment", "moment": "start", "environment": {"node": "n"}}) + "\n"
        )
        for n in range(17_280):
            file.write(
                json.dumps({"status": "heartbeat", "rss_bytes": n, "cpu_seconds": n, "processes": 1}) + "\n"
            )
    reader = ingest(job)
    reader.poll(final=True)
    before = len(job.view().records)
    ingest(job, try_number=2).poll(final=True)

    points = [p for p in facts(job)["points"] if p[0] == "system/worker4095/rss_bytes"]
    assert 1440 == len(points)
    assert 2 == len(facts(job)["environments"])
    assert before == len(job.view().records)
    assert not [name for name, _, _ in facts(job)["events"] if name == "evidence_limit"]


def test_a_stop_that_is_on_record_stays_the_only_one(job: Job) -> None:
    """Recorded by an earlier release, without a key of its own: the wrapper's line adds no second, and it counts."""
    fired = kinds.StopFired(attempt=1, rule="wall_time", observed="61.0 s", limit="60.0 s")
    refused = kinds.StopFired(attempt=1, rule="repeated_failure", observed="3 attempts", limit="3 attempts")
    writer = Writer(ledger=job.ledger, run_uid=job.run_uid, attempt=1, actor=ACTOR, origin=origin())
    job.ledger.append([writer.draft(refused, 7), writer.draft(fired, 0)])
    line = {"status": "stop", "rule": "nan_loss", "observed": "nan at step 3", "limit": "a finite loss"}
    (job.root / "status.jsonl").write_text(json.dumps(line) + "\n")
    reader = ingest(job)
    reader.poll(final=True)

    assert [refused, fired] == [stop for _, stop in job.view().all(kinds.StopFired)]
    assert fired == reader.seen.fired


def test_a_refusal_of_a_further_attempt_is_no_stop_of_the_job(job: Job) -> None:
    """It stands beside the rule that ended the job."""
    refused = kinds.StopFired(attempt=1, rule="repeated_failure", observed="3 attempts", limit="3 attempts")
    writer = Writer(ledger=job.ledger, run_uid=job.run_uid, attempt=1, actor=ACTOR, origin=origin())
    job.ledger.append([writer.draft(refused, 0)])
    line = {"status": "stop", "rule": "nan_loss", "observed": "nan at step 3", "limit": "a finite loss"}
    (job.root / "status.jsonl").write_text(json.dumps(line) + "\n")
    ingest(job).poll(final=True)

    assert ["repeated_failure", "nan_loss"] == [stop.rule for _, stop in job.view().all(kinds.StopFired)]
