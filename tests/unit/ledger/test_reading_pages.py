"""A long stream is read page by page at the cost of each page, in the order in which it was written."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledgers import Place, as_owner
from tests.support.packages import ACTOR, ORIGIN

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.domain.kinds import NoteAdded, RunFailed
from pretrain_archive.domain.records import Draft
from pretrain_archive.ledger import reading
from pretrain_archive.ledger.migrate import migrate

PAGE = 7


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Two streams whose records alternate."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    migrate(url)
    place = Place(url=url, folder=tmp_path)
    monkeypatch.setattr(reading, "PAGE", PAGE)
    note = NoteAdded(topic="note", text="x").to_json()
    failed = RunFailed(task_id="t", error_code="e", reason="r").to_json()
    facts = [("note.added", note) if n % 3 else ("run.failed", failed) for n in range(60)]
    drafts = [
        Draft(stream=f"run_{n % 2}", kind=kind, payload=payload, actor=ACTOR, origin=ORIGIN, ordinal=n)
        for n, (kind, payload) in enumerate(facts)
    ]
    place.open().append(drafts)
    return place


@pytest.mark.parametrize("after", [-1, 0, 13, 58, 99])
@pytest.mark.parametrize("limit", [None, 1, PAGE, PAGE + 1])
@pytest.mark.parametrize("kinds", [(), ("run.failed",)])
def test_pages_give_every_record_once(
    filled: Place, after: int, limit: int | None, kinds: tuple[str, ...]
) -> None:
    """Whatever the page size, the start, the limit and the kinds: one stream in the order of its positions."""
    ledger = filled.open()
    everything = [r for r in ledger.records() if r.stream == "run_1" and r.position > after]
    expected = [r for r in everything if not kinds or r.kind in kinds][:limit]

    assert expected == list(ledger.records(streams=["run_1"], kinds=kinds, after=after, limit=limit))


def test_no_page_sorts_the_stream(filled: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page goes on in the index where the last one ended."""
    asked: list[tuple[str, list[Any]]] = []
    rows = reading._rows
    monkeypatch.setattr(
        reading,
        "_rows",
        lambda database, sql, parameters: (asked.append((sql, parameters)), rows(database, sql, parameters))[
            1
        ],
    )
    assert 30 == len(list(filled.open().records(streams=["run_0"])))

    plans = [
        sqlite3.connect(tmp_path / "ledger.db").execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()
        for sql, parameters in asked
    ]
    assert len(plans) == 30 // PAGE + 1
    assert all("sequence>?" in str(plan) and "TEMP B-TREE" not in str(plan) for plan in plans)


def test_a_record_that_was_moved_in_its_stream_is_named(filled: Place) -> None:
    """The places of two records were exchanged in the table: that is an edit, and is said."""
    with as_owner(filled) as session:
        session.run("UPDATE pretrain_archive_record SET sequence = 1000 WHERE position = 20")

    with pytest.raises(LedgerError, match="was moved"):
        list(filled.open().records(streams=["run_0"]))
