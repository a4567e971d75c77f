"""The drill's DAG in a running Airflow: a real group of workers is injured, and the records tell what followed."""

from __future__ import annotations

import pytest
from tests.e2e.conftest import House

from pretrain_archive.domain import kinds
from pretrain_archive.domain.governance_topology import TEAMS

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]


@pytest.mark.requirement("R194", "R234", "R235", "R237")
def test_the_drill_of_the_dag_is_filed(house: House) -> None:
    """Triggered from its form without any approval: it passes, and its run is an exploration with two attempts."""
    dag_run_id = house.air.trigger("alice", "recovery_drill", {"inject": "worker_exit"})
    assert "success" == house.air.wait_run("recovery_drill", dag_run_id)

    [filed] = house.all(dag_run_id, kinds.DrillFiled)
    assert filed.passed
    assert {"verified"} == {check["verdict"] for check in filed.checks}
    assert ["exploration", "exploration"] == [i.scope for i in house.all(dag_run_id, kinds.LaunchIntended)]
    [done] = house.all(dag_run_id, kinds.AttemptReconciled)
    assert (4, 4) == (done.members_loaded, done.members_expected)
    path = f"/api/v2/dags/recovery_drill/dagRuns/{dag_run_id}/taskInstances/drill/xcomEntries/return_value"
    told = house.air.api("admin", "GET", path)["value"]
    assert {f"boundary.{team}": "unrecorded" for team in TEAMS} == told["boundaries"]
