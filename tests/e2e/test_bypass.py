"""In a real Airflow: states are marked by a click and by REST and cleared, tasks and the DAG are run alone.

One DAG run waits at its gate; behind it stands a launch for every trigger rule. Persons mark the gate success, failed
and skipped and clear what is downstream, so that each launch runs more than once. None of them starts a process.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.browser import chromium, installed, logged_in
from tests.e2e.conftest import DAG, House, conf
from tests.e2e.test_fail_closed import nothing_started
from waiting import wait_for

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1500), pytest.mark.requirement("R125", "R133", "R141")]

BYPASS = "bypass_launches"
STATES = (
    ("bob", "failed"), ("alice", "success"), ("admin", "skipped"), ("alice", "success"), ("bob", "failed"),
    ("admin", "success"),
)  # fmt: skip
RAN = {"failed", "success", "up_for_retry"}


@pytest.fixture(scope="module")
def waiting(house: House) -> str:
    """A DAG run whose gate waits."""
    dag_run_id = house.air.trigger("alice", BYPASS, full_conf(house))
    house.air.wait_question(BYPASS, dag_run_id, "prepare_gate")
    return dag_run_id


def full_conf(house: House, project: str = "quick") -> dict[str, Any]:
    """All values of the reference DAG's form, for a DAG that has no defaults."""
    params = house.air.api("admin", "GET", f"/api/v2/dags/{DAG}/details")["params"]
    return {name: param["value"] for name, param in params.items()} | conf(project)


def launches(house: House, dag_run_id: str) -> list[dict[str, Any]]:
    """The launches of the DAG run."""
    return [t for t in house.air.task_instances(BYPASS, dag_run_id) if t["task_id"].startswith("launch_")]


def mark(house: House, dag_run_id: str, state: str, *, user: str, task: str = "prepare_gate") -> None:
    """Set a task's state by REST, as the button of the pages does."""
    path = house.air.task_path(BYPASS, dag_run_id, task).replace("/-1", "")
    assert 200 == house.air.request(user, "PATCH", path, {"new_state": state}).status_code


def clear(house: House, dag_run_id: str, *, user: str) -> None:
    """Clear every launch."""
    body = {
        "dry_run": False, "dag_run_id": dag_run_id, "only_failed": False, "include_downstream": False,
        "task_ids": [task["task_id"] for task in launches(house, dag_run_id)],
    }  # fmt: skip
    answer = house.air.request(user, "POST", f"/api/v2/dags/{BYPASS}/clearTaskInstances", body)
    assert 200 == answer.status_code, answer.text


@pytest.mark.browser
@pytest.mark.skipif(not installed(), reason="Chromium is not installed (apt-get install chromium)")
def test_marked_by_a_click(house: House, waiting: str) -> None:
    """Alice opens the waiting gate in Airflow's own pages and marks it success: the launches run and are refused."""
    with chromium() as browser:
        context = logged_in(
            browser, url=house.air.url, token=house.air.token("alice"), locale="en-US",
            viewport={"width": 1400, "height": 900},
        )  # fmt: skip
        page = context.new_page()
        page.goto(f"{house.air.url}/dags/{BYPASS}/runs/{waiting}/tasks/prepare_gate")
        page.get_by_role("button", name=re.compile("^Mark .* as")).first.click()
        page.get_by_role("menuitem", name=re.compile("success", re.IGNORECASE)).click()
        page.get_by_role("dialog").get_by_role("button", name="Confirm").click()
        wait_for("the gate's state", lambda: gate_state(house, waiting) == "success", timeout=120)
    ended(house, waiting, "the click")
    assert [task for task in launches(house, waiting) if task["state"] in RAN]
    assert nothing_started(house, waiting)


def gate_state(house: House, dag_run_id: str) -> str:
    """What Airflow says of the gate's task."""
    states = {task["task_id"]: task["state"] for task in house.air.task_instances(BYPASS, dag_run_id)}
    return str(states["prepare_gate"])


def ended(house: House, dag_run_id: str, why: str) -> None:
    """Wait until the DAG run's launches have run."""
    wait_for(
        f"launches after {why}",
        lambda: house.air.run_state(BYPASS, dag_run_id) in {"failed", "success"},
        timeout=600,
    )


def test_marked_and_cleared(house: House, waiting: str) -> None:
    """Gate marked in turn, by three persons; launches cleared between, so that at least twenty of them run."""
    tried = 0
    for user, state in itertools.islice(itertools.cycle(STATES), 3 * len(STATES)):
        if tried >= 20:
            break
        mark(house, waiting, state, user=user)
        if any(task["state"] in RAN for task in launches(house, waiting)):
            clear(house, waiting, user="alice")
        ended(house, waiting, state)
        tried += sum(1 for task in launches(house, waiting) if task["state"] in RAN)
        assert nothing_started(house, waiting)
    assert tried >= 20, tried


@pytest.mark.parametrize(
    ("words", "launches"),
    [
        pytest.param(("tasks", "test", BYPASS, "launch_all_success"), 1, id="tasks test"),
        pytest.param(("dags", "test", "--mark-success-pattern", "prepare_gate", BYPASS), 4, id="dags test"),
    ],
)
def test_run_alone(house: House, waiting: str, words: tuple[str, ...], launches: int) -> None:
    """The command line of Airflow runs a task by itself, or the whole DAG with its gate marked success.

    Its exit code says nothing: it is 0 where the task failed, too. The task's own words tell that it tried.
    """
    before = len(list(house.ledger().records(kinds=["launch.intended", "attempt.started"])))
    extra = ["--conf", json.dumps(full_conf(house, "hurry"))] if words[0] == "dags" else [waiting]
    done = airflow(house, *words, *extra)
    refused = re.findall(r"AirflowFailException: refused: no launch: (.*)", done.stdout + done.stderr)
    assert len(refused) >= launches, done.stdout[-3000:]
    assert all("the prepare gate has no decision in the ledger" in reason for reason in refused), refused
    assert before == len(list(house.ledger().records(kinds=["launch.intended", "attempt.started"])))


def airflow(house: House, *words: str) -> Any:
    """Airflow's own command line with this installation's settings."""
    program = [str(Path(sys.executable).with_name("airflow")), *words]
    return subprocess.run(
        program, env=house.air.environment(), capture_output=True, text=True, timeout=300, check=False
    )
