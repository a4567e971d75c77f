"""Task tries and attempts of a run, from our own records first; Airflow's list is joined where it is known.

Airflow writes its history only on some paths (a try that was killed while queued may have no row), and clears may
shift it. Our records carry the number of the try that wrote them: no number is ever made up or moved, and a number
that nothing tells of stays a gap that is named. A try that wrote nothing is no run of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.identity import format_time, parse_time
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView

NOT_ASKED, NO_RECORD = "not asked", "no record in Airflow"
MOST_TRIES = 10_000
"""Of one task: a higher number in a list from outside is no number of a try."""

TaskKey = tuple[str, int]
"""Task id and map index."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AirflowTry:
    """A row of Airflow's list of tries (``GET …/taskInstances/{task}/tries``); times RFC 3339 or None."""

    task_id: str
    map_index: int
    try_number: int
    state: str
    started: str | None = None
    ended: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """One try of a task. ``ours`` is what our records say of it, ``airflow`` what Airflow's list does.

    ``ours``: ``recorded`` or ``nothing recorded``. ``airflow``: a state of Airflow, ``no record in Airflow``, or
    ``not asked`` where its list was not given. ``attempts`` are the attempts that the try launched.
    """

    task_id: str
    map_index: int
    try_number: int
    ours: str
    airflow: str
    records: int = 0
    first: str | None = None
    last: str | None = None
    attempts: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRow:
    """An attempt of the run: the try behind it, whether its program began, how it ended, its checkpoints.

    ``state`` is ``never started`` where the launch was recorded and no process began, ``unrecorded`` where one began
    and no end is known, else the state of its end.
    """

    attempt: int
    task_id: str
    try_number: int
    began: str | None
    state: str
    airflow: str
    checkpoints: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


@dataclass(kw_only=True, slots=True)
class _Seen:
    count: int = 0
    first: str | None = None
    last: str | None = None
    attempts: dict[int, None] = field(default_factory=dict)


def tries_of(view: RunView, history: Sequence[AirflowTry] | None = None) -> list[Try]:
    """Every try of every task that wrote records of the run, from 1 to the highest number that anybody knows."""
    seen: dict[TaskKey, dict[int, _Seen]] = {}
    for record in by_tasks(view):
        task = (record.origin.task_id, record.origin.map_index)
        one = seen.setdefault(task, {}).setdefault(record.origin.try_number, _Seen())
        one.count, one.first, one.last = one.count + 1, one.first or record.recorded_at, record.recorded_at
        if record.kind == "launch.intended":
            one.attempts[record.attempt] = None
    rows = {(row.task_id, row.map_index, row.try_number): row for row in history or ()}
    found = []
    for task in [*seen, *dict.fromkeys(key[:2] for key in rows if key[:2] not in seen)]:
        mine = seen.get(task, {})
        highest = max([*mine, *(number for *key, number in rows if tuple(key) == task)])
        for number in range(1, highest + 1):
            one, row = mine.get(number, _Seen()), rows.get((*task, number))
            found.append(
                Try(
                    task_id=task[0], map_index=task[1], try_number=number,
                    ours="recorded" if one.count else "nothing recorded",
                    airflow=row.state if row else NOT_ASKED if history is None else NO_RECORD,
                    records=one.count, first=one.first, last=one.last, attempts=tuple(one.attempts),
                )
            )  # fmt: skip
    return found


def attempts_of(view: RunView, history: Sequence[AirflowTry] | None = None) -> list[AttemptRow]:
    """The attempts by their own numbers: an attempt is what consumed a launch token, whatever Airflow lists."""
    began = {fact.attempt: record.recorded_at for record, fact in view.all(kinds.AttemptStarted)}
    ended = {fact.attempt: fact.state for _, fact in view.all(kinds.AttemptEnded)}
    saved: dict[int, list[str]] = {}
    for _, checkpoint in view.all(kinds.CheckpointRegistered):
        saved.setdefault(checkpoint.attempt, []).append(checkpoint.checkpoint_id)
    states = {(t.task_id, t.map_index, t.try_number): t.airflow for t in tries_of(view, history)}
    found: dict[int, AttemptRow] = {}
    for record, _ in view.all(kinds.LaunchIntended):
        origin, number = record.origin, record.attempt
        state = ended.get(number) or ("unrecorded" if number in began else "never started")
        found[number] = AttemptRow(
            attempt=number, task_id=origin.task_id, try_number=origin.try_number, began=began.get(number), state=state,
            airflow=states[origin.task_id, origin.map_index, origin.try_number],
            checkpoints=tuple(saved.get(number, ())),
        )  # fmt: skip
    return [found[number] for number in sorted(found)]


def by_tasks(view: RunView) -> Iterable[Record]:
    """The records that tasks of the run's own DAG run wrote, oldest first."""
    opened = view.opened
    mine = (opened.dag_id, opened.dag_run_id) if opened else None
    return (r for r in view.records if mine == (r.origin.dag_id, r.origin.dag_run_id))


def read_history(document: Any) -> list[AirflowTry]:
    """Airflow's answer to a request for tries, or several of them in a list; ``InputError`` for another shape."""
    if isinstance(document, Mapping):
        document = document.get("task_instances", document)
    rows = document if isinstance(document, list) else [document]
    found = []
    for row in rows:
        if isinstance(row, Mapping) and "task_instances" in row:
            found += read_history(row)
            continue
        found.append(_row(row))
    return found


def _row(row: Any) -> AirflowTry:
    hint = "Give the answer to GET /api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/tries."
    if not isinstance(row, Mapping):
        raise InputError("history", type(row).__name__, "a row is no object", hint=hint)
    task, number, index = row.get("task_id"), row.get("try_number"), row.get("map_index", -1)
    if not isinstance(task, str) or not task or type(index) is not int:
        raise InputError("history", task, "a row names no task", hint=hint)
    if type(number) is not int or not 0 < number <= MOST_TRIES:
        raise InputError("history", number, "a row has no number of a try", hint=hint)
    state = row.get("state")
    return AirflowTry(
        task_id=task, map_index=index, try_number=number, state=state if isinstance(state, str) else "unrecorded",
        started=_moment(row, "start_date"), ended=_moment(row, "end_date"),
    )  # fmt: skip


def _moment(row: Mapping[Any, Any], name: str) -> str | None:
    """A moment as our own records write it, so that both sort by time; None where Airflow tells none."""
    told = row.get(name)
    if told is None:
        return None
    try:
        return format_time(parse_time(told))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError("history", told, f"{name} is no moment with a zone") from error
