"""The review after a stop: when it is asked, to what it binds, what it allows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.gates.asked_run import ANSWERED_AT, CONF, NOW, AskedRun, policy_with

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.source_rights import source_stream

STOPPED = {"state": "stopped", "exit_code": None, "signal": 15, "last_step": 30, "last_checkpoint_step": 20,
           "steps_lost": 10, "reason": "stop rule nan_loss: nan at step 30, limit a finite loss"}  # fmt: skip
LATER = format_time(ANSWERED_AT + timedelta(seconds=30))


def stop(run: AskedRun, attempt: int = 1, rule: str = "nan_loss", **changes: object) -> AskedRun:
    """An attempt that a rule stopped."""
    run.launched(attempt)
    fired = kinds.StopFired(
        attempt=attempt, rule=rule, observed="nan at step 30", limit="a finite loss", last_step=30
    )
    run.add("gpu_launch", fired, attempt=attempt)
    run.ended(attempt, **STOPPED | changes)
    return run


def faults(run: AskedRun, **more: object) -> str:
    """Why nothing more is launched; empty if a permit was derived."""
    run.ledger.seal()
    try:
        run.permit(**more)
    except RefusedError as error:
        return "; ".join(error.reasons)
    return ""


def withdraw(run: AskedRun) -> None:
    """The run's source is withdrawn."""
    known = run.view().latest(kinds.SourceRegistered)
    source = known.source_id
    payload = kinds.SourceWithdrawn(
        source_id=source, name=known.name, at=LATER, by="carol", reason="asked to"
    )
    record = run.view().records[0]
    run.ledger.append([
        Draft(stream=source_stream(source), kind="source.withdrawn", payload=payload.to_json(), actor=record.actor,
              origin=record.origin)
    ])  # fmt: skip


@pytest.fixture
def stopped(run: AskedRun) -> AskedRun:
    """A run whose first attempt was stopped by a rule."""
    return stop(run.until("prepare"))


@pytest.mark.requirement("R094", "R096")
def test_nothing_follows_a_stop_without_a_review(stopped):
    """A launch names attempt, rule, observation and limit, whether the review was asked or not."""
    told = "attempt 1 needs a review (nan_loss: nan at step 30, limit a finite loss), and nobody has answered one"

    assert told == faults(stopped)
    stopped.ask("review")
    assert told == faults(stopped)


@pytest.mark.requirement("R094")
def test_resume_allows_one_further_attempt(stopped):
    """After a fresh decision the next attempt is launched; once that has ended the decision is about another one."""
    stopped.ask("review")
    stopped.answer("review", outcome="resume", at=LATER)
    assert "" == faults(stopped)

    stop(stopped, 2)

    assert "attempt 2 needs a review" in faults(stopped)
    assert "nobody has answered one" in faults(stopped)
    named = " ".join(stopped.gate("review").stale)
    assert "attempt: 1 → 2" in named
    assert "attempts: 1 → 2" in named


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(lambda run: run.add("page", kinds.ChangeRecorded(
            attempt=1, what="patch", scope="node-3", reason="driver", person="carol", at=LATER, via="page",
        )), "review.changes", id="a manual change"),
        pytest.param(lambda run: run.add("gpu_launch", kinds.EventRecorded(
            attempt=1, event="data_read", at=LATER, data={"problem": "shard a cannot be read"},
        ), attempt=1), "review.data", id="an anomaly of the data"),
    ],
)  # fmt: skip
@pytest.mark.requirement("R094")
def test_a_changed_dossier_makes_it_stale(stopped, change, named):
    """What is recorded after the decision and changes what was seen is named, and the launch refused."""
    stopped.ask("review")
    stopped.answer("review", outcome="resume", at=LATER)

    change(stopped)

    assert "stale approval" in faults(stopped)
    assert named in faults(stopped)


def test_a_resume_ends_with_the_decision_s_validity(stopped):
    """An old decision is no decision."""
    stopped.ask("review")
    stopped.answer("review", outcome="resume", at=LATER)

    assert "the approval expired" in faults(stopped, now=NOW + timedelta(hours=24))


def test_a_resume_of_somebody_who_lost_the_right(make_run):
    """Who signed must still be entitled when the launch asks."""
    made = stop(make_run().until("prepare"))
    made.ask("review")
    made.answer("review", outcome="resume", at=LATER)
    other = policy_with(run='["carol"]', prepare='["bob"]')

    told = faults(made, policy=other)

    assert "the policy demo.toml changed" in told


@pytest.mark.requirement("R094")
@pytest.mark.parametrize("outcome", ["stop", "resume_changed"])
def test_other_outcomes_close_the_run(stopped, outcome):
    """In one transaction with the decision: with who, why, and what the run took and kept."""
    stopped.ask("review")
    stopped.answer("review", outcome=outcome, reason="enough", at=LATER)

    close = stopped.view().latest(kinds.RunClosed)
    assert ({"stop": "stopped", "resume_changed": "superseded"}[outcome], "review by bob: enough") == (
        close.outcome, close.reason,
    )  # fmt: skip
    assert "the run is closed" in faults(stopped)
    assert {"minutes_spent", "minutes_left", "resume_step", "attempts_used"} <= close.figures.keys()


