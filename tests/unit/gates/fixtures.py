"""A real ledger on SQLite, a store in a folder, and runs in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledgers import Place, sqlite_template
from tests.unit.gates.asked_run import UID, AskedRun

from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.storage.files import FileStore

__all__ = ["house", "ledger", "make_run", "run", "sqlite_template", "store"]

MakeRun = Callable[..., AskedRun]


@pytest.fixture
def house(sqlite_template: Path, tmp_path: Path) -> Iterator[Place]:
    """An empty, migrated ledger on SQLite with a key and an anchor."""
    path = tmp_path / "ledger.db"
    shutil.copy(sqlite_template, path)
    place = Place(url=f"sqlite:///{path}", folder=tmp_path)
    yield place
    for opened in place.opened:
        opened.close()


@pytest.fixture
def ledger(house: Place) -> SqlLedger:
    """The ledger, opened as a writer with the key."""
    return house.open()


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """A real store in a folder."""
    return FileStore(tmp_path / "store")


@pytest.fixture
def make_run(ledger: SqlLedger, store: FileStore, tmp_path: Path) -> MakeRun:
    """Makes runs in the ledger; ``number`` tells them apart."""

    def make(number: int = 1, **more: Any) -> AskedRun:
        return AskedRun(
            ledger=ledger, store=store, folder=tmp_path / f"run-{number}", uid=UID.format(number), seed=17,
            dag_run_id=f"manual__2026-11-{number:02d}", **more,
        )  # fmt: skip

    return make


@pytest.fixture
def run(make_run: MakeRun) -> AskedRun:
    """One run of which nothing is recorded yet."""
    return make_run()
