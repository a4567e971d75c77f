"""The account of a real run: a program that fails once, goes on, and is evaluated."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.main_line import Line

from pretrain_archive.compute.cost import spent_seconds
from pretrain_archive.domain.cost import account
from pretrain_archive.domain.cost_bins import MICRO
from pretrain_archive.domain.kinds import AttemptEnded, EvaluationReported


@pytest.mark.requirement("R225", "R085")
def test_a_real_run_is_accounted(tmp_path: Path) -> None:
    """Real records carry what the account needs: own moments of attempts, and how long the evaluation took."""
    line = Line(folder=tmp_path)
    line.to_signed_launch(configuration={"steps": 40, "die_at": 25, "seconds": 0.02})
    assert "failed" == line.launch().state
    assert "completed" == line.launch(try_number=2).state
    line.register()
    line.evaluate()
    view = line.view()
    found = account(view)
    report = view.latest(EvaluationReported)

    assert all(
        end.began_at and end.ended_at and end.began_at < end.ended_at for _, end in view.all(AttemptEnded)
    )
    assert report is not None
    assert report.seconds is not None
    assert 0 == report.devices
    trained = sum(one.allocated_us for one in found.attempts)
    assert pytest.approx(spent_seconds(view), abs=1e-5) == trained / MICRO
    bins = found.bins("machine")
    assert round(report.seconds * MICRO) == bins["evaluation"]
    assert sum(bins.values()) == trained + bins["evaluation"]
    assert bins["lost"] > 0
    assert bins["recomputed"] > 0
