"""The reference DAG in a real Airflow: the whole line, what it leaves, and what outlives Airflow's own rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import DAG, House
from waiting import wait_for

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.domain import kinds
from pretrain_archive.gates.service import gate_view, load_run

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def done(house: House) -> str:
    """A DAG run that went from the form to its package."""
    dag_run_id = house.trigger()
    assert house.finish(dag_run_id) == "success"
    return dag_run_id


@pytest.mark.requirement("R001", "R018", "R020", "R139", "R141", "R143")
def test_run_closes_with_a_package_that_verifies(house: House, done: str) -> None:
    """Three signed gates lead to a closed run whose package verifies with the key and nothing but Python."""
    view = house.view(done)
    written, closed = view.latest(kinds.PackageWritten), view.latest(kinds.RunClosed)
    assert written is not None
    assert closed is not None
    assert closed.outcome == "register"
    assert view.state == "closed"
    folder, key = Path(written.location), house.air.home / "pretrain_archive" / "ledger.pub"
    command = [sys.executable, "-I", "-S", str(folder / "verify.py"), "--json", str(folder)]
    checked = subprocess.run([*command, "--key", str(key)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout[-2000:]
    assert json.loads(checked.stdout)["verdict"] == "verified"
    assert subprocess.run(command, capture_output=True, check=False).returncode == 3


@pytest.mark.requirement("R137", "R178", "R019")
def test_each_gate_is_signed_by_a_second_person(house: House, done: str) -> None:
    """Alice submitted, bob signed each gate with a reason; the ledger holds it with the dossier's digest."""
    decisions = house.all(done, kinds.GateDecision)
    assert [d.gate for d in decisions] == ["prepare", "run", "close"]
    assert {d.person_name for d in decisions} == {"bob"}
    assert {d.self_signed for d in decisions} == {False}
    assert all(d.reason == "read and understood" for d in decisions)
    assert house.view(done).opened is not None
    assert house.view(done).opened.submitter == "alice"  # type: ignore[union-attr]  # asserted above
    for gate in ("prepare", "run", "close"):
        assert house.gate(done, gate).approved


@pytest.mark.requirement("R088", "R091", "R117", "R119", "R103")
def test_training_left_metrics_checkpoints_and_an_evaluation(house: House, done: str) -> None:
    """Loss, verified checkpoints and two baselines are in the ledger, and one candidate is kept."""
    points = [p for batch in house.all(done, kinds.MetricsRecorded) for p in batch.points if p.name == "loss"]
    assert points[-1].step == 60
    assert points[0].value is not None
    assert points[-1].value is not None
    assert points[-1].value < points[0].value
    assert [c.step for c in house.all(done, kinds.CheckpointRegistered)] == [20, 40, 60]
    report = house.all(done, kinds.EvaluationReported)[0]
    assert {b.kind for b in report.baselines} == {"untrained model", "n-gram model"}
    assert [c.kept for c in house.all(done, kinds.CandidateNamed)] == [True]


@pytest.mark.requirement("R018")
def test_xcom_is_small_and_plain(house: House, done: str) -> None:
    """Every task returned less than 8 KiB of plain JSON (case P05)."""
    for task_id in house.air.task_states(DAG, done):
        path = house.air.task_path(DAG, done, task_id).replace("/-1", "")
        answer = house.air.request("admin", "GET", f"{path}/xcomEntries/return_value")
        if answer.status_code == 200:
            value = answer.json()["value"]
            assert len(json.dumps(value, allow_nan=False)) < 8192


def test_the_logs_of_the_data_tasks_say_what_was_done(house: House, done: str) -> None:
    """Each data task tells its result in a line, and the validator's own workings do not bury it."""
    words = {
        "register_source": "is registered as",
        "snapshot": "files,",
        "process": "documents",
        "quality_check": "gates passed",
    }
    logs = {task: house.air.task_log_tail(DAG, done, task, lines=1000) for task in words}

    assert [] == [task for task, said in words.items() if said not in logs[task]]
    assert "Skipping registering" not in logs["quality_check"]


@pytest.mark.requirement("R154", "R057")
def test_temporary_data_is_gone_and_that_is_recorded(house: House, done: str) -> None:
    """The teardown removed the laid-out data and proved its absence."""
    view = house.view(done)
    assert not (house.air.home / "pretrain_archive" / "work" / "runs" / view.run_uid / "data").exists()


