"""What an attempt's records say of its time: when it began and ended, its steps, saves and members. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost_bins import Bin, micros
from pretrain_archive.domain.cost_clock import moment, shift_of
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView

LOSSES = ("loss", "train_loss", "train/loss")
_ASIDE = ("system/", "data_read_")
MOST_REPORTS = 20_000
"""Moments of steps that are read of an attempt; of more, every so manieth: an account of millions costs as much."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The program was seen to have finished ``step`` at ``at`` (microseconds, worker's clock)."""

    at: int
    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Training stood still from ``start`` to ``end``, as the program reported it."""

    start: int
    end: int
    bin: Bin
    detail: str = ""


@dataclass(kw_only=True)
class AttemptEvidence:
    """Everything about one attempt that its account needs.

    ``unpriced`` are moments of checkpoints whose duration nobody reported; ``saved`` is the highest step of a
    checkpoint that counts; ``coarse`` says that the program gave no moments and the ledger's stand for them.
    ``gone`` is when the program itself was seen to have ended, ``asked`` when it was last asked to.
    ``every`` above 1: of so many moments of steps one was read.
    """

    attempt: int
    begin: int
    end: int
    state: str | None
    base: int | None
    started: bool
    cause: str
    intent_at: int
    reports: list[Report] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    unpriced: list[int] = field(default_factory=list)
    saves: list[float] = field(default_factory=list)
    saved: int | None = None
    spoke: int | None = None
    coarse: bool = False
    shift: int = 0
    every: int = 1
    gone: int | None = None
    asked: int | None = None


def evidence_of(view: RunView) -> list[AttemptEvidence]:
    """The attempts of a run, oldest first; an attempt begins with its consumed launch token."""
    mine: dict[int, list[Record]] = {}
    for record in view.records:
        if record.attempt > 0:
            mine.setdefault(record.attempt, []).append(record)
    saved = _saved(view)
    return [
        _attempt(number, records, saved.get(number))
        for number, records in sorted(mine.items())
        if any(r.kind in {"launch.intended", "attempt.started", "attempt.ended"} for r in records)
    ]


def _saved(view: RunView) -> dict[int, int]:
    """The highest step of a registered checkpoint by attempt."""
    best: dict[int, int] = {}
    for _, checkpoint in view.all(kinds.CheckpointRegistered):
        best[checkpoint.attempt] = max(checkpoint.step, best.get(checkpoint.attempt, 0))
    return best


def _attempt(number: int, records: list[Record], saved: int | None) -> AttemptEvidence:
    first = {record.kind: record for record in reversed(records)}
    ended, started = first.get("attempt.ended"), first.get("attempt.started")
    end = kinds.read_payload(ended, kinds.AttemptEnded) if ended else None
    start = kinds.read_payload(started, kinds.AttemptStarted) if started else None
    shift = shift_of(_pairs(records, end))
    intent_at = (moment(first.get("launch.intended", records[0]).recorded_at) or 0) - shift
    begin, stop = _span(records, end, intent_at, shift)
    told = first.get("stop.fired", ended)
    found = AttemptEvidence(
        attempt=number, begin=begin, end=stop, state=end.state if end else None,
        base=start.resume_step if start else None, started=start is not None,
        cause=told.record_id if told else "", intent_at=intent_at, shift=shift,
        gone=moment(end.program_ended_at) if end else None,
    )  # fmt: skip
    _read_events(found, records)
    best = (saved, end.last_checkpoint_step if end else None, found.saved)
    found.saved = max((step for step in best if step is not None), default=None)
    found.unpriced.sort()
    found.reports = list(_reports(found, records))
    return found


def _pairs(records: list[Record], end: kinds.AttemptEnded | None) -> Iterator[tuple[str, str | None]]:
    """Records with the newest moment that they tell of the worker."""
    for record in records:
        if record.kind == "metrics.recorded":
            points = record.payload.get("points") or [{}]
            yield record.recorded_at, points[-1].get("at")
        elif record.kind == "attempt.ended" and end is not None:
            yield record.recorded_at, end.ended_at


def _span(
    records: list[Record], end: kinds.AttemptEnded | None, intent_at: int, shift: int
) -> tuple[int, int]:
    """From when to when the attempt held its devices; an attempt without an end lasts to its newest sign."""
    last = max((moment(r.recorded_at) or 0) - shift for r in records)
    if end is None:
        return intent_at, max(intent_at, last)
    stop = moment(end.ended_at)
    if end.seconds is not None:
        took = micros(end.seconds)
        return (stop - took, stop) if stop is not None else (intent_at, intent_at + took)
    return intent_at, max(intent_at, last)


def _read_events(found: AttemptEvidence, records: list[Record]) -> None:
    for record in records:
        if record.kind != "event.recorded":
            continue
        event = kinds.read_payload(record, kinds.EventRecorded)
        at = moment(event.at)
        if at is None:
            continue
        if event.event in {"signal", "stop"} and not event.data.get("worker"):
            found.asked = at
        if event.event in {"checkpoint", "evaluation", "note", "data_read", "progress"}:
            found.spoke = max(at, found.spoke or at)
        if event.event == "checkpoint":
            _checkpoint(found, event, at)
        elif event.event == "evaluation" and (seconds := _seconds(event.data)) is not None:
            found.windows.append(Window(start=at - micros(seconds), end=at, bin="evaluation"))


def _checkpoint(found: AttemptEvidence, event: kinds.EventRecorded, at: int) -> None:
    if event.data.get("registered") is True and event.step is not None:
        found.saved = max(event.step, found.saved or 0)
    seconds = _seconds(event.data)
    if seconds is None:
        found.unpriced.append(at)
        return
    found.saves.append(seconds)
    found.windows.append(Window(start=at - micros(seconds), end=at, bin="checkpoint_io"))


def _seconds(data: Mapping[str, Any]) -> float | None:
    value = data.get("seconds")
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if good and value is not None else None


def _reports(found: AttemptEvidence, records: list[Record]) -> Iterator[Report]:
    """The moments of steps that the account reads, in the order of the file."""
    name, count = _series(records)
    found.every = max(1, -(-count // MOST_REPORTS))
    for text, spread, step in _sieved(_told(found, records, name), found.every):
        at = moment(text)
        if at is None:
            found.coarse = True
        yield Report(at=spread if at is None else at, step=step)


_Told = tuple[str | None, int, int]
"""When a step was done as the program says it, when if it does not say so, and the step."""


def _told(found: AttemptEvidence, records: list[Record], name: str) -> Iterator[_Told]:
    """Steps of one series, and progress events; a batch without moments is spread evenly."""
    since = found.begin
    for record in records:
        if record.kind == "attempt.started":
            since = max(since, (moment(record.recorded_at) or since) - found.shift)
        if record.kind == "event.recorded" and record.payload.get("event") == "progress":
            text, step = record.payload.get("at"), record.payload.get("step")
            if isinstance(step, int) and moment(text) is not None:
                yield text, since, step
        if record.kind != "metrics.recorded":
            continue
        # Points are read as stored: a long run has millions, and a model of each costs more than the account.
        points = [p for p in record.payload.get("points", ()) if p.get("name") == name]
        until = (moment(record.recorded_at) or since) - found.shift
        for place, point in enumerate(points, 1):
            yield point.get("at"), since + max(0, until - since) * place // len(points), int(point["step"])
        since = max(since, until) if points else since


def _sieved(told: Iterator[_Told], every: int) -> Iterator[_Told]:
    """Every so manieth, the first and the last, and both sides of each place where steps go back."""
    before: _Told | None = None
    passed_over = False
    for number, one in enumerate(told):
        back = before is not None and one[2] < before[2]
        if back and passed_over and before is not None:
            yield before
        passed_over = number % every > 0 and not back
        if not passed_over:
            yield one
        before = one
    if passed_over and before is not None:
        yield before


def _series(records: list[Record]) -> tuple[str, int]:
    """The metric that tells progress and its points: the training loss, or the most frequent one of the program."""
    seen: Counter[str] = Counter()
    for record in records:
        if record.kind == "metrics.recorded":
            seen.update(str(p.get("name", "")) for p in record.payload.get("points", ()))
    for name in LOSSES:
        if seen[name]:
            return name, seen[name]
    own = [(count, name) for name, count in seen.items() if not name.startswith(_ASIDE)]
    count, name = max(own, default=(0, ""))
    return name, count
