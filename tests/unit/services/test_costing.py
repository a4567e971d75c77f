"""Accounts over a ledger: a page of runs at a time, a period, and what a project's runs tell of failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.domain.told_run import Told

from pretrain_archive.domain.advice import History
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.services import costing


def uid(number: int) -> str:
    """The uid of a run."""
    return f"run_019a0000-0000-7000-8000-{number:012d}"


def put(ledger: SqlLedger, told: Told) -> None:
    """Write a run into a ledger."""
    for place, record in enumerate(told.records):
        draft = Draft(
            stream=record.stream, kind=record.kind, payload=record.payload, actor=record.actor,
            origin=record.origin, attempt=record.attempt, ordinal=place,
        )  # fmt: skip
        ledger.append([draft])


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    """Five runs of ten seconds, the last two failed, of the projects a and b in turn."""
    made = open_ledger(
        f"sqlite:///{tmp_path / 'ledger.db'}", signing_key=None, anchors=(), create=True, auto_seal=False
    )
    for number in range(5):
        told = Told(run_uid=uid(number))
        told.open(project="ab"[number % 2])
        told.launch(1, 0)
        told.start(1, 1)
        told.end(1, 10, took=10, state="failed" if number >= 3 else "completed")
        put(made, told)
    yield made
    made.close()


@pytest.mark.parametrize("page", [1, 2, 5, 200])
def test_every_run_once_whatever_the_page(ledger: SqlLedger, page: int) -> None:
    """All runs are read, newest first, none twice."""
    assert [uid(n) for n in (4, 3, 2, 1, 0)] == [
        row.run_uid for row in costing.runs_between(ledger, page=page)
    ]


def test_a_report_of_a_project(ledger: SqlLedger) -> None:
    """Sums over the runs of one project, and what its attempts came to."""
    found = costing.report(ledger, "project", project="a").to_dict()

    (group,) = found["groups"]
    assert ("a", 3, 2, 1) == (group["group"], group["runs"], group["succeeded"], group["failed"])
    assert 30.0 == group["devices"][0]["allocated_seconds"]


def view_of(ledger: SqlLedger, number: int) -> RunView:
    """A run of the ledger."""
    return RunView.of(uid(number), ledger.records(streams=[uid(number)]))


def test_history_leaves_the_run_itself_out(ledger: SqlLedger) -> None:
    """What the other runs of the project tell of failures."""
    assert History(seconds=20.0, failures=0) == costing.history(ledger, view_of(ledger, 4))
    assert History(seconds=20.0, failures=1) == costing.history(ledger, view_of(ledger, 0))


@pytest.mark.requirement("R078")
@pytest.mark.parametrize(
    ("other", "seen"),
    [
        pytest.param({}, True, id="the same combination"),
        pytest.param({"accelerators": 8}, False, id="accelerators"),
        pytest.param({"nodes": 2}, False, id="more nodes"),
    ],
)
def test_failures_of_another_combination_are_not_taken_over(
    ledger: SqlLedger, other: dict[str, Any], seen: bool
) -> None:
    """What failed on other hardware, or on another number of nodes, says nothing about this run."""
    told = Told(run_uid=uid(9), **other)
    told.open(project="a")
    told.launch(1, 0)
    told.end(1, 10, took=10, state="failed")
    put(ledger, told)
    before = History(seconds=20.0, failures=1)

    found = costing.history(ledger, view_of(ledger, 0))

    assert (before + History(seconds=10.0, failures=1) if seen else before) == found
    stranger = RunView.of("run_x", [r for r in view_of(ledger, 0).records if r.kind == "run.opened"])
    assert History() == costing.history(ledger, stranger)  # nobody knows what it ran on


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-29", "2026-11-29T00:00:00.000000Z"),
        ("2026-11-29T10:00:00+08:00", "2026-11-29T02:00:00.000000Z"),
        ("", ""),
    ],
)
def test_a_period(text: str, expected: str) -> None:
    """A day begins at midnight UTC; a moment needs its zone."""
    assert (expected, "") == costing.period(text, "")


@pytest.mark.parametrize("text", ["soon", "2026-13-01", "2026-11-29T10:00:00"])
def test_no_period(text: str) -> None:
    """What is no moment is refused with the way to write one."""
    with pytest.raises(InputError, match="--until"):
        costing.period("", text)
