"""Whoever only reads makes nothing: no database, no key, no change of another program's file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.support.ledgers import draft

from pretrain_archive import services
from pretrain_archive.cli import run_command
from pretrain_archive.domain.errors import BehindAnchorError
from pretrain_archive.ledger.factory import NoLedgerError, open_ledger
from pretrain_archive.web.sources import Configured

RUN = "run_01"
READS = {
    "verify": ["ledger", "verify"],
    "list": ["run", "list"],
    "show": ["run", "show", RUN],
    "trace": ["run", "trace", f"run:{RUN}"],
    "diff": ["run", "diff", RUN, RUN],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, whose ledger would lie in ``pretrain_archive``."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    for name in ("DATABASE_URL", "SIGNING_KEY", "PUBLIC_KEYS", "ANCHORS"):
        monkeypatch.delenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{name}", raising=False)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", READS)
def test_reading_makes_no_ledger_and_no_key(
    home: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A missing database is one clear line, and the home stays empty."""
    assert 2 == run_command(READS[name])
    said = capsys.readouterr().err
    assert "There is no ledger at sqlite:" in said
    assert "there is no file" in said
    assert {} == files(home)


def test_pages_make_no_ledger(home: Path) -> None:
    """The same for the pages' sources; once a writer has made the ledger they read it."""
    pages = Configured()
    with pytest.raises(NoLedgerError):
        pages.ledger()
    assert {} == files(home)
    services.open_ledger().append([draft(0)])
    assert 1 == len(list(pages.ledger().records()))


@pytest.mark.parametrize("name", ["verify", "list"])
def test_reading_leaves_another_database_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A file of another program is named and keeps every byte."""
    with sqlite3.connect(home / "other.db") as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = files(home)
    monkeypatch.setenv("AIRFLOW__PRETRAIN_ARCHIVE__DATABASE_URL", f"sqlite:///{home}/other.db")
    assert 2 == run_command(READS[name])
    assert "other.db does not hold the ledger's tables" in capsys.readouterr().err
    assert before == files(home)


def test_missing_key_is_not_made_by_reading(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the ledger there and the key's path wrong, a reader makes no other key."""
    ledger = services.open_ledger()
    ledger.append([draft(0)])
    ledger.seal()
    monkeypatch.setenv("AIRFLOW__PRETRAIN_ARCHIVE__SIGNING_KEY", str(home / "wrong" / "ledger.key"))
    before = files(home)
    run_command(["ledger", "verify"])
    assert before == files(home)


def test_anchor_that_is_ahead_of_nothing_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ledger that was removed is told from one that never was, by reader and by writer."""
    ledger = services.open_ledger()
    ledger.append([draft(0), draft(1)])
    ledger.seal()
    ledger.close()
    (home / "pretrain_archive" / "ledger.db").unlink()
    assert 2 == run_command(["ledger", "verify"])
    assert "knows 2 records of it: the database was removed" in capsys.readouterr().err
    with pytest.raises(BehindAnchorError, match=r"The database is empty, but the anchor .* knows 2 records"):
        services.open_ledger().append([draft(2)])


def test_database_that_vanishes_is_not_made_again(tmp_path: Path) -> None:
    """Also a process that has long been open makes no empty file in its place."""
    path = tmp_path / "ledger.db"
    ledger = open_ledger(f"sqlite:///{path}", signing_key=None, anchors=[], create=True)
    ledger.append([draft(0)])
    ledger.close()
    path.unlink()
    with pytest.raises(Exception, match="there is no file"):
        ledger.append([draft(1)])
    assert not path.exists()
