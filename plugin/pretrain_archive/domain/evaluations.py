"""Evaluations as a run's records tell them: which decide, which failed, and what they still read.

Pure, from records alone. The rule for whoever wants to delete: a checkpoint is in use while one of its
``evaluation.started`` records has neither an ``evaluation.finished`` nor an ``evaluation.failed`` of the same
``try_id`` and its ``lease_until`` lies ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView

LEASE_KINDS = ("evaluation.started", "evaluation.failed", "evaluation.finished")
"""The kinds that :func:`leases` needs."""

Reported = tuple[Record, kinds.EvaluationReported]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """An evaluation that has no end yet, and until when its checkpoint is taken as in use."""

    checkpoint_id: str
    try_id: str
    record: Record
    until: datetime


def direction_of(flags: Iterable[str], name: str, direction: str) -> str | None:
    """Which way is better for a metric; None where a flag says that nobody declared it (the record holds a filler)."""
    undeclared = f"no_direction: {name} does not say"
    return None if any(flag.startswith(undeclared) for flag in flags) else direction


def leases(view: RunView) -> Iterator[Lease]:
    """Every try without an end, oldest first, whatever the time is."""
    ended = {fact.try_id for _, fact in view.all(kinds.EvaluationFailed)}
    ended |= {fact.try_id for _, fact in view.all(kinds.EvaluationFinished)}
    for record, fact in view.all(kinds.EvaluationStarted):
        if fact.try_id not in ended:
            yield Lease(
                checkpoint_id=fact.checkpoint_id, try_id=fact.try_id, record=record,
                until=parse_time(fact.lease_until),
            )  # fmt: skip


def in_use(view: RunView, checkpoint_id: str, now: datetime) -> Lease | None:
    """The evaluation that reads the checkpoint at ``now``, None if none does."""
    return next((one for one in leases(view) if one.checkpoint_id == checkpoint_id and now < one.until), None)


def decides(report: kinds.EvaluationReported) -> bool:
    """Whether a report may choose a candidate: measured here, by the program that the request names."""
    return not report.imported and not report.program


def deciding(view: RunView) -> list[Reported]:
    """The reports that may choose a candidate, oldest first."""
    return [found for found in view.all(kinds.EvaluationReported) if decides(found[1])]


def last_deciding(view: RunView) -> Reported | None:
    """The newest report that may choose a candidate."""
    return next(reversed(deciding(view)), None)


def last_failure(view: RunView) -> tuple[Record, kinds.EvaluationFailed] | None:
    """The newest failed try, unless an evaluation by the same program was reported after it."""
    found = view.last(kinds.EvaluationFailed)
    if found is None:
        return None
    later = (
        record.position > found[0].position and report.program == found[1].program and not report.imported
        for record, report in view.all(kinds.EvaluationReported)
    )  # fmt: skip
    return None if any(later) else found


def scope_text(report: kinds.EvaluationReported) -> str:
    """How far an evaluation reaches, in a line: samples, what was left out, known limits; empty if unrecorded."""
    scope = report.scope
    if scope is None:
        return ""
    samples = scope.get("samples")
    parts = [f"{samples} samples" if samples else "samples unrecorded"]
    for key, word in (("not_evaluated", "not evaluated"), ("limits", "limits")):
        if scope.get(key):
            parts.append(f"{word}: {', '.join(map(str, scope[key]))}")
    return "; ".join(parts)
