"""``airflow db migrate`` makes and upgrades the ledger in the database that its own URL names."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.ledgers import draft
from tests.support.postgres import Server

from pretrain_archive.ledger import migrate

AIRFLOW = Path(sys.executable).parent / "airflow"


def airflow(home: Path, *arguments: str, managers: str, **settings: str) -> str:
    """Run the airflow command with its own home and return what it said."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")}
    environment |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__EXTERNAL_DB_MANAGERS": managers,
        **settings,
    }
    done = subprocess.run(
        [AIRFLOW, *arguments],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout + done.stderr


MANAGER = "pretrain_archive.ledger.db_manager.LedgerDBManager"


@pytest.mark.airflow
def test_airflow_migrates_the_ledger_beside_its_own_database(tmp_path: Path, postgres_server: Server) -> None:
    """On a fresh Airflow the SQLite default is made; on a migrated one another database, by its URL; reset keeps it."""
    airflow(tmp_path, "db", "migrate", managers=MANAGER)
    path = tmp_path / "pretrain_archive" / "ledger.db"
    assert migrate.head() == migrate.current(f"sqlite:///{path}")
    assert [] == _ledger_tables(tmp_path / "airflow.db")

    name = postgres_server.create_database()
    url = postgres_server.url(name)
    setting = {"AIRFLOW__PRETRAIN_ARCHIVE__DATABASE_URL": url}
    airflow(tmp_path, "db", "migrate", managers=MANAGER, **setting)
    assert migrate.head() == migrate.current(url)
    postgres_server.drop_database(name)

    from pretrain_archive.ledger.factory import open_ledger

    ledger = open_ledger(f"sqlite:///{path}", signing_key=None, anchors=[])
    ledger.append([draft(0)])
    airflow(tmp_path, "db", "reset", "--yes", managers=MANAGER)
    assert 1 == len(list(ledger.records()))


def _ledger_tables(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        return [
            row[0]
            for row in connection.execute(
                "SELECT name FROM sqlite_master WHERE name LIKE 'pretrain_archive%'"
            )
        ]
