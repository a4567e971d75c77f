"""The gate as a task: it parks with the question, and every shape of answer ends as it must."""

from __future__ import annotations

from datetime import timedelta, timezone
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput
from tests.unit.gates.asked_run import ANSWERED_AT, CONF, policy_with
from tests.unit.operators.conftest import context

from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import format_time
from pretrain_archive_operators import GateApprovalOperator
from pretrain_archive_operators.base import small_json

ANSWERED = ANSWERED_AT.astimezone(timezone(timedelta(hours=8)))


def gate(run, name="prepare"):
    """The task of a gate, with the test's ledger."""
    operator = GateApprovalOperator(task_id=f"{name}_gate", run_uid=run.uid, gate=name)
    operator.ledger = run.ledger
    return operator


def parked(operator, act, *args):
    """Run ``act``; it must park. Return what Airflow was asked to show, and the parking."""
    with (
        patch("airflow.providers.standard.operators.hitl.upsert_hitl_detail") as shown,
        pytest.raises(TaskAwaitingInput) as waiting,
    ):
        act(*args)
    assert shown.call_count == 1
    assert operator.template_fields == ("run_uid",)
    return shown.call_args.kwargs, waiting.value


def event(digest, *, person="bob", option="Approve", at=ANSWERED, **values):
    """What Airflow resumes the task with."""
    filled = {"dossier_digest": digest, "reason": "read", "acknowledge": True}
    return {
        "chosen_options": [option], "params_input": filled | values, "responded_at": at,
        "responded_by_user": {"id": person, "name": person} if person else None, "timedout": False,
    }  # fmt: skip


def asked(run):
    """A gate that waits: the operator, the task's context and the digest that was shown."""
    operator, ctx = gate(run.until("declare")), context("prepare_gate", run=run)
    shown, _ = parked(operator, operator.execute, ctx)
    return operator, ctx, shown["params"]["dossier_digest"]["value"]


def test_parks(run):
    """The question goes to Airflow with form, people and deadline; no answer is preset."""
    operator = gate(run.until("declare"))

    shown, waiting = parked(operator, operator.execute, context("prepare_gate", run=run))

    digest = run.gate("prepare").digest
    assert (["Approve", "Reject"], None, False) == (shown["options"], shown["defaults"], shown["multiple"])
    assert [{"id": "bob", "name": "bob"}] == shown["assigned_users"]
    assert shown["subject"].startswith("Prepare gate / 准备关口: ")
    assert f"/pretrain-archive/runs/{run.uid}/gates/prepare" in shown["body"]
    assert {"dossier_digest", "reason", "acknowledge"} == shown["params"].keys()
    assert (digest, digest) == (
        shown["params"]["dossier_digest"]["value"], shown["params"]["dossier_digest"]["schema"]["const"],
    )  # fmt: skip
    assert all("section" not in param["schema"] for param in shown["params"].values())
    assert ("execute_complete", timedelta(hours=72)) == (waiting.method_name, waiting.timeout)
    assert "waiting_prepare" == run.view().state


def test_approved(run):
    """A good answer returns a small value and is in the ledger with person, time and digest."""
    operator, ctx, digest = asked(run)

    value = operator.execute_complete(ctx, event(digest))

    assert {
        "gate": "prepare",
        "decision": "approve",
        "person": "bob",
        "dossier_digest": digest,
        "outcome": None,
    } == value
    assert value == small_json(value)
    _, decision = run.view().decision("prepare")
    assert (format_time(ANSWERED_AT), "SimpleAuthManager") == (
        decision.responded_at,
        decision.authentication,
    )


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        pytest.param({"person": None}, "unsigned", id="null responder"),
        pytest.param({"person": "alice"}, "submitter", id="submitter"),
        pytest.param({"person": "carol"}, "not_entitled", id="not entitled"),
        pytest.param({"digest": "sha256:" + "0" * 64}, "stale", id="a stale question"),
        pytest.param({"reason": None}, "invalid", id="no reason"),
        pytest.param({"acknowledge": False}, "invalid", id="not acknowledged"),
        pytest.param({"option": "Maybe"}, "invalid", id="another option"),
    ],
)
def test_asked_again(run, changes, cause):
    """An answer that does not count is recorded, and the question is put again with what stands now."""
    operator, ctx, digest = asked(run)
    changes = dict(changes)

    shown, _ = parked(
        operator, operator.execute_complete, ctx, event(changes.pop("digest", digest), **changes)
    )

    assert cause == run.view().latest(kinds.GateRefused).cause
    assert run.view().decision("prepare") is None
    assert "Since the last answer here" in shown["body"]
    assert run.gate("prepare").digest == shown["params"]["dossier_digest"]["value"]


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param({"params_input": None}, id="no values"),
        pytest.param({"params_input": {}}, id="empty values"),
        pytest.param({"chosen_options": []}, id="no option"),
        pytest.param({"responded_by_user": {"id": "bob", "name": None}}, id="no name"),
        pytest.param({"responded_by_user": {}}, id="empty responder"),
        pytest.param({"responded_at": None}, id="no moment"),
        pytest.param({"params_input": "Approve"}, id="values of another shape"),
        pytest.param({"responded_by_user": "bob"}, id="a responder of another shape"),
        pytest.param({"chosen_options": "Approve"}, id="an option of another shape"),
    ],
)
def test_strange_events_sign_nothing(run, strange):
    """Whatever is missing from an event, nothing is signed by it."""
    operator, ctx, digest = asked(run)

    parked(operator, operator.execute_complete, ctx, event(digest) | strange)

    assert run.view().decision("prepare") is None
    assert run.view().latest(kinds.GateRefused) is not None


