"""The launch as a task fails closed: without a fresh approval in the ledger no process starts."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from tests.unit.gates.asked_run import CONF, AskedRun
from tests.unit.operators.conftest import context

from pretrain_archive.domain import kinds
from pretrain_archive_operators import GpuLaunchOperator

OTHER = "sha256:" + "0" * 64


@pytest.fixture
def touching(run: AskedRun, tmp_path) -> AskedRun:
    """A run whose training program leaves a trace if it is ever started."""
    program = tmp_path / "trainer"
    program.mkdir()
    (program / "train.py").write_text(f"open({str(tmp_path / 'started')!r}, 'w').close()\n")
    original = run.add

    def add(task, payload, *edges, **more):
        if isinstance(payload, kinds.ConfigurationDeclared):
            payload = payload.model_copy(update={"command": ["python3", str(program / "train.py")]})
        return original(task, payload, *edges, **more)

    run.add = add  # type: ignore[method-assign]
    return run


def launch(run, **more):
    """Run the task."""
    operator = GpuLaunchOperator(task_id="gpu_launch", run_uid=run.uid)
    operator.ledger, operator.store = run.ledger, run.store
    return operator.execute(context("gpu_launch", run=run, **more))


def nothing_started(run, tmp_path):
    """No process, no token, no attempt."""
    assert not (tmp_path / "started").exists()
    assert list(run.view().all(kinds.LaunchIntended)) == []
    assert list(run.view().all(kinds.AttemptStarted)) == []


def asked(run):
    """The gate waits for an answer."""
    run.until("declare").ask("prepare")


def answered_by(person, **more):
    """The gate was answered like this."""
    return lambda run: (asked(run), run.answer("prepare", person=person, **more))


def changed(task, model, **changes):
    """Something was changed after the signature."""
    return lambda run: (run.until("prepare"), run.replace(task, model, **changes))


NO_DECISION = "the prepare gate has no decision in the ledger"
CASES = {
    "gate never asked": (lambda run: run.until("declare"), NO_DECISION),
    "gate marked as success by hand": (asked, NO_DECISION),
    "answered by the submitter": (answered_by("alice"), NO_DECISION),
    "answered by a stranger": (answered_by("mallory"), NO_DECISION),
    "answered on a stale form": (answered_by("bob", dossier_digest=OTHER), NO_DECISION),
    "rejected": (answered_by("bob", option="Reject"), "closed and frozen"),
    "other data": (changed("snapshot", kinds.SnapshotCreated, manifest_digest=OTHER), "snapshot_digest: "),
    "other configuration": (
        changed("open_run", kinds.ConfigurationDeclared, configuration_digest=OTHER), "configuration_digest: ",
    ),
    "quality failed later": (
        changed("quality_check", kinds.QualityReported, passed=False), "prepare.quality is changed"
    ),
    "closed": (lambda run: (run.until("prepare"), run.close_run()), "closed and frozen"),
    "data missing": (lambda run: run.until("open"), "the configuration is unrecorded"),
}  # fmt: skip


@pytest.mark.case("G01", "G05")
@pytest.mark.parametrize("name", CASES)
def test_fails_closed(touching, tmp_path, name):
    """Whatever is missing or stale is named; nothing starts and no token is used."""
    arrange, text = CASES[name]
    arrange(touching)

    with pytest.raises(AirflowFailException, match="refused: ") as raised:
        launch(touching)

    assert text in str(raised.value)
    nothing_started(touching, tmp_path)


def test_code_changed(touching, tmp_path):
    """A program that is not the signed one is not started."""
    touching.until("prepare")

    with pytest.raises(AirflowFailException, match="the training code changed after it was signed"):
        launch(touching)
    nothing_started(touching, tmp_path)


def test_policy_changed(touching, tmp_path):
    """A policy that changed after the run was opened launches nothing."""
    touching.until("prepare")
    policy = tmp_path / "policies" / "demo.toml"
    policy.write_text(policy.read_text() + "\n# edited\n")

    with pytest.raises(AirflowFailException, match=r"the policy demo\.toml changed"):
        launch(touching)
    nothing_started(touching, tmp_path)


def test_other_dag_run(touching, tmp_path):
    """A run uid put into another DAG run's XCom launches nothing."""
    touching.until("prepare")

    with pytest.raises(AirflowFailException, match="belongs to DAG run"):
        launch(touching, dag_run_id="manual__other")
    nothing_started(touching, tmp_path)


@pytest.mark.parametrize("run_uid", ["run_none", "None", ""])
def test_unknown_run(touching, tmp_path, run_uid):
    """A run that is not in the ledger launches nothing."""
    touching.uid, known = run_uid, touching.uid

    with pytest.raises(AirflowFailException, match="is not in the ledger"):
        launch(touching)
    touching.uid = known
    nothing_started(touching, tmp_path)


def test_refusal_is_recorded(touching):
    """The failure stands in the run, with everything that is missing, whatever tries are left."""
    asked(touching)

    with pytest.raises(AirflowFailException):
        launch(touching, try_number=1, max_tries=3)

    failed = touching.view().latest(kinds.RunFailed)
    assert ("gpu_launch", "refused") == (failed.task_id, failed.error_code)
    assert "no decision" in failed.reason


def ended(state, **changes):
    """How an attempt ended."""
    values = {
        "attempt": 1,
        "state": state,
        "exit_code": 1,
        "reason": "died",
        "last_step": 7,
        "last_checkpoint_step": 5,
    }
    return kinds.AttemptEnded(**values | changes)


@pytest.mark.parametrize(
    ("state", "tries", "kind"),
    [
        pytest.param("failed", (1, 2), AirflowException, id="failed, tries left"),
        pytest.param("lost", (2, 2), AirflowException, id="lost, the last try to come"),
        pytest.param("failed", (3, 2), AirflowFailException, id="failed, no try left"),
        pytest.param("interrupted", (1, 0), AirflowFailException, id="interrupted, never retried"),
        pytest.param("stopped", (1, 2), AirflowFailException, id="a stop rule fired"),
    ],
)
def test_not_completed(run, state, tries, kind):
    """Only what may pass by itself is tried again; a stop rule ends the run for a person to look at."""
    run.until("prepare")
    operator = GpuLaunchOperator(task_id="gpu_launch", run_uid=run.uid)
    operator.ledger = run.ledger
    ctx = context("gpu_launch", run=run, try_number=tries[0], max_tries=tries[1])

    error = operator._not_completed(ctx, ended(state), run.uid)

    assert type(error) is kind
    assert f"attempt 1 {state} at step 7: died" in str(error)
    assert (run.view().state == "failed") == (kind is AirflowFailException)


@pytest.mark.parametrize("scope", ["full", "exploration"])
def test_result_tells_its_scope(make_run, scope):
    """What later tasks get of a launch says whether it was signed for."""
    run = make_run(conf=CONF | {"scope": scope}).until("declare")
    operator = GpuLaunchOperator(task_id="gpu_launch", run_uid=run.uid)
    operator.ledger = run.ledger

    value = operator._done(context("gpu_launch", run=run), ended("completed", seconds=3.0))

    assert ("completed", scope, 7) == (value["state"], value["scope"], value["last_step"])


def test_killed_without_a_job():
    """A task that is killed before anything started has nothing to end."""
    GpuLaunchOperator(task_id="gpu_launch", run_uid="run_x").on_kill()
