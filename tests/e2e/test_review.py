"""A training that a rule stopped: a person looks at it, and the run goes on or ends, in a running Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.conftest import DAG, House
from tests.support.main_line import EVALUATE, TRAIN

from pretrain_archive.domain import kinds

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1500)]

NAN = """    if step == 25 and not resume:
        tell(event="metric", name="loss", step=25, tokens=250, value=float("nan"))
        time.sleep(120)
"""


@pytest.fixture
def stopped(house: House, tmp_path: Path) -> str:
    """A DAG run whose training was stopped by its NaN rule, and whose review waits."""
    at = '    if step == config.get("die_at") and not resume:\n'
    assert at in TRAIN
    (tmp_path / "train.py").write_text(TRAIN.replace(at, NAN + at))
    (tmp_path / "evaluate.py").write_text(EVALUATE)
    dag_run_id = house.trigger(
        configuration={"steps": 40}, checkpoint_every=10, train_command=["{python}", str(tmp_path / "train.py")],
        evaluate_command=["{python}", str(tmp_path / "evaluate.py")],
    )  # fmt: skip
    house.pass_gate(dag_run_id, "prepare")
    question = house.air.wait_question(DAG, dag_run_id, "stop_review")
    assert "nan" in question.body
    assert house.view(dag_run_id).state == "waiting_review"
    return dag_run_id


def answer(house: House, dag_run_id: str, outcome: str) -> None:
    """Bob answers the review."""
    question = house.air.wait_question(DAG, dag_run_id, "stop_review")
    assert house.sign(question, outcome=outcome, reason=f"looked at the loss: {outcome}") == 200


@pytest.mark.requirement("R094", "R095", "R096", "R135")
def test_a_stopped_run_is_resumed_and_completes(house: House, stopped: str) -> None:
    """Resume: one further attempt from the last verified checkpoint, by a task of its own; then the run as ever."""
    answer(house, stopped, "resume")

    assert house.finish(stopped, ("run", "close")) == "success"
    ends = house.all(stopped, kinds.AttemptEnded)
    assert [(e.attempt, e.state) for e in ends] == [(1, "stopped"), (2, "completed")]
    assert [f.rule for f in house.all(stopped, kinds.StopFired)] == ["nan_loss"]
    [reviewed] = [d for d in house.all(stopped, kinds.GateDecision) if d.gate == "review"]
    assert ("bob", "resume") == (reviewed.person_name, reviewed.outcome)
    names = ("gpu_launch", "stop_review", "gpu_resume", "second_review", "gpu_resume_again", "last_review")
    states = house.air.task_states(DAG, stopped)
    assert ["failed", "success", "success", "skipped", "skipped", "skipped"] == [
        states[name] for name in names
    ]


@pytest.mark.requirement("R095", "R196")
def test_a_stopped_run_is_closed_with_its_cost(house: House, stopped: str) -> None:
    """Stop: closed with what it took and the checkpoint that is kept; its package says that there is no release."""
    answer(house, stopped, "stop")

    assert house.air.wait_run(DAG, stopped) == "failed"
    [closed] = house.all(stopped, kinds.RunClosed)
    assert ("stopped", "20") == (closed.outcome, closed.figures["resume_step"])
    assert float(closed.figures["minutes_spent"]) > 0
    [package] = house.all(stopped, kinds.PackageWritten)
    folder = Path(package.location.removeprefix("file://"))
    assert "no release" in (folder / "index.html").read_text()
    assert house.command("package", "verify", str(folder)).returncode in {0, 3}
    assert [1] == [e.attempt for e in house.all(stopped, kinds.AttemptEnded)]
