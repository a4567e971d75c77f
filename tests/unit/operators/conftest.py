"""Operators as Airflow runs them, without Airflow: settings from the environment, a context of plain objects."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

# Airflow writes its configuration file where it is imported: never into a person's home.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-home-"))

from tests.support.ledgers import Place
from tests.unit.gates.asked_run import DAG_ID, POLICY_FILE, AskedRun, without_steps
from tests.unit.gates.fixtures import house, ledger, make_run, run, sqlite_template, store
from tests.unit.services.open_runs import DAG_RUN, Opener

from pretrain_archive.ledger.sql import SqlLedger

Settings = Callable[..., None]


def options(place: Place, folder: Path) -> dict[str, str]:
    """The environment variables of one installation."""
    section = {
        "DATABASE_URL": place.url,
        "SIGNING_KEY": str(place.key),
        "ANCHORS": (folder / "anchors").as_uri(),
        "STORE_URL": (folder / "store").as_uri(),
        "WORK_FOLDER": str(folder / "work"),
        "POLICIES_FOLDER": str(folder / "policies"),
    }
    return {f"AIRFLOW__PRETRAIN_ARCHIVE__{name}": value for name, value in section.items()} | {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "alice:admin,bob:admin"
    }


@pytest.fixture(autouse=True)
def installation(house: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Settings that name the test's own ledger, store, policies and folders."""
    for name, value in options(house, tmp_path).items():
        monkeypatch.setenv(name, value)
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "demo.toml").write_text(without_steps(POLICY_FILE.read_text()))
    return house


@pytest.fixture
def opener(ledger: SqlLedger, tmp_path: Path) -> Opener:
    """A program, a folder of data and a request for both."""
    return Opener(ledger=ledger, folder=tmp_path)


def context(
    task: str, *, run: AskedRun | None = None, try_number: int = 1, max_tries: int = 0, user: str | None = "alice",
    dag_run_id: str = "", params: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """What Airflow hands to a task: the task try, the DAG run with who triggered it, the params."""
    run_id = dag_run_id or (run.dag_run_id if run else DAG_RUN)
    ti = SimpleNamespace(
        id=uuid4(), dag_id=DAG_ID, run_id=run_id, task_id=task, map_index=None, try_number=try_number,
        max_tries=max_tries, dag_version_id=None,
    )  # fmt: skip
    return {
        "ti": ti,
        "task_instance": ti,
        "dag_run": SimpleNamespace(triggering_user_name=user),
        "params": params,
    }


__all__ = ["context", "house", "ledger", "make_run", "options", "run", "sqlite_template", "store"]
