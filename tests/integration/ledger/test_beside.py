"""A long log is read by processes beside this one: the same that is read without them, whatever becomes of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.ledgers import Place, as_owner, draft

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.ledger import beside, projecting

FIELDS = {"note.added": ("stream", "payload.text")}


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Windows of three positions and two helpers from ten positions on; every helper that was started, ended."""
    monkeypatch.setattr(beside, "FROM", 10)
    monkeypatch.setattr(beside, "WINDOW", 3)
    monkeypatch.setattr(beside, "helpers", lambda: 2)
    processes: list[subprocess.Popen[bytes]] = []
    start = beside._start

    def noted(*words: Any) -> subprocess.Popen[bytes] | None:
        process = start(*words)
        processes.extend([process] if process else [])
        return process

    monkeypatch.setattr(beside, "_start", noted)
    yield processes
    assert all(process.returncode is not None for process in processes)


def fill(place: Place, count: int = 20) -> Any:
    """A ledger with so many notes."""
    ledger = place.open()
    ledger.append([draft(number, text=f"text {number}") for number in range(count)])
    return ledger


def expected(ledger: Any, after: int = -1) -> list[tuple[int, dict[str, Any]]]:
    """The same from the records."""
    return [
        (r.position, {"kind": r.kind, "stream": r.stream, "payload": {"text": r.payload["text"]}})
        for r in ledger.records(after=after)
    ]


def test_helpers_read_what_is_there(place: Place, started: list[subprocess.Popen[bytes]]) -> None:
    """In order, from any place; what is little, and what comes in meanwhile, is read here."""
    ledger = fill(place)

    assert expected(ledger) == list(ledger.bodies(kinds=["note.added"], fields=FIELDS))
    assert 2 == len(started)
    assert expected(ledger, 7) == list(ledger.bodies(kinds=["note.added"], after=7, fields=FIELDS))
    assert 4 == len(started)
    found = ledger.bodies(kinds=["note.added"], fields=FIELDS)
    first = next(found)
    ledger.append([draft(99, text="late")])
    assert expected(ledger) == [first, *found]
    assert expected(ledger, 15) == list(ledger.bodies(kinds=["note.added"], after=15, fields=FIELDS))
    assert 6 == len(started)


def test_a_reader_that_stops_early_leaves_no_helper(place: Place) -> None:
    """They are ended with the reading."""
    found = fill(place).bodies(kinds=["note.added"], fields=FIELDS)
    next(found)
    found.close()


@pytest.mark.parametrize("broken", ["raise SystemExit(3)", "print('no frame')", "syntax error"])
def test_what_a_helper_does_not_read_is_read_here(
    place: Place, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """One that ends, says something else or cannot start costs time and nothing else."""
    ledger = fill(place)
    monkeypatch.setattr(beside, "_PROGRAM", broken)

    assert expected(ledger) == list(ledger.bodies(kinds=["note.added"], fields=FIELDS))


@pytest.mark.requirement("R005")
def test_an_edited_body_is_told_here(place: Place) -> None:
    """A helper does not hand it over; the reading here names the row."""
    ledger = fill(place)
    with as_owner(place) as owner:
        [(stored,)] = owner.all("SELECT stored FROM pretrain_archive_record WHERE position = 9")
        edited = json.dumps(json.loads(bytes(stored)) | {"stream": "project/evil"}).encode()
        owner.run("UPDATE pretrain_archive_record SET stored = ? WHERE position = 9", (edited,))

    with pytest.raises(LedgerError, match="at position 9 was edited"):
        list(ledger.bodies(kinds=["note.added"], fields=FIELDS))


def test_windows_hold_what_lies_in_them(place: Place) -> None:
    """Behind the first position and up to the second."""
    ledger = fill(place, 8)

    found = projecting.read_window(ledger.database, "note.added", (1, 4), FIELDS["note.added"])

    assert expected(ledger)[2:5] == found
