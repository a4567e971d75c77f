"""The review of labels as tasks: pages park with their question, and every shape of answer ends as it must."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskAwaitingInput
from tests.support.labelled_data import SECRET_WORDS, LabelledRun, policy_of, policy_text
from tests.unit.gates.asked_run import ANSWERED_AT, POLICY_FILE, without_steps
from tests.unit.operators.conftest import context
from tests.unit.services.open_runs import DAG_RUN

from pretrain_archive.data.quality.labels import read_definition
from pretrain_archive.domain import kinds
from pretrain_archive_operators import LabelReviewOperator, LabelSampleOperator, LabelSummaryOperator
from pretrain_archive_operators.base import small_json

ROOT = Path(__file__).parents[3]


@pytest.fixture
def labelled(ledger, store, tmp_path, monkeypatch):
    """A run with labelled data; its policy asks bob or carol to review twelve documents."""
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "alice:admin,bob:admin,carol:user")
    return LabelledRun(ledger=ledger, store=store, folder=tmp_path, policy=policy_text(review="sample = 12"))


def task(labelled, operator, name, **more):
    """An operator with the test's ledger and store."""
    made = operator(task_id=name, run_uid=labelled.uid, **more)
    made.ledger, made.store = labelled.ledger, labelled.store
    return made


def around(name, *, page=-1, **more):
    """What Airflow hands to a task; pages are mapped."""
    made = context(name, dag_run_id=DAG_RUN, **more)
    made["ti"].map_index = page
    made["ti"].pushed = {}
    made["ti"].xcom_push = lambda *, key, value: made["ti"].pushed.update({key: value})
    return made


def sample(labelled, **more):
    """Draw the sample; return what the task gave and pushed."""
    ctx = around("label_sample", **more)
    return task(labelled, LabelSampleOperator, "label_sample").execute(ctx), ctx["ti"].pushed


def review(labelled, page=1, **more):
    """The task of a page and its context."""
    return task(labelled, LabelReviewOperator, "label_review", page=page), around(
        "label_review", page=page, **more
    )


def parked(act, *args):
    """Run ``act``; it must park. Return what Airflow was asked to show, and the parking."""
    with (
        patch("airflow.providers.standard.operators.hitl.upsert_hitl_detail") as shown,
        pytest.raises(TaskAwaitingInput) as waiting,
    ):
        act(*args)
    return shown.call_args.kwargs, waiting.value


def event(labelled, page=1, *, person="bob", **changes):
    """What Airflow resumes the task with."""
    return {
        "chosen_options": ["Submit"], "params_input": labelled.values(page, **changes), "responded_at": ANSWERED_AT,
        "responded_by_user": {"id": person, "name": person} if person else None, "timedout": False,
    }  # fmt: skip


@pytest.mark.requirement("R048", "R049")
def test_whole_review(labelled):
    """Drawn, asked on two pages, answered, summed up: small values in XCom, the rest in the ledger."""
    pages, pushed = sample(labelled)
    drawn, values = pushed["sample"], []
    for page in pages:
        operator, ctx = review(labelled, page)
        parked(operator.execute, ctx)
        values.append(operator.execute_complete(ctx, event(labelled, page)))
    total = task(labelled, LabelSummaryOperator, "label_summary").execute(around("label_summary"))

    assert ([1, 2], 12, 2) == (pages, drawn["items"], drawn["pages"])
    assert [
        {"page": 1, "reviewer": 1, "person": "bob", "answers": {"agree": 10, "wrong": 0, "problem": 0}},
        {"page": 2, "reviewer": 1, "person": "bob", "answers": {"agree": 2, "wrong": 0, "problem": 0}},
    ] == values
    assert (True, 1.0, None, drawn["sample_digest"]) == (
        total["passed"], total["agreement"], total["kappa"], total["sample_digest"],
    )  # fmt: skip
    assert all(small_json(value) == value for value in (drawn, *values, total))
    assert SECRET_WORDS not in str((pages, pushed, values, total))