@pytest.mark.case("G03")
@pytest.mark.parametrize(
    "late",
    [
        pytest.param({"error": "timed out", "error_type": "timeout"}, id="without a default"),
        pytest.param(
            event("sha256:" + "0" * 64) | {"timedout": True, "responded_by_user": None}, id="with a default"
        ),
        pytest.param(None, id="a good answer that is marked as timed out"),
    ],
)
def test_timed_out(run, late):
    """A timeout is never an approval: recorded, the run closed, the task failed for good."""
    operator, ctx, digest = asked(run)
    late = late or event(digest) | {"timedout": True}

    with pytest.raises(AirflowFailException, match="not answered in time: not approved"):
        operator.execute_complete(ctx, late)

    assert ("closed", "expired") == (run.view().state, run.view().latest(kinds.RunClosed).outcome)
    assert run.view().decision("prepare") is None
    assert run.view().latest(kinds.GateExpired) is not None


def test_error_of_airflow(run):
    """Where Airflow could not take the answer nothing is signed, and the question is put again."""
    operator, ctx, _ = asked(run)

    parked(operator, operator.execute_complete, ctx, {"error": "broken", "error_type": "unknown"})

    assert "unsigned" == run.view().latest(kinds.GateRefused).cause
    assert run.view().decision("prepare") is None


def test_rejected(run):
    """A rejection fails the task for good, with who and why, and closes the run."""
    operator, ctx, digest = asked(run)

    with pytest.raises(AirflowFailException, match="prepare gate rejected by bob: too dear"):
        operator.execute_complete(ctx, event(digest, option="Reject", reason="too dear"))
    assert ("closed", "rejected") == (run.view().state, run.view().latest(kinds.RunClosed).outcome)


def test_close_outcome(run):
    """The close gate hands on the outcome that was signed."""
    operator, ctx = gate(run.until("run"), "close"), context("close_gate", run=run)
    shown, _ = parked(operator, operator.execute, ctx)
    digest = shown["params"]["dossier_digest"]["value"]

    assert "clean_up" == operator.execute_complete(ctx, event(digest, outcome="clean_up"))["outcome"]


def test_out_of_turn(run):
    """A gate that is asked before its turn fails for good, and the failure is recorded."""
    operator = gate(run.until("declare"), "run")

    with pytest.raises(AirflowFailException, match="refused: the run gate comes after the prepare gate"):
        operator.execute(context("run_gate", run=run))
    assert "the run gate comes after" in run.view().latest(kinds.RunFailed).reason


def test_nobody_may_answer(make_run, tmp_path):
    """No approver but the submitter: an error at once, never an endless wait."""
    lines = {"prepare": '["alice"]'}
    made = make_run(policy=policy_with(**lines)).until("declare")
    policy = tmp_path / "policies" / "demo.toml"
    policy.write_text(policy.read_text().replace('prepare = ["bob"]', 'prepare = ["alice"]'))
    operator = gate(made)

    with pytest.raises(AirflowFailException, match="nobody may answer the prepare gate"):
        operator.execute(context("prepare_gate", run=made))


def test_approver_is_no_user(run, monkeypatch):
    """An approver whom this Airflow does not know is an error at once."""
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "alice:admin,dave:admin")
    operator = gate(run.until("declare"))

    with pytest.raises(AirflowFailException, match="none of them is a user of this Airflow"):
        operator.execute(context("prepare_gate", run=run))


def test_policy_changed(run, tmp_path):
    """A policy file that changed since the run was opened is named."""
    policy = tmp_path / "policies" / "demo.toml"
    policy.write_text(policy.read_text() + "\n# edited\n")
    operator = gate(run.until("declare"))

    with pytest.raises(AirflowFailException, match=r"policy demo\.toml changed since"):
        operator.execute(context("prepare_gate", run=run))


