"""Stop rules: pure, each at its limit."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute.spec import JobSpec
from pretrain_archive.compute.stops import (
    BudgetSpent,
    DataAnomaly,
    Divergence,
    Drift,
    EvidenceLost,
    JobState,
    NanLoss,
    NoProgress,
    RelativeDivergence,
    StopRule,
    WallTime,
    first_stop,
    rules_for_wrapper,
    rules_of,
)
from pretrain_archive.compute.stops_signals import SPAN, WINDOW, LossTrend, Reads
from pretrain_archive.domain.kinds import Budget, StopConditions


def trend(*last: float) -> LossTrend:
    """A loss that stood at 1 for a while, then took these values."""
    made = LossTrend()
    for step, value in enumerate((*[1.0] * 30, *last)):
        made.add(step, value)
    return made


@pytest.mark.requirement("R096")
@pytest.mark.parametrize(
    ("rule", "before", "at", "name"),
    [
        pytest.param(WallTime(1), {"seconds": 59.9}, {"seconds": 60}, "wall_time", id="wall time"),
        pytest.param(BudgetSpent(1, 0), {"seconds": 59.9}, {"seconds": 60}, "budget", id="budget, no accelerator"),
        pytest.param(BudgetSpent(1, 4), {"seconds": 59.9}, {"seconds": 60}, "budget", id="budget, four"),
        pytest.param(BudgetSpent(1, 4, 120), {"seconds": 29.9}, {"seconds": 30}, "budget", id="budget, half spent"),
        pytest.param(NanLoss(), {"worst_loss": (3, 1e300)}, {"worst_loss": (3, math.nan)}, "nan_loss", id="nan"),
        pytest.param(NanLoss(), {}, {"worst_loss": (3, math.inf)}, "nan_loss", id="inf"),
        pytest.param(Divergence(9), {"worst_loss": (3, 9.0)}, {"worst_loss": (3, 9.1)}, "divergence", id="divergence"),
        pytest.param(
            NoProgress(1), {"seconds": 100, "progress_at": 41}, {"seconds": 100, "progress_at": 40}, "no_progress",
            id="no progress",
        ),
        pytest.param(
            NoProgress(1, 10), {"seconds": 599, "trains": False}, {"seconds": 600, "trains": False}, "no_progress",
            id="no first step",
        ),
        pytest.param(
            NoProgress(1, 10), {"seconds": 100, "trains": False}, {"seconds": 100}, "no_progress",
            id="the start is over",
        ),
        pytest.param(
            NoProgress(10, 1), {"seconds": 599, "trains": False}, {"seconds": 600, "trains": False}, "no_progress",
            id="no first step, the longer time counts",
        ),
        pytest.param(
            EvidenceLost(10), {"seconds": 99}, {"seconds": 100, "evidence_failing_since": 90.0}, "evidence",
            id="evidence",
        ),
        pytest.param(
            EvidenceLost(10), {"evidence_replaced": ""}, {"evidence_replaced": "log.txt is a pipe"}, "evidence",
            id="evidence replaced",
        ),
        pytest.param(
            RelativeDivergence(3, 2), {"losses": {"loss": trend(2.9, 2.9)}}, {"losses": {"loss": trend(3.1, 3.2)}},
            "divergence", id="relative divergence",
        ),
        pytest.param(
            RelativeDivergence(3, 3), {"losses": {"loss": trend(9, 9)}}, {"losses": {"loss": trend(9, 9, 9)}},
            "divergence", id="relative divergence, points in a row",
        ),
        pytest.param(
            DataAnomaly(bad_data=True), {"reads": Reads(reads=99, errors=99, empty=99)},
            {"reads": Reads(problem="shard a cannot be read")}, "data_anomaly", id="bad data",
        ),
        pytest.param(
            DataAnomaly(bad_data=True, max_errors=0.1), {"reads": Reads(reads=20, errors=2)},
            {"reads": Reads(reads=20, errors=3)}, "data_anomaly", id="read errors",
        ),
        pytest.param(
            DataAnomaly(bad_data=False, max_empty=0), {"reads": Reads(reads=19, empty=9, problem="not asked for")},
            {"reads": Reads(reads=20, empty=1)}, "data_anomaly", id="empty reads, enough of them",
        ),
        pytest.param(Drift(), {"drift": ""}, {"drift": "packages.torch"}, "drift", id="drift"),
    ],
)  # fmt: skip
def test_a_rule_fires_at_its_limit_and_not_before(
    rule: StopRule, before: dict[str, Any], at: dict[str, Any], name: str
) -> None:
    """Just below the limit nothing happens; at it the record names rule, observation and limit."""
    base = {"seconds": 1.0, "attempt": 2, "last_step": 7, "last_checkpoint_step": 5}

    assert rule.check(JobState(**(base | before))) is None
    fired = rule.check(JobState(**(base | at)))
    assert fired is not None
    assert (name, 2, 7, 5) == (fired.rule, fired.attempt, fired.last_step, fired.last_checkpoint_step)
    assert fired.observed
    assert fired.limit


def test_the_first_rule_that_fires_is_the_reason() -> None:
    """Order is meaning: a NaN explains more than the time that ran out in the same moment."""
    state = JobState(seconds=1000, attempt=1, worst_loss=(3, math.nan))

    fired = first_stop((NanLoss(), WallTime(1)), state)
    assert fired is not None
    assert "nan_loss" == fired.rule


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1.0] * (SPAN - 1) + [99.0] * 0, id="too few points for a best value"),
        pytest.param([-1.0] * 30 + [50.0] * 5, id="a best value below zero"),
        pytest.param([0.0] * 30 + [50.0] * 5, id="a best value of zero"),
        pytest.param([1.0] * 30 + [50.0] * 4 + [1.0], id="one good point in between"),
        pytest.param([1.0] * 30 + [math.nan, math.inf], id="not finite, another rule's affair"),
    ],
)
def test_a_relative_rule_is_silent_where_it_says_nothing(values: list[float]) -> None:
    """No multiple of nothing is a limit, and a single bad point is no divergence."""
    made = LossTrend()
    for step, value in enumerate(values):
        made.add(step, value)

    assert made.above(3, 5) is None


def test_a_trend_takes_bounded_memory() -> None:
    """A long training keeps the last points only, and still knows the best of all of them."""
    made = LossTrend()
    for step in range(10 * WINDOW):
        made.add(step, 0.5 if step < SPAN * 5 else 2.0)

    assert WINDOW == len(made.recent)
    assert made.best == pytest.approx(0.5)
    assert made.above(3, 10) == (10 * WINDOW - 1, 2.0)


def spec(tmp_path: Path, **stop: Any) -> JobSpec:
    """A job with these stop conditions."""
    conditions = StopConditions.model_validate({"wall_minutes": 2, "no_progress_minutes": 0.5} | stop)
    return JobSpec(
        run_uid="run_x", attempt=1, command=("x",), configuration={}, data_manifest=None, work_folder=tmp_path,
        checkpoint_folder=tmp_path, budget=Budget(minutes=5, owner="b"), stop=conditions,
    )  # fmt: skip


def test_rules_for_the_wrapper(tmp_path: Path) -> None:
    """The rules that need no ledger as plain JSON."""
    made = rules_for_wrapper(spec(tmp_path, stop_on_nan=False, max_loss=9.5))

    assert {"nan": False, "max_loss": 9.5, "no_progress_seconds": 30.0, "wall_seconds": 120.0} == {
        name: value for name, value in made.items() if name != "first_step_seconds"
    }
    assert made == json.loads(json.dumps(made))
    assert [600.0, 90.0, 30.0] == [
        rules_for_wrapper(spec(tmp_path, start_minutes=start))["first_step_seconds"]
        for start in (None, 1.5, 0.1)
    ]


@pytest.mark.requirement("R096")
def test_every_condition_has_its_rule(tmp_path: Path) -> None:
    """Each condition that is set brings its rule; drift only where the policy says stop."""
    plain, full = (
        spec(tmp_path, stop_on_nan=False),
        replace(spec(tmp_path, max_loss=9, loss_factor=3), drift="stop"),
    )
    always = {DataAnomaly, BudgetSpent, WallTime, NoProgress, EvidenceLost}

    assert always == {type(rule) for rule in rules_of(plain)}
    assert always | {NanLoss, Divergence, RelativeDivergence, Drift} == {
        type(rule) for rule in rules_of(full)
    }
