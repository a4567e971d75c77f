"""Human evaluation as tasks: pages park with their question, and every shape of answer ends as it must."""

from __future__ import annotations

import io
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskAwaitingInput,
)
from tests.support.human_run import ITEMS, asking, sampled_of, values
from tests.unit.gates.asked_run import ANSWERED_AT, POLICY_FILE, AskedRun, without_steps
from tests.unit.operators.conftest import context

from pretrain_archive.domain import kinds
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive.services.human_items import draw
from pretrain_archive_operators import HumanReportOperator, HumanReviewOperator, HumanSampleOperator
from pretrain_archive_operators.base import small_json
from pretrain_archive_operators.human_evaluation import human_tasks

ROOT = Path(__file__).parents[3]


@pytest.fixture
def asked(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> AskedRun:
    """A run whose policy asks bob or carol to read seven outputs."""
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "alice:admin,bob:admin,carol:user")
    return asking(make_run, wanted="1")


def task(run: AskedRun, operator: Any, name: str, **more: Any) -> Any:
    """An operator with the test's ledger and store."""
    made = operator(task_id=name, run_uid=run.uid, **more)
    made.ledger, made.store = run.ledger, run.store
    return made


def around(run: AskedRun, name: str, *, page: int = -1, **more: Any) -> Any:
    """What Airflow hands to a task; pages are mapped."""
    made = context(name, run=run, **more)
    made["ti"].map_index = page
    made["ti"].pushed = {}
    made["ti"].xcom_push = lambda *, key, value: made["ti"].pushed.update({key: value})
    return made


def sample(run: AskedRun, **more: Any) -> tuple[list[int], dict[str, Any]]:
    """Draw the sample; return what the task gave and pushed."""
    ctx = around(run, "human_sample", **more)
    return task(run, HumanSampleOperator, "human_sample").execute(ctx), ctx["ti"].pushed


def review(run: AskedRun, page: int = 1, *, reviewer: int = 1, **more: Any) -> tuple[Any, Any]:
    """The task of a page and its context."""
    name = f"human_review_{reviewer}"
    made = task(run, HumanReviewOperator, name, page=page, reviewer=reviewer)
    return made, around(run, name, page=page, **more)


def parked(act: Any, *args: Any) -> tuple[dict[str, Any], TaskAwaitingInput]:
    """Run until the task waits; return what Airflow shows and the wait."""
    with (
        patch("airflow.providers.standard.operators.hitl.upsert_hitl_detail") as shown,
        pytest.raises(TaskAwaitingInput) as waiting,
    ):
        act(*args)
    return shown.call_args.kwargs, waiting.value


def event(run: AskedRun, page: int = 1, *, person: str | None = "bob", **changes: Any) -> dict[str, Any]:
    """What Airflow resumes the task with."""
    return {
        "chosen_options": ["Submit"], "params_input": values(sampled_of(run), page, **changes),
        "responded_at": ANSWERED_AT, "timedout": False,
        "responded_by_user": {"id": person, "name": person} if person else None,
    }  # fmt: skip


@pytest.mark.requirement("R118")
def test_whole_evaluation(asked: AskedRun) -> None:
    """Drawn, asked on two pages, answered, summed up: small values in XCom, the rest in the ledger."""
    pages, pushed = sample(asked)
    told = []
    for page in pages:
        operator, ctx = review(asked, page)
        parked(operator.execute, ctx)
        told.append(operator.execute_complete(ctx, event(asked, page)))
    total = task(asked, HumanReportOperator, "human_report").execute(around(asked, "human_report"))

    assert ([1, 2], 7, 2) == (pages, pushed["sample"]["items"], pushed["sample"]["pages"])
    assert [
        {"page": 1, "reviewer": 1, "person": "bob", "scored": 5, "skipped": 0, "problems": 0},
        {"page": 2, "reviewer": 1, "person": "bob", "scored": 2, "skipped": 0, "problems": 0},
    ] == told
    assert (True, 7, 3.0, None, None) == (
        total["passed"], total["scored"], total["mean"], total["agreement"], total["kappa"],
    )  # fmt: skip
    assert ["one_reviewer_only"] == [flag.partition(":")[0] for flag in total["flags"]]
    assert all(small_json(value) == value for value in (pushed["sample"], *told, total))
    assert [] == [i for i in ITEMS if i["output"] in str((pages, pushed, told, total))]


def test_parks(asked: AskedRun) -> None:
    """The question goes to Airflow with form, people and deadline; no answer is preset."""
    sample(asked)
    operator, ctx = review(asked)

    shown, waiting = parked(operator.execute, ctx)

    assert (["Submit"], None, False) == (shown["options"], shown["defaults"], shown["multiple"])
    assert [{"id": "bob", "name": "bob"}, {"id": "carol", "name": "carol"}] == shown["assigned_users"]
    assert ("execute_complete", timedelta(hours=72)) == (waiting.method_name, waiting.timeout)
    given = {name: param["value"] for name, param in shown["params"].items()}
    assert given.pop("page_digest") == shown["params"]["page_digest"]["schema"]["const"]
    assert ({None}, 20) == (set(given.values()), len(given))


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        pytest.param({"responded_by_user": None}, "unsigned", id="null responder"),
        pytest.param(
            {"responded_by_user": {"id": "mallory", "name": "mallory"}}, "not_entitled", id="a stranger"
        ),
        pytest.param({"params_input": None}, "stale", id="no values"),
        pytest.param({"chosen_options": []}, "invalid", id="no option"),
        pytest.param({"responded_at": None}, "unsigned", id="no moment"),
        pytest.param({"error": "broken", "error_type": "unknown"}, "invalid", id="an error of Airflow"),
    ],
)
def test_answers_that_do_not_count(asked: AskedRun, changes: dict[str, Any], cause: str) -> None:
    """They are recorded with their cause; the page is asked again, a stale question in another try."""
    sample(asked)
    operator, ctx = review(asked)
    parked(operator.execute, ctx)
    strange = event(asked) | changes
    if "error" in changes:
        strange["chosen_options"] = None

    if cause == "stale":
        with pytest.raises(AirflowException, match="another sample or page") as failed:
            operator.execute_complete(ctx, strange)
        assert not isinstance(failed.value, AirflowFailException)
    else:
        parked(operator.execute_complete, ctx, strange)

    refused = asked.view().latest(kinds.HumanAnswerRefused)
    assert refused is not None
    assert cause == refused.cause
    assert asked.view().latest(kinds.HumanPageAnswered) is None


