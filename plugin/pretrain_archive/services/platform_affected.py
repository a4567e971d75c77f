"""Which runs a platform change touches, and what ran on the new value since: asked of the ledger (R229)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.governance_observed import KINDS, newest_values, same_value, values_of
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger, RunQuery

PAGE = 200
OBSERVING = ["run.opened", "launch.intended", "environment.observed", "member.observed", "attempt.ended"]
"""What is recorded when something runs on a value, or ends on it."""


def since_of(days: float) -> str:
    """The moment so many days ago; ``InputError`` for a number of days that the calendar does not have."""
    try:
        return format_time(datetime.now(UTC) - timedelta(days=days))
    except (ValueError, OverflowError) as error:
        raise InputError("recent_days", days, "is no span of days", hint="Write 30 or the like.") from error


def recent_runs(ledger: Ledger, since: str) -> Iterator[RunView]:
    """Every run that is open, and those opened since; only with the records that tell where they ran."""
    closed = {record.stream for record in ledger.records(kinds=["run.closed"])}
    before: int | None = None
    while rows := ledger.runs(RunQuery(limit=PAGE, before=before)):
        before = rows[-1].position
        for row in rows:
            if row.opened_at >= since or row.run_uid not in closed:
                yield RunView.of(row.run_uid, ledger.records(streams=[row.run_uid], kinds=KINDS))


def affected_by(
    ledger: Ledger, where: str, before: str, since: str
) -> tuple[list[kinds.AffectedRun], list[str], int]:
    """The runs that were last seen on ``before``, those of which nobody knows, and how many were looked at."""
    touched: list[kinds.AffectedRun] = []
    unrecorded: list[str] = []
    count = 0
    for view in recent_runs(ledger, since):
        count += 1
        seen = newest_values(view, where)
        if not seen:
            unrecorded.append(view.run_uid)
        hits = [s for s in seen if same_value(where, s.value, before)]
        if hits:
            touched.append(kinds.AffectedRun(
                run_uid=view.run_uid, project=view.opened.project if view.opened else "", value=hits[-1].value,
                open=view.state != "closed", attempt=hits[-1].attempt, record=hits[-1].record,
                workers=sorted(s.worker for s in hits if s.worker is not None),
            ))  # fmt: skip
    return touched, unrecorded, count


def seen_since(ledger: Ledger, where: str, after: str, *, position: int) -> list[kinds.SeenAttempt]:
    """The attempts that were observed on ``after`` behind a position of the log, with how each ended.

    Whatever was recorded of a run since leads to it, however long ago it was opened. Drills are left out: what breaks
    off in them does so on purpose.
    """
    streams = dict.fromkeys(r.stream for r in ledger.records(kinds=OBSERVING, after=position))
    found = []
    for stream in streams:
        view = RunView.of(stream, ledger.records(streams=[stream], kinds=KINDS))
        if view.last(kinds.DrillFiled) is not None:
            continue
        places = {r.record_id: r.position for r in view.records}
        ends = {e.attempt: e.state for _, e in view.all(kinds.AttemptEnded)}
        hits = {
            attempt: s.record
            for attempt in range(1, view.attempts + 1)
            for s in values_of(view, where, attempt)
            if places.get(s.record, -1) > position and same_value(where, s.value, after)
        }
        found += [
            kinds.SeenAttempt(run_uid=view.run_uid, attempt=attempt, state=ends.get(attempt), record=record)
            for attempt, record in sorted(hits.items())
        ]
    return found
