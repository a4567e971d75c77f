"""The clean-up as tasks: below the limit nobody is asked, above it a person, and nothing else deletes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskAwaitingInput
from tests.support.artifact_run import Run
from tests.unit.operators.conftest import context

from pretrain_archive.domain.kinds import TombstoneWritten
from pretrain_archive.gates.service import load_run
from pretrain_archive_operators import (
    RetentionApplyOperator,
    RetentionApprovalOperator,
    RetentionPlanOperator,
    RetentionReportOperator,
)


@pytest.fixture
def closed(ledger, store, tmp_path) -> Run:
    """A closed run with three recovery checkpoints, of which policy keeps the last."""
    run = Run(ledger, store, tmp_path / "checkpoints").open()
    for step in (100, 200, 300):
        run.checkpoint(step)
    run.close()
    return run


@pytest.fixture
def small_limit(tmp_path):
    """Above ten bytes a person is asked."""
    policy = tmp_path / "policies" / "demo.toml"
    policy.write_text(
        policy.read_text().replace("approval_above_bytes = 1_000_000_000", "approval_above_bytes = 10")
    )


def plan():
    """Make the plan."""
    return RetentionPlanOperator(task_id="plan").execute(context("plan", user=None))


def approval(digest, **more):
    """The task that approves."""
    return RetentionApprovalOperator(task_id="approve", plan_digest=digest, **more)


def apply(digest):
    """Carry a plan out."""
    return RetentionApplyOperator(task_id="apply", plan_digest=digest).execute(context("apply", user=None))


def parked(act, *args):
    """Run ``act``; it must park. Return what Airflow shows and for how long."""
    with (
        patch("airflow.providers.standard.operators.hitl.upsert_hitl_detail") as shown,
        pytest.raises(TaskAwaitingInput) as waiting,
    ):
        act(*args)
    return shown.call_args.kwargs, waiting.value.timeout


def event(digest, *, person="bob", option="Approve", reason="seen"):
    """What Airflow resumes the task with."""
    return {
        "chosen_options": [option], "params_input": {"plan_digest": digest, "reason": reason}, "timedout": False,
        "responded_at": datetime(2026, 11, 29, 12, tzinfo=UTC),
        "responded_by_user": {"id": person, "name": person} if person else None,
    }  # fmt: skip


def on_disk(run):
    """How many checkpoints are left."""
    return len([path for path in run.folder.iterdir() if path.is_dir()])


def test_below_the_limit(closed):
    """Plan, approval by policy, deletion with tombstones; each value is small."""
    made = plan()
    approved = approval(made["plan_digest"]).execute(context("approve", user=None))
    done = apply(made["plan_digest"])

    assert (2, 1, False) == (made["delete"], made["keep"], made["needs_approval"])
    assert "policy: below approval_above_bytes" == approved["approved_by"]
    assert made["total_bytes"] == done["bytes_released"]
    assert 1 == on_disk(closed)
    assert len(list(load_run(closed.ledger, closed.uid).all(TombstoneWritten))) == 2


@pytest.mark.usefixtures("small_limit")
def test_above_the_limit(closed):
    """A person is asked, with the plan's digest as a constant; then exactly that plan is carried out."""
    digest = plan()["plan_digest"]
    operator, ctx = approval(digest, hours=5), context("approve", user=None)
    shown, timeout = parked(operator.execute, ctx)
    assert on_disk(closed) == 3

    value = operator.execute_complete(ctx, event(digest))
    apply(digest)

    assert ([{"id": "bob", "name": "bob"}], None, timedelta(hours=5)) == (
        shown["assigned_users"], shown["defaults"], timeout,
    )  # fmt: skip
    assert digest == shown["params"]["plan_digest"]["schema"]["const"]
    assert {"plan_digest": digest, "approved_by": "bob"} == value
    assert on_disk(closed) == 1


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"person": None}, id="nobody"),
        pytest.param({"person": "alice"}, id="not entitled"),
        pytest.param({"reason": " "}, id="no reason"),
        pytest.param({"digest": "sha256:" + "0" * 64}, id="another plan"),
    ],
)
def test_asked_again(closed, changes):
    """An answer that does not count approves nothing and the question is put again."""
    digest = plan()["plan_digest"]
    operator, ctx = approval(digest), context("approve", user=None)
    parked(operator.execute, ctx)
    changes = dict(changes)

    parked(operator.execute_complete, ctx, event(changes.pop("digest", digest), **changes))

    assert list(closed.ledger.records(kinds=["retention.approved"])) == []
    with pytest.raises(AirflowFailException, match="has no recorded approval"):
        apply(digest)
    assert on_disk(closed) == 3


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(
            {"error": "late", "error_type": "timeout"}, "not answered in time: nothing is deleted", id="late"
        ),
        pytest.param(
            {"timedout": True}, "not answered in time: nothing is deleted", id="late with a default"
        ),
        pytest.param({"option": "Reject"}, "clean-up rejected by bob: seen", id="rejected"),
    ],
)
def test_not_approved(closed, answer, text):
    """A timeout or a rejection ends the clean-up for good and deletes nothing."""
    digest = plan()["plan_digest"]
    operator, ctx = approval(digest), context("approve", user=None)
    parked(operator.execute, ctx)
    answer = event(digest, **answer) if "option" in answer else event(digest) | answer

    with pytest.raises(AirflowFailException, match=text):
        operator.execute_complete(ctx, answer)
    assert on_disk(closed) == 3


