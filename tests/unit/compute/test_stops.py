"""Stop rules: pure, each at its limit."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pretrain_archive.compute.stops import (
    BudgetSpent,
    Divergence,
    EvidenceLost,
    JobState,
    NanLoss,
    NoProgress,
    StopRule,
    WallTime,
    first_stop,
)


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
            EvidenceLost(10), {"seconds": 99}, {"seconds": 100, "evidence_failing_since": 90.0}, "evidence",
            id="evidence",
        ),
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