def test_parks(labelled):
    """The question goes to Airflow with form, people and deadline; no answer is preset."""
    sample(labelled)
    operator, ctx = review(labelled)

    shown, waiting = parked(operator.execute, ctx)

    assert (["Submit"], None, False) == (shown["options"], shown["defaults"], shown["multiple"])
    assert [{"id": "bob", "name": "bob"}, {"id": "carol", "name": "carol"}] == shown["assigned_users"]
    assert ("execute_complete", timedelta(hours=72)) == (waiting.method_name, waiting.timeout)
    values = {name: param["value"] for name, param in shown["params"].items()}
    assert values.pop("page_digest") == shown["params"]["page_digest"]["schema"]["const"]
    assert {None} == set(values.values())
    assert 20 == len(values)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        pytest.param({"responded_by_user": None}, "unsigned", id="null responder"),
        pytest.param(
            {"responded_by_user": {"id": "mallory", "name": "mallory"}}, "not_entitled", id="a stranger"
        ),
        pytest.param(
            {"responded_by_user": {"id": "alice", "name": "alice"}}, "not_entitled", id="the submitter"
        ),
        pytest.param({"params_input": None}, "stale", id="no values"),
        pytest.param({"params_input": "agree"}, "stale", id="values of another shape"),
        pytest.param({"chosen_options": []}, "invalid", id="no option"),
        pytest.param({"responded_at": None}, "unsigned", id="no moment"),
        pytest.param({"error": "broken", "error_type": "unknown"}, "invalid", id="an error of Airflow"),
    ],
)
def test_answers_that_do_not_count(labelled, changes, cause):
    """They are recorded with their cause; the page is asked again, a stale question in another try."""
    sample(labelled)
    operator, ctx = review(labelled)
    parked(operator.execute, ctx)
    strange = event(labelled) | changes
    if "error" in changes:
        strange["chosen_options"] = None

    if cause == "stale":
        with pytest.raises(AirflowException, match="another sample or page") as failed:
            operator.execute_complete(ctx, strange)
        assert not isinstance(failed.value, AirflowFailException)
    else:
        parked(operator.execute_complete, ctx, strange)

    assert cause == labelled.view().latest(kinds.LabelAnswerRefused).cause
    assert labelled.view().latest(kinds.LabelPageAnswered) is None


@pytest.mark.parametrize(
    "late",
    [
        pytest.param({"error": "timed out", "error_type": "timeout"}, id="without a default"),
        pytest.param({"timedout": True}, id="a good answer that is marked as timed out"),
    ],
)
def test_timed_out(labelled, late):
    """A timeout is never agreement: recorded, and the task fails for good."""
    sample(labelled)
    operator, ctx = review(labelled)
    parked(operator.execute, ctx)

    with pytest.raises(AirflowFailException, match="not answered within 72 hours"):
        operator.execute_complete(ctx, event(labelled) | late)

    assert "timed_out" == labelled.view().latest(kinds.LabelAnswerRefused).cause
    assert labelled.view().latest(kinds.LabelPageAnswered) is None


def test_answered_page_is_not_asked_again(labelled):
    """A cleared task whose page was answered for this very sample gives the recorded value."""
    sample(labelled)
    operator, ctx = review(labelled)
    parked(operator.execute, ctx)
    value = operator.execute_complete(ctx, event(labelled))
    operator, ctx = review(labelled, try_number=2)

    assert value == operator.execute(ctx)


def test_reviewer_is_no_user(labelled, monkeypatch):
    """Reviewers whom this Airflow does not know are an error at once."""
    sample(labelled)
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "alice:admin,dave:admin")
    operator, ctx = review(labelled)

    with pytest.raises(AirflowFailException, match="none of them is a user of this Airflow"):
        operator.execute(ctx)


def test_incomplete(labelled):
    """A review with a page that nobody answered is not summed up; the failure is recorded."""
    sample(labelled)

    with pytest.raises(AirflowFailException, match="2 pages are not answered"):
        task(labelled, LabelSummaryOperator, "label_summary").execute(around("label_summary"))
    assert "2 pages are not answered" in labelled.view().latest(kinds.RunFailed).reason


def test_expands_over_pages():
    """In a DAG the pages are mapped over what the sample's task pushes."""
    with DAG("reviewed", schedule=None) as dag:
        drawn = LabelSampleOperator(task_id="label_sample", run_uid="run_x")
        pages = LabelReviewOperator.partial(task_id="label_review", run_uid="run_x", retries=3).expand(
            page=drawn.output
        )
        pages >> LabelSummaryOperator(task_id="label_summary", run_uid="run_x")

    assert {"label_sample"} == dag.get_task("label_review").upstream_task_ids
    assert {"label_review"} == dag.get_task("label_summary").upstream_task_ids


def test_documented():
    """What the page on label reviews shows can be copied: policy, definition and tasks."""
    page = (ROOT / "docs" / "label-review.md").read_text()
    policy, definition = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    before, _, after = without_steps(POLICY_FILE.read_text()).partition("[approvers]")
    approvers, _, labels = policy.partition("[data.labels]")
    text = f"{before}{approvers}[gates]{after.partition('[gates]')[2]}\n[data.labels]{labels}"
    names = {}
    exec(program, names)

    review = policy_of(text).policy.data.labels.review
    with DAG("reviewed", schedule=None) as dag:
        names["review_labels"]("run_x", review.reviewers)

    assert (30, 7, 2, 0.95, "location") == (
        review.sample, review.seed, review.reviewers, review.min_agreement, review.show,
    )  # fmt: skip
    assert ["ham", "spam"] == list(read_definition(definition.encode(), name="x").labels)
    assert {"label_review_1", "label_review_2"} == dag.get_task("label_summary").upstream_task_ids
