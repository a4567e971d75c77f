"""The DAG of explorations in a running Airflow: nobody is asked, and the run ends closed, packaged and unreleased."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.conftest import INCLUDE, QUICK, House

from pretrain_archive.domain import kinds

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900), pytest.mark.requirement("R132")]

DAG = "exploration"


def test_it_ends_explored(house: House) -> None:
    """Triggered from its form: trained under the ceiling, closed as explored, the package says so first."""
    conf = {"project": "quick", "configuration": QUICK, "checkpoint_every": 20, "include": INCLUDE}
    dag_run_id = house.air.trigger("alice", DAG, conf)
    assert "success" == house.air.wait_run(DAG, dag_run_id)

    assert ["exploration"] == [launch.scope for launch in house.all(dag_run_id, kinds.LaunchIntended)]
    assert ["completed"] == [end.state for end in house.all(dag_run_id, kinds.AttemptEnded)]
    [end] = house.all(dag_run_id, kinds.RunClosed)
    assert "explored" == end.outcome
    assert [] == house.all(dag_run_id, kinds.GateDossier)
    assert [] == house.all(dag_run_id, kinds.ReleaseMade)
    [package] = house.all(dag_run_id, kinds.PackageWritten)
    assert end.package_digest == package.digest
    first = (Path(package.location) / "README.txt").read_text().splitlines()[0]
    assert "never a candidate" in first
    path = f"/api/v2/dags/{DAG}/dagRuns/{dag_run_id}/taskInstances/gpu_launch/xcomEntries/return_value"
    assert '"exploration"' in house.air.request("alice", "GET", path, None).text.replace("\\", "")
