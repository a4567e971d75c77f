"""Each stop rule with a small real program: it fires, the reason is on record, the last checkpoint stays."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pretrain_archive.compute.cost import spent_seconds
from pretrain_archive.compute.environment import declare_environment
from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import LedgerUnavailableError
from pretrain_archive.domain.kinds import Budget, StopConditions
from pretrain_archive.domain.reviews import repeated_failure

from .conftest import Job

LONG = {"steps": 5000, "step_seconds": 0.02}


@pytest.mark.requirement("R094", "R095", "R096")
@pytest.mark.parametrize(
    ("rule", "config", "changes"),
    [
        pytest.param("wall_time", {}, {"stop": {"wall_minutes": 0.06}}, id="wall time"),
        pytest.param(
            "budget",
            {},
            {"budget": Budget(accelerator="x", accelerators=2, minutes=0.06, owner="b")},
            id="budget",
        ),
        pytest.param(
            "budget",
            {},
            {"budget": Budget(minutes=1, owner="b"), "spent_seconds": 56.0},
            id="budget spent before",
        ),
        pytest.param("nan_loss", {"nan_at": 12}, {}, id="NaN loss"),
        pytest.param("divergence", {"diverge_at": 12}, {"stop": {"max_loss": 100}}, id="divergence"),
        pytest.param(
            "no_progress",
            {"stall_at": 12},
            {"stop": {"no_progress_minutes": 0.02}},
            id="no progress, chatty log",
        ),
        pytest.param(
            "divergence",
            {"rise_at": 32},
            {"stop": {"loss_factor": 3, "loss_points": 5}},
            id="divergence from its own best",
        ),
        pytest.param(
            "data_anomaly",
            {"bad_at": 12, "bad_read": {"problem": "unreadable", "shard": "a.jsonl", "detail": "EIO"}},
            {},
            id="unreadable shard",
        ),
        pytest.param(
            "data_anomaly",
            {
                "bad_at": 12,
                "bad_read": {"problem": "digest", "shard": "a.jsonl", "expected": "1", "found": "2"},
            },
            {},
            id="another digest",
        ),
        pytest.param(
            "data_anomaly",
            {"bad_at": 15, "bad_read": {"reads": 1, "errors": 1}},
            {"stop": {"max_read_errors": 0.3}},
            id="read errors",
        ),
        pytest.param(
            "data_anomaly",
            {"bad_at": 15, "bad_read": {"empty": 1}},
            {"stop": {"max_empty_reads": 0.3}},
            id="empty reads",
        ),
    ],
)
def test_a_stop_rule_ends_the_job(
    job: Job, rule: str, config: dict[str, Any], changes: dict[str, Any]
) -> None:
    """The rule fires, the attempt is stopped, and the last verified checkpoint is kept."""
    ended = job.run(job.spec(config=LONG | config, **changes))

    fired = [f for _, f in job.view().all(kinds.StopFired)]
    assert [rule] == [f.rule for f in fired]
    assert "stopped" == ended.state
    assert rule in ended.reason
    assert ended.last_step
    assert ended.last_checkpoint_step == max((event.step for event in job.accepted), default=None)
    assert 0 <= ended.last_step - (ended.last_checkpoint_step or 0) <= 10
    assert {} == processes_of(job.run_uid, 1)


@pytest.mark.requirement("R096")
def test_a_slow_start_is_no_lack_of_progress(job: Job) -> None:
    """Loading takes longer than steps may: neither wrapper nor launcher stops the job before its first step."""
    ended = job.run(job.spec(config={"steps": 20, "start_seconds": 2.5}, stop={"no_progress_minutes": 0.02}))

    assert ("completed", 20) == (ended.state, ended.last_step), ended.reason


@pytest.mark.requirement("R096")
def test_a_start_that_never_ends_is_stopped(job: Job) -> None:
    """A group that never comes together tells no step: the time for the first one is its limit."""
    stop = {"no_progress_minutes": 0.02, "start_minutes": 0.04}
    ended = job.run(job.spec(config={"steps": 20, "start_seconds": 60}, stop=stop))

    fired = job.view().latest(kinds.StopFired)
    assert fired is not None
    assert ("no_progress", "2.4 s", "stopped") == (fired.rule, fired.limit, ended.state)


@pytest.mark.requirement("R071", "R096")
def test_drift_fires_a_rule_where_the_policy_says_stop(job: Job) -> None:
    """A blocking difference from the signed environment is a stop rule of its own, with the field that differs."""
    declared = declare_environment(sys.executable, (), job.root).environment
    declared["packages"]["torch"] = "0.0.1"

    ended = job.run(job.spec(declared=declared, drift="stop", config=LONG))

    fired = job.view().latest(kinds.StopFired)
    assert fired is not None
    assert ("drift", "packages.torch", "stopped") == (fired.rule, fired.observed, ended.state)


@pytest.mark.requirement("R092")
def test_anomalies_of_the_data_stand_on_the_timeline(job: Job) -> None:
    """Where bad data do not stop the job, what was met is still on record, bounded, and counted as metrics."""
    bad = {"problem": "unreadable", "shard": "a.jsonl", "errors": 1}
    ended = job.run(
        job.spec(config={"steps": 40, "bad_at": 5, "bad_read": bad}, stop={"stop_on_bad_data": False})
    )

    told = [e for _, e in job.view().all(kinds.EventRecorded) if e.event == "data_read"]
    errors = [
        p for _, m in job.view().all(kinds.MetricsRecorded) for p in m.points if p.name == "data_read_errors"
    ]
    assert "completed" == ended.state
    assert "shard a.jsonl cannot be read" == told[0].data["problem"]
    assert (20, 36) == (len(told), len(errors))


def test_nan_goes_on_where_the_conditions_allow_it(job: Job) -> None:
    """A NaN loss is stored as not finite, strictly, and stops nothing when that is switched off."""
    ended = job.run(job.spec(config={"steps": 12, "nan_at": 5}, stop={"stop_on_nan": False}))

    points = [p for _, m in job.view().all(kinds.MetricsRecorded) for p in m.points if p.name == "train_loss"]
    assert "completed" == ended.state
    assert [(5, None, "nan")] == [(p.step, p.value, p.not_finite) for p in points if p.not_finite]


class Deaf:
    """A ledger that accepts the intent and nothing after ``limit`` appends until it is opened again."""

    def __init__(self, ledger: Any, limit: int) -> None:
        self.ledger, self.left, self.open = ledger, limit, False

    def append(self, drafts: Any) -> Any:
        """Append while the ledger can be reached."""
        self.left -= 1
        if self.left < 0 and not self.open:
            raise LedgerUnavailableError("no connection")
        return self.ledger.append(drafts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)


def test_a_job_without_evidence_is_stopped(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing can be written for too long the job stops; the next try finds out why and writes it down."""
    monkeypatch.setattr("pretrain_archive.compute.local.FINAL_SECONDS", 0.5)
    intent = job.intend()
    launch = job.launch(
        job.spec(config=LONG), intent=intent, ledger=Deaf(job.ledger, 3), evidence_seconds=1.0
    )

    with pytest.raises(LedgerUnavailableError):
        launch.run()

    assert {} == processes_of(job.run_uid, 1)
    (ended,) = job.recover()
    fired = job.view().latest(kinds.StopFired)
    assert fired is not None
    assert ("evidence", "stopped") == (fired.rule, ended.state)


