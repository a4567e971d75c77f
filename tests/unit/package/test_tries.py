"""Tries and attempts: our own numbers, Airflow's list beside them, gaps that are named and never closed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.packages import build

from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.package.tries import attempts_of, read_history, tries_of

LISTED = [
    {"task_id": "gpu_launch", "try_number": 2, "state": "failed"},
    {"task_id": "gpu_launch", "try_number": 3, "state": "success"},
    {"task_id": "gpu_launch", "try_number": 4, "state": "success"},
]
"""Airflow's answer without the try that was killed while it was queued."""


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """Attempt 1 was the task's try 2, attempt 2 its try 3, and try 4 after a clear found everything done.

    Of try 1 there is a launch that nothing followed: attempt 0 of the seeded run is given to it by hand below.
    """
    built = build(tmp_path_factory.mktemp("run"))
    records = [
        replace(record, origin=replace(record.origin, try_number=record.attempt + 1))
        if record.origin.task_id == "gpu_launch"
        else record
        for record in built.ledger.records(streams=[built.run_uid])
    ]
    return RunView.of(built.run_uid, records)


def launches(view: RunView) -> list[Record]:
    """The consumed tokens."""
    return [record for record in view.records if record.kind == "launch.intended"]


@pytest.mark.case("A09")
def test_a_try_that_airflow_does_not_list_keeps_its_number(view: RunView) -> None:
    """Nothing is renumbered: try 1 is named as unknown to both, tries 2 and 3 are joined, 4 wrote nothing here."""
    found = [one for one in tries_of(view, read_history(LISTED)) if one.task_id == "gpu_launch"]

    assert [
        (1, "nothing recorded", "no record in Airflow", ()),
        (2, "recorded", "failed", (1,)),
        (3, "recorded", "success", (2,)),
        (4, "nothing recorded", "success", ()),
    ] == [(one.try_number, one.ours, one.airflow, one.attempts) for one in found]


@pytest.mark.case("A09")
def test_attempts_are_those_that_were_launched(view: RunView) -> None:
    """Two attempts, each with the real number of its try and the checkpoints that it wrote."""
    rows = attempts_of(view, read_history(LISTED))

    assert [(1, 2, "interrupted", 2), (2, 3, "completed", 3)] == [
        (row.attempt, row.try_number, row.state, len(row.checkpoints)) for row in rows
    ]
    assert ["failed", "success"] == [row.airflow for row in rows]


@pytest.mark.case("A09")
def test_attempt_that_airflow_forgot_stands_with_its_checkpoints(view: RunView) -> None:
    """Our own row counts: an attempt whose try has no row in Airflow is shown, and says so."""
    rows = attempts_of(view, read_history(LISTED[1:]))

    assert [(1, "no record in Airflow"), (2, "success")] == [(row.attempt, row.airflow) for row in rows]
    assert all(row.checkpoints for row in rows)


@pytest.mark.case("A09")
def test_an_attempt_that_never_started_is_not_shown_as_run(view: RunView) -> None:
    """A consumed token without a process has no beginning, no checkpoints and says that it never started."""
    launch = launches(view)[0]
    extra = replace(launch, attempt=3, origin=replace(launch.origin, try_number=5), record_id="rec_queued")
    rows = attempts_of(RunView.of(view.run_uid, [*view.records, extra]))

    assert [("interrupted", True), ("completed", True), ("never started", False)] == [
        (row.state, row.began is not None) for row in rows
    ]


def test_a_list_that_was_not_asked_for_is_not_an_empty_one(view: RunView) -> None:
    """Without Airflow's list nothing is said about it; with an empty one every try is missing from it."""
    assert {"not asked"} == {one.airflow for one in tries_of(view)}
    assert {"no record in Airflow"} == {one.airflow for one in tries_of(view, [])}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param("tries", id="text"),
        pytest.param([1], id="no object"),
        pytest.param({"try_number": 1}, id="no task"),
        pytest.param({"task_id": "t", "try_number": True}, id="a truth for a number"),
        pytest.param({"task_id": "t", "try_number": 0}, id="zero"),
        pytest.param({"task_id": "t", "try_number": 10**9}, id="a number without measure"),
        pytest.param({"task_id": "t", "try_number": 1, "map_index": "x"}, id="map index"),
        pytest.param({"task_id": "t", "try_number": 1, "start_date": "soon"}, id="no moment"),
        pytest.param({"task_id": "t", "try_number": 1, "end_date": "2026-11-30T08:00:00"}, id="no zone"),
        pytest.param({"task_id": "t", "try_number": 1, "end_date": 7}, id="a number for a moment"),
    ],
)
def test_list_of_another_shape_is_refused(document: Any) -> None:
    """A list from outside is checked before anything is joined with it."""
    with pytest.raises(InputError):
        read_history(document)


def test_airflow_answers_are_read_as_they_come() -> None:
    """One answer, several in a list, or bare rows."""
    answer = {"task_instances": LISTED, "total_entries": 3}

    assert read_history(answer) == read_history(LISTED) == read_history([answer])


def test_moments_of_another_zone_are_told_in_utc() -> None:
    """Events sort by time as text: every moment is written alike."""
    row = {"task_id": "t", "try_number": 1, "start_date": "2026-11-30T09:00:00+08:00", "end_date": None}
    [found] = read_history(row)

    assert ("2026-11-30T01:00:00.000000Z", None) == (found.started, found.ended)