@pytest.mark.parametrize(
    "late",
    [
        pytest.param({"error": "timed out", "error_type": "timeout"}, id="without a default"),
        pytest.param({"timedout": True}, id="a good answer that is marked as timed out"),
    ],
)
def test_timed_out(asked: AskedRun, late: dict[str, Any]) -> None:
    """A timeout is never a score: recorded, and the task fails for good."""
    sample(asked)
    operator, ctx = review(asked)
    parked(operator.execute, ctx)

    with pytest.raises(AirflowFailException, match="not answered within 72 hours"):
        operator.execute_complete(ctx, event(asked) | late)

    refused = asked.view().latest(kinds.HumanAnswerRefused)
    assert refused is not None
    assert "timed_out" == refused.cause
    assert asked.view().latest(kinds.HumanPageAnswered) is None


def test_answered_page_is_not_asked_again(asked: AskedRun) -> None:
    """A cleared task whose page was answered for this very sample gives the recorded value."""
    sample(asked)
    operator, ctx = review(asked)
    parked(operator.execute, ctx)
    value = operator.execute_complete(ctx, event(asked))
    operator, ctx = review(asked, try_number=2)

    assert value == operator.execute(ctx)


def test_not_asked_for(run: AskedRun) -> None:
    """Without the policy's section every task is skipped, and nothing is recorded."""
    run.until("evaluation")
    before = len(run.view().records)
    operator, ctx = review(run)

    with pytest.raises(AirflowSkipException, match="asks for no human evaluation"):
        sample(run)
    with pytest.raises(AirflowSkipException, match="asks for no human evaluation"):
        operator.execute(ctx)
    assert before == len(run.view().records)


def test_one_reviewer(asked: AskedRun) -> None:
    """The second reviewer's tasks are skipped where the policy wants one."""
    sample(asked)
    operator, ctx = review(asked, reviewer=2)

    with pytest.raises(AirflowSkipException, match="wants one reviewer"):
        operator.execute(ctx)


def test_reviewer_is_no_user(asked: AskedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reviewers whom this Airflow does not know are an error at once."""
    sample(asked)
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "alice:admin,dave:admin")
    operator, ctx = review(asked)

    with pytest.raises(AirflowFailException, match="none of them is a user of this Airflow"):
        operator.execute(ctx)


def test_incomplete(asked: AskedRun) -> None:
    """An evaluation with a page that nobody answered is not summed up; the failure is recorded."""
    sample(asked)

    with pytest.raises(AirflowFailException, match="2 pages are not answered"):
        task(asked, HumanReportOperator, "human_report").execute(around(asked, "human_report"))
    failed = asked.view().latest(kinds.RunFailed)
    assert failed is not None
    assert "2 pages are not answered" in failed.reason


def test_tasks_of_a_dag() -> None:
    """Pages are mapped over the sample for each reviewer; the report runs though the second reviewer is skipped."""
    with DAG("evaluated", schedule=None) as dag:
        first, last = human_tasks("run_x")

    assert {"human_review_1", "human_review_2"} == first.downstream_task_ids == last.upstream_task_ids
    assert {"human_sample", "human_review_1", "human_review_2", "human_report"} == set(dag.task_ids)
    assert "none_failed_min_one_success" == str(last.trigger_rule.value)


def test_documented() -> None:
    """What the page on evaluation by persons shows can be copied: policy, item and tasks."""
    page = (ROOT / "docs" / "human-evaluation.md").read_text()
    [policy] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    [item] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    text = f"{without_steps(POLICY_FILE.read_text())}\n{policy}"
    rules = parse_policy(text.encode(), name="demo.toml").policy.human_evaluation
    names: dict[str, Any] = {}
    exec(program, names)

    with DAG("evaluated", schedule=None) as dag:
        run_gate, close_gate = EmptyOperator(task_id="run_gate"), EmptyOperator(task_id="close_gate")
        names["read_by_persons"]("run_x", run_gate, close_gate)

    assert rules is not None
    assert ("single", 20, 7, 2, 15, 0.7) == (
        rules.mode, rules.sample, rules.seed, rules.wanted, rules.fewest, rules.min_agreement,
    )  # fmt: skip
    assert {"run_gate", "human_report"} == dag.get_task("close_gate").upstream_task_ids
    subject = kinds.CheckpointRegistered.model_construct(checkpoint_id="ckpt_0959a82a", digest="")
    drawn = draw(io.BytesIO(item.encode()), where="x", pairs=True, subject=subject, size=1, seed=1)
    assert ("q1", True, "untrained") == (drawn.items[0].item_id, drawn.stated, drawn.baseline_name)