def scheduled_cleanup(house: House) -> str | None:
    """The run that the daily schedule started, or None yet."""
    runs = house.air.api("admin", "GET", "/api/v2/dags/retention_cleanup/dagRuns")["dag_runs"]
    return next((str(run["dag_run_id"]) for run in runs), None)


@pytest.mark.requirement("R098", "R147", "R149", "R150", "R151")
def test_clean_up_deletes_recovery_checkpoints_and_leaves_tombstones(house: House, done: str) -> None:
    """The daily clean-up removes what policy lets go; the candidate's checkpoint stays; links still resolve."""
    house.air.api("admin", "PATCH", "/api/v2/dags/retention_cleanup", {"is_paused": False})
    run = wait_for("the scheduled clean-up", lambda: scheduled_cleanup(house), timeout=120)
    question = house.air.wait_question("retention_cleanup", run, "approve")
    assert house.sign(question, user="alice") == 403
    assert house.sign(question) == 200
    assert house.air.wait_run("retention_cleanup", run) == "success"
    chosen = house.all(done, kinds.CandidateNamed)[0].checkpoint_id
    by_id = {c.checkpoint_id: c for c in house.all(done, kinds.CheckpointRegistered)}
    gone = {i for i, c in by_id.items() if not Path(str(to_path(c.location))).exists()}
    recovery = sorted((c.step, i) for i, c in by_id.items() if i != chosen)
    assert gone == {i for _, i in recovery[:-1]}, "the candidate's and the newest recovery checkpoint stay"
    assert gone
    stones = {r.payload["ref"] for r in house.ledger().records(kinds=["tombstone.written"])}
    assert {f"checkpoint:{i}" for i in gone} <= stones


@pytest.mark.requirement("R023", "R025", "R184")
@pytest.mark.case("A05")
def test_clearing_a_closed_dag_run_opens_a_new_run(house: House, done: str) -> None:
    """After success a cleared DAG run is a new run derived from the closed one; nothing is overwritten."""
    [first] = house.runs(done)
    before = [record.stored for record in house.ledger().records(streams=[first])]
    path = house.air.run_path(DAG, done) + "/clear"
    assert house.air.request("alice", "POST", path, {"dry_run": False}).status_code == 200
    house.air.wait_question(DAG, done, "prepare_gate")
    second = house.runs(done)
    assert second[1:] == [first]
    opened = house.view(done).opened
    assert opened is not None
    assert opened.derived_from == first
    assert [record.stored for record in house.ledger().records(streams=[first])] == before


@pytest.mark.requirement("R045", "R165")
def test_tasks_link_to_the_pages_of_the_run(house: House, done: str) -> None:
    """The grid's extra links lead to the run's page and to the gate view."""
    path = house.air.task_path(DAG, done, "prepare_gate").replace("/-1", "")
    links = house.air.api("alice", "GET", f"{path}/links")["extra_links"]
    assert set(links) == {"Dossier", "Gate"}
    for link in links.values():
        answer = house.air.request("alice", "GET", link.removeprefix(house.air.url))
        assert answer.status_code in {200, 303}


@pytest.mark.last
@pytest.mark.requirement("R004", "R159", "R157")
@pytest.mark.case("G05")
def test_everything_is_answered_after_airflow_forgot_the_run(house: House, done: str) -> None:
    """After deletion of the DAG run and ``airflow db clean`` runs, traces and gates still answer."""
    run_uid = house.runs(done)[-1]
    if house.air.run_state(DAG, done) == "running":  # the cleared run still waits at its gate
        house.air.api("admin", "PATCH", house.air.run_path(DAG, done), {"state": "failed"})
        house.air.wait_run(DAG, done)  # Airflow derives its state from the teardown
    assert house.air.request("admin", "DELETE", house.air.run_path(DAG, done)).status_code in {200, 204}
    cleaned = subprocess.run(
        [str(Path(sys.executable).with_name("airflow")), "db", "clean", "--clean-before-timestamp",
         "2099-01-01T00:00:00+00:00", "--skip-archive", "-y"],
        env=house.air.environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert cleaned.returncode == 0, cleaned.stderr[-2000:]
    shown = house.json("run", "show", run_uid)
    assert {gate["person"] for gate in shown["gates"] if gate.get("person")} == {"bob"}
    traced = house.json("run", "trace", f"run:{run_uid}", "--direction", "backward")
    assert any(node.startswith("source:") for node in map(str, traced["nodes"]))
    assert gate_view(house.ledger(), load_run(house.ledger(), run_uid), "close").approved