@pytest.mark.requirement("R074", "R094")
def test_repeated_failure_asks_for_a_person(job: Job) -> None:
    """Cost and repeats are counted over attempts; attempts that come no further are not repeated for ever."""
    stop = StopConditions(wall_minutes=1, no_progress_minutes=1, max_attempts=3)
    budget = Budget(accelerator="x", accelerators=2, minutes=5, owner="b")
    first = job.run(job.spec(config={"steps": 50, "exit_at": 14, "exit_code": 2}, budget=budget))
    assert repeated_failure(job.view(), stop) is None
    assert (14, 4) == (first.last_step, first.steps_lost)

    resume = {"resume_from": job.root / "checkpoints" / "step-000010", "resume_step": 10, "budget": budget}
    second = job.run(job.spec(2, config={"steps": 50, "exit_at": 14, "exit_code": 2}, **resume))
    fired = repeated_failure(job.view(), stop)

    assert 4 == second.steps_repeated
    assert fired is not None
    assert ("repeated_failure", 14, 10) == (fired.rule, fired.last_step, first.last_checkpoint_step)
    assert ["failed", "failed"] == [first.state, second.state]
    assert spent_seconds(job.view()) == pytest.approx(
        2 * ((first.seconds or 0) + (second.seconds or 0)), abs=0.01
    )
