"""What the list of runs shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from pretrain_archive.domain import kinds
from pretrain_archive.domain.exploration import is_exploration
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import STATE_KINDS, RunView
from pretrain_archive.domain.verdicts import counts
from pretrain_archive.gates.sources import with_later_facts
from pretrain_archive.ledger.port import Ledger, RunQuery, RunRow
from pretrain_archive.web.evidence import evidence

PAGE = 50
LOOK_AT_MOST = 1000
"""How many runs one request looks through for a state, which no index knows; the page says where it stopped."""

WAITING_WITHIN = 200
"""How many of the newest runs are looked at for waiting gates on the first page."""

STATES = (
    "waiting",
    "training",
    "open",
    "failed",
    "closed",
)
"""The values of the state filter; ``waiting`` stands for every gate."""

EVIDENCE_KINDS = tuple(name for name in kinds.KINDS if name not in {"metrics.recorded", "event.recorded"})
"""What verdict counts need: everything but the bulky series."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLine:
    """A run in the list; ``counts`` is None where evidence was not counted."""

    row: RunRow
    state: str
    waiting: str | None
    since: str | None
    counts: dict[str, int] | None = None
    exploration: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RunsPage:
    """One page of the list; ``older`` is the key of the next page, ``looked`` how many runs were looked through."""

    lines: tuple[RunLine, ...]
    waiting: tuple[RunLine, ...]
    older: int | None
    looked: int
    first: bool


def runs_page(
    ledger: Ledger, *, dag_ids: Collection[str], text: str, state: str, before: int | None
) -> RunsPage:
    """A page of runs of ``dag_ids``, newest first; the first page also names the gates that wait."""
    lines: list[RunLine] = []
    looked, key, older = 0, before, None
    while True:
        rows = ledger.runs(RunQuery(text=text, dag_ids=dag_ids, limit=PAGE, before=key))
        for line in _lines(ledger, rows):
            key, looked = line.row.position, looked + 1
            if fits(line.state, state):
                lines.append(line)
            if len(lines) == PAGE:
                break
        if len(lines) == PAGE or looked >= LOOK_AT_MOST:
            older = key
            break
        if len(rows) < PAGE:
            break
    first = before is None and not state and not text
    return RunsPage(
        lines=tuple(_counted(ledger, lines)),
        waiting=tuple(_waiting(ledger, dag_ids)) if first else (),
        older=older if older is not None and _more(ledger, dag_ids, text, older) else None,
        looked=looked,
        first=first,
    )


def _more(ledger: Ledger, dag_ids: Collection[str], text: str, before: int) -> bool:
    return bool(ledger.runs(RunQuery(text=text, dag_ids=dag_ids, limit=1, before=before)))


def _waiting(ledger: Ledger, dag_ids: Collection[str]) -> list[RunLine]:
    rows = ledger.runs(RunQuery(dag_ids=dag_ids, limit=WAITING_WITHIN))
    waiting = [line for line in _lines(ledger, rows) if line.waiting]
    return sorted(waiting, key=lambda line: line.since or "")


def _counted(ledger: Ledger, lines: list[RunLine]) -> list[RunLine]:
    read = _views(ledger, [line.row.run_uid for line in lines], EVIDENCE_KINDS)
    views = {view.run_uid: view for view in with_later_facts(ledger, read.values())}
    return [
        replace(line, counts=counts(evidence(view)), exploration=is_exploration(view))
        for line, view in ((line, views[line.row.run_uid]) for line in lines)
    ]


def fits(state: str, wanted: str) -> bool:
    """Whether a run's state passes the filter; an empty filter passes all."""
    return not wanted or state == wanted or (wanted == "waiting" and state.startswith("waiting_"))


def _lines(ledger: Ledger, rows: Iterable[RunRow]) -> list[RunLine]:
    """The state of each run. Most are closed, which one small record says: only the others are read further."""
    rows = list(rows)
    closed = set(_streams(ledger, [row.run_uid for row in rows], ("run.closed",)))
    views = _views(ledger, [row.run_uid for row in rows if row.run_uid not in closed], STATE_KINDS)
    return [
        RunLine(row=row, state="closed", waiting=None, since=None)
        if row.run_uid in closed
        else _line(row, views[row.run_uid])
        for row in rows
    ]


def _streams(ledger: Ledger, uids: list[str], wanted: Collection[str]) -> list[str]:
    return [record.stream for record in ledger.records(streams=uids, kinds=wanted)] if uids else []


def _line(row: RunRow, view: RunView) -> RunLine:
    waiting = view.waiting_gate() if view.state.startswith("waiting_") else None
    asked = view.dossier(waiting) if waiting else None
    return RunLine(
        row=row, state=view.state, waiting=waiting, since=asked[0].recorded_at if asked else None,
        exploration=is_exploration(view),
    )  # fmt: skip


def _views(ledger: Ledger, uids: list[str], wanted: Collection[str]) -> dict[str, RunView]:
    found: dict[str, list[Record]] = {uid: [] for uid in uids}
    if uids:
        for record in ledger.records(streams=uids, kinds=wanted):
            found[record.stream].append(record)
    return {uid: RunView.of(uid, records) for uid, records in found.items()}