def test_unknown_plan():
    """A plan that nobody recorded is neither approved nor carried out."""
    with pytest.raises(AirflowFailException, match="no plan sha256:x is recorded"):
        approval("sha256:x").execute(context("approve", user=None))
    with pytest.raises(AirflowFailException, match="no plan sha256:x is recorded"):
        apply("sha256:x")


def test_what_cannot_be_deleted_is_named(closed):
    """A checkpoint that changed since the plan stays and is named; the task is tried again, the rest is gone."""
    digest = plan()["plan_digest"]
    approval(digest).execute(context("approve", user=None))
    oldest = min(path for path in closed.folder.iterdir() if path.is_dir())
    (oldest / "model.safetensors").write_bytes(b"other bytes")

    with pytest.raises(AirflowException, match=r"be deleted \(not complete\): checkpoint:ckpt_") as raised:
        apply(digest)

    assert type(raised.value) is AirflowException
    assert oldest.exists()
    assert on_disk(closed) == 2


def report(digest):
    """Tell what became of a plan."""
    return RetentionReportOperator(task_id="report", plan_digest=digest).execute(context("report", user=None))


@pytest.mark.usefixtures("small_limit")
@pytest.mark.requirement("R151", "R154")
def test_the_report_tells_what_was_done_beside_what_was_planned(closed):
    """Before anything was deleted it fails, after the deletion it gives the numbers of the pass."""
    digest = plan()["plan_digest"]
    with pytest.raises(AirflowFailException, match="nothing was deleted"):
        report(digest)

    from tests.unit.services.test_cleanup import caller

    from pretrain_archive.services import cleanup
    from pretrain_archive.services.wiring import cleanup_room

    planned = cleanup.plan_of(closed.ledger, digest)
    cleanup.approve(closed.ledger, caller("approve"), cleanup_room(), planned, person="bob", reason="seen")
    apply(digest)

    assert {
        "plan_digest": digest, "planned": 2, "bytes_planned": planned.total_bytes, "approved_by": "bob",
        "outcomes": {"deleted": 2}, "bytes_released": planned.total_bytes, "complete": True, "differences": {},
    } == report(digest)  # fmt: skip


@pytest.mark.case("R05")
@pytest.mark.requirement("R116")
def test_by_policy_the_task_only_warns_of_what_is_left_and_the_report_tells_it(closed, tmp_path, capsys):
    """With ``when_incomplete = "warn"`` the run goes on; what differs is told in both languages with what to do."""
    rules = tmp_path / "policies" / "demo.toml"
    text = rules.read_text()
    rules.write_text(text.replace("[retention]", '[retention]\nwhen_incomplete = "warn"'))
    digest = plan()["plan_digest"]
    approval(digest).execute(context("approve", user=None))
    oldest = min(path for path in closed.folder.iterdir() if path.is_dir())
    (oldest / "model.safetensors").write_bytes(b"other bytes")

    done = apply(digest)
    told = report(digest)

    assert ("not complete", {"kept_for_later": 1, "deleted": 1}) == (done["state"], done["outcomes"])
    assert (False, {"changed": 1}) == (told["complete"], told["differences"])
    words = capsys.readouterr().out
    for expected in ("changed / 内容已变", "verify it / 核验", "kept for later / 留待以后", "1 项差异"):
        assert expected in words
