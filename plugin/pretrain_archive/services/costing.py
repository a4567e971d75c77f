"""Accounts of one run and of all: each run is read, counted and forgotten before the next one is read."""

from __future__ import annotations

from collections.abc import Iterator

from pretrain_archive.domain.advice import History, combination_of, history_of
from pretrain_archive.domain.cost import COST_KINDS, RunAccount, account
from pretrain_archive.domain.cost_idle import IdleCandidate, idle_candidates
from pretrain_archive.domain.cost_report import By, Report
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import format_time, parse_time, utc_now
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import STATE_KINDS, RunView
from pretrain_archive.ledger.port import Ledger, RunQuery, RunRow

PAGE = 200
"""Runs that are listed at a time."""

HISTORY = ("configuration.declared", "launch.intended", "attempt.ended")
KINDS = tuple(dict.fromkeys((*COST_KINDS, *STATE_KINDS)))


def period(since: str, until: str) -> tuple[str, str]:
    """Two moments as the ledger writes them; a day without a time begins at midnight UTC. Empty is open."""
    return _moment("--since", since), _moment("--until", until)


def _moment(option: str, text: str) -> str:
    if not text:
        return ""
    try:
        return format_time(parse_time(f"{text}T00:00:00Z" if len(text) == len("2026-01-01") else text))
    except ValueError as error:
        hint = "Write a day such as 2026-11-29, or a moment with its zone such as 2026-11-29T10:00:00Z."
        raise InputError(option, text, "is no day and no moment", hint=hint) from error


def runs_between(
    ledger: Ledger, *, project: str = "", since: str = "", until: str = "", page: int = PAGE
) -> Iterator[RunRow]:
    """Runs that were opened in a period, newest first, a page at a time."""
    before: int | None = None
    while rows := ledger.runs(RunQuery(project=project, limit=page, before=before)):
        for row in rows:
            if since and row.opened_at < since:
                continue
            if not until or row.opened_at < until:
                yield row
        before = rows[-1].position


def accounts(
    ledger: Ledger, *, project: str = "", since: str = "", until: str = "", as_of: str = ""
) -> Iterator[RunAccount]:
    """The account of each run of a period, one after the other; stored bytes count until ``as_of`` (now)."""
    moment = as_of or utc_now()
    for row in runs_between(ledger, project=project, since=since, until=until):
        view = RunView.of(row.run_uid, ledger.records(streams=[row.run_uid], kinds=KINDS))
        yield account(view, as_of=moment)


def report(
    ledger: Ledger, by: By, *, project: str = "", since: str = "", until: str = "", as_of: str = ""
) -> Report:
    """All runs of a period put together by one attribute."""
    found = accounts(ledger, project=project, since=since, until=until, as_of=as_of)
    return Report(by=by).add_all(found)


def idle(
    ledger: Ledger, *, project: str = "", now: str = "", retain_days: float = 14.0,
    silent_minutes: float | None = None,
) -> Iterator[IdleCandidate]:  # fmt: skip
    """What could be given back now, over all runs."""
    moment = now or utc_now()
    for row in runs_between(ledger, project=project):
        view = RunView.of(row.run_uid, ledger.records(streams=[row.run_uid], kinds=KINDS))
        yield from idle_candidates(view, moment, retain_days=retain_days, silent_minutes=silent_minutes)


def history(ledger: Ledger, view: RunView, *, most: int = PAGE) -> History:
    """What the newest ``most`` runs of the run's project tell of failures, on the same combination of hardware alone.

    The run itself is left out; where it is unrecorded what it ran on, nobody else's failures are taken for its own.
    """
    like, project = combination_of(view), view.opened.project if view.opened else ""
    runs = [
        row.run_uid
        for row in ledger.runs(RunQuery(project=project, limit=most))
        if row.run_uid != view.run_uid
    ]
    told: dict[str, list[Record]] = {}
    if runs and like is not None:
        for record in ledger.records(streams=runs, kinds=HISTORY):
            told.setdefault(record.stream, []).append(record)
    views = (RunView.of(uid, records) for uid, records in told.items())
    return sum((history_of(other) for other in views if combination_of(other) == like), History())