@pytest.mark.requirement("R094", "R096")
@pytest.mark.parametrize(
    ("spoil", "gap"),
    [
        pytest.param(lambda run: [stop(run, n) for n in (2, 3)], "review.attempts", id="all attempts used"),
        pytest.param(lambda run: stop(run, 2, seconds=60_000.0), "review.budget", id="budget used up"),
        pytest.param(lambda run: run.replace("snapshot", kinds.ConfigurationDeclared, configuration={"layers": 9}),
                     "review.prepare", id="prepare is stale"),
        pytest.param(withdraw, "review.sources", id="source withdrawn"),
    ],
)  # fmt: skip
def test_what_a_resume_cannot_do_is_refused_with_the_reason(stopped, spoil, gap):
    """The form says that it is not possible and why; the answer is refused; the run can still be stopped."""
    spoil(stopped)
    asked = stopped.ask("review")
    assert "Not possible" in asked.form.body

    refused = stopped.answer("review", outcome="resume", at=LATER)

    assert ("invalid", f"resume needs {gap}") == (
        refused.refusal.cause,
        refused.refusal.detail[: 13 + len(gap)],
    )
    assert stopped.answer("review", outcome="stop", at=LATER).decision is not None


def test_without_a_checkpoint_it_says_that_resuming_starts_over(stopped):
    """That there is nothing to resume from blocks nothing, and is said in both languages."""
    body = stopped.ask("review").form.body

    assert "from the start (no verified checkpoint)" in body
    assert "从头开始（没有已核验的检查点）" in body
    assert stopped.answer("review", outcome="resume", at=LATER).decision is not None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(lambda run: run, "nothing of run", id="no attempt"),
        pytest.param(lambda run: run.launched(1), "nothing of run", id="an attempt that goes on"),
        pytest.param(lambda run: (run.launched(1), run.ended(1, state="completed", exit_code=0, signal=None)),
                     "nothing of run", id="completed"),
        pytest.param(lambda run: (stop(run), run.close_run()), "is closed", id="closed"),
    ],
)  # fmt: skip
def test_a_review_needs_a_cause(run, make, said):
    """It is refused where no attempt ended without completing, and of a closed run."""
    make(run.until("prepare"))

    with pytest.raises(RefusedError, match=said):
        run.ask("review")


@pytest.mark.parametrize(
    ("ends", "needed"),
    [
        pytest.param([{"state": "failed", "last_step": 5}], False, id="one failure"),
        pytest.param([{"state": "failed", "last_step": 5}] * 2, True, id="twice at the same step"),
        pytest.param([{"state": "failed", "last_step": 5}, {"state": "failed", "last_step": 9}], False, id="further"),
        pytest.param([{"state": "failed", "last_step": 5, "exit_class": "node_lost"}] * 2, False, id="nodes lost"),
        pytest.param([{"state": "interrupted", "last_step": 5}] * 2, False, id="ended by a signal twice"),
        pytest.param([{"state": "interrupted", "exit_code": 0, "last_step": 5}] * 2, True, id="left early twice"),
        pytest.param([{"state": "interrupted", "counted": False}] * 2, False, id="preempted twice"),
        pytest.param([{"state": "lost"}] * 2, False, id="workers killed twice"),
    ],
)  # fmt: skip
@pytest.mark.requirement("R094")
def test_repetition_needs_a_review(run, ends, needed):
    """The same failure without a further step is looked at by a person; what the machines did is tried again."""
    run.until("prepare")
    for number, end in enumerate(ends, 1):
        run.launched(number)
        run.ended(number, **end)

    assert needed == ("needs a review (repeated_failure" in faults(run))
    if needed:
        run.ask("review")
        assert run.answer("review", outcome="resume", at=LATER).decision is not None
    assert "" == faults(run)


def test_ends_that_do_not_count_use_up_no_attempt(run):
    """A run that is preempted again and again keeps its attempts."""
    run.until("prepare")
    for number in (1, 2, 3, 4):
        run.launched(number)
        run.ended(number, counted=False, exit_class="preempted")

    assert "" == faults(run)


def test_a_review_that_was_asked_must_be_answered(run):
    """A single failure may be tried again, but not behind the back of somebody who was asked about it."""
    run.until("prepare").launched(1)
    run.ended(1, state="failed", exit_code=9, signal=None)
    assert "" == faults(run)

    run.ask("review")

    assert "nobody has answered one" in faults(run)


@pytest.mark.parametrize("outcome", [None, "", "register", "continue", ["resume"]])
def test_a_review_needs_one_of_its_own_outcomes(stopped, outcome):
    """An outcome of the close gate means nothing here."""
    stopped.ask("review")

    refused = stopped.answer("review", outcome=outcome, at=LATER).refusal

    assert "an outcome is required (resume, resume_changed, stop)" in refused.detail


def test_an_exploration_is_reviewed_without_a_prepare_decision(make_run):
    """There is none to stand; the run gate that follows is asked without it too."""
    made = make_run(conf=CONF | {"scope": "exploration"}).until("declare")
    stop(made)

    asked = made.ask("review")

    assert "review.prepare" not in {item.id for item in made.gate("review").dossier.items}
    assert made.answer("review", outcome="resume", dossier_digest=asked.digest, at=LATER).decision is not None
    assert "run gate" in made.ask("run").form.subject.lower()
