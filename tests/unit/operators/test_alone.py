"""Tasks reach the ledger by its own connection and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.operators import alone
from tests.unit.operators.conftest import options

ROOT = Path(__file__).parents[3]
UNREACHABLE = "postgresql+psycopg://nobody:nothing@127.0.0.1:1/airflow"


@pytest.mark.case("P03")
def test_airflow_database_is_not_needed(opener, installation, tmp_path):
    """With Airflow's database out of reach tasks work, and connect to the ledger's file alone."""
    home = tmp_path / "home"
    env = os.environ | options(installation, tmp_path) | {
        "AIRFLOW_HOME": str(home), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": UNREACHABLE,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": UNREACHABLE, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(Path(alone.__file__)), json.dumps(opener.values())], env=env, cwd=tmp_path,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stderr.strip().splitlines()[-1])
    assert 12 == found["values"]["snapshot"]["file_count"]
    assert "no decision in the ledger" in found["values"]["launch"]
    ledger = installation.url.removeprefix("sqlite:///")
    assert [ledger] == [path for path in found["connections"] if path != ":memory:"]
    assert found["values"]["run_uid"] == opener.runs()[0].run_uid