def test_everybody_is_admin(run, monkeypatch):
    """Where Airflow lets everybody in, an answer says that nobody was authenticated."""
    operator, ctx, digest = asked(run)
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")

    parked(operator, operator.execute_complete, ctx, event(digest, person="Anonymous"))

    assert "nobody is authenticated" in run.view().latest(kinds.GateRefused).detail


# -- review -----------------------------------------------------------------------------------------------------


def stopped(run):
    """A run whose first attempt was stopped, its review's operator and context; what was skipped is collected."""
    run.until("prepare").launched(1)
    run.ended(1, state="stopped", exit_code=None, last_step=30, reason="stop rule nan_loss")
    operator, ctx = gate(run, "review"), context("review_gate", run=run)
    operator.skipped = []
    operator.skip = lambda **what: operator.skipped.append(what["tasks"])
    operator.store = run.store
    ctx["task"] = SimpleNamespace(
        get_direct_relatives=lambda **_: [SimpleNamespace(task_id="gpu_resume", is_teardown=False)]
    )
    return operator, ctx


def test_review_resumes(run):
    """A review with the outcome resume lets what comes after it run, and skips nothing."""
    operator, ctx = stopped(run)
    shown, _ = parked(operator, operator.execute, ctx)
    digest = shown["params"]["dossier_digest"]["value"]
    assert "Review after a stop / 停止后的复审" in shown["subject"]
    assert [None, "resume", "resume_changed", "stop"] == shown["params"]["outcome"]["schema"]["enum"]

    value = operator.execute_complete(ctx, event(digest, outcome="resume"))

    assert ("review", "resume", []) == (value["gate"], value["outcome"], operator.skipped)
    assert "open" == run.view().state


def test_last_review_takes_no_resume(run):
    """A review that no launch follows neither offers to resume nor takes it, whoever sends it."""
    operator, ctx = stopped(run)
    operator.last = True
    shown, _ = parked(operator, operator.execute, ctx)
    assert [None, "resume_changed", "stop"] == shown["params"]["outcome"]["schema"]["enum"]
    assert {"resume_changed", "stop"} == set(shown["params"]["outcome"]["schema"]["values_display"])
    assert "resume is not offered" in shown["body"]
    digest = shown["params"]["dossier_digest"]["value"]

    parked(operator, operator.execute_complete, ctx, event(digest, outcome="resume"))

    assert "an outcome is required" in run.view().latest(kinds.GateRefused).detail
    assert run.view().decision("review") is None
    assert "stop" == operator.execute_complete(ctx, event(digest, outcome="stop"))["outcome"]


@pytest.mark.parametrize(("outcome", "closed"), [("stop", "stopped"), ("resume_changed", "superseded")])
def test_review_ends_the_run(run, outcome, closed):
    """The other outcomes close the run, write its package and skip what comes after; a repeated try does so once."""
    operator, ctx = stopped(run)
    shown, _ = parked(operator, operator.execute, ctx)
    digest = shown["params"]["dossier_digest"]["value"]

    first = operator.execute_complete(ctx, event(digest, outcome=outcome))
    again = operator.execute(ctx)

    assert (first, outcome) == (again, first["outcome"])
    assert 2 == len(operator.skipped)
    assert closed == run.view().latest(kinds.RunClosed).outcome
    assert 1 == sum(1 for _ in run.view().all(kinds.PackageWritten))


@pytest.mark.parametrize("stage", ["declare", "training"])
def test_review_without_a_cause_is_skipped(run, stage):
    """Where nothing was launched, or the last attempt completed, nobody is asked anything."""
    operator = gate(run.until(stage), "review")

    with pytest.raises(AirflowSkipException, match="nothing to review"):
        operator.execute(context("review_gate", run=run))
    assert run.view().dossier("review") is None


def test_review_of_a_closed_run_is_skipped(run):
    """A run that was rejected earlier is not reviewed."""
    operator, ctx = stopped(run)
    run.close_run()

    with pytest.raises(AirflowSkipException, match="nothing to review"):
        operator.execute(ctx)


def test_review_without_a_run_is_skipped():
    """Where the first task failed there is no run, and the review says so."""
    operator = GateApprovalOperator(task_id="stop_review", run_uid="", gate="review")

    with pytest.raises(AirflowSkipException, match="no run was opened"):
        operator.execute(context("stop_review"))


def test_an_exploration_has_no_prepare_decision(make_run):
    """The prepare gate of an exploration asks nobody."""
    made = make_run(conf=CONF | {"scope": "exploration"}).until("declare")

    value = gate(made).execute(context("prepare_gate", run=made))

    assert {"gate": "prepare", "decision": "not_asked", "scope": "exploration"} == value
    assert made.view().dossier("prepare") is None
