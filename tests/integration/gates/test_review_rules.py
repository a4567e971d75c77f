"""Every stop rule on a real main line: the job ends, its checkpoint stays, cost and reason are kept, a review asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.main_line import Line

from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError

LONG = {"steps": 100_000, "seconds": 0.02}
AT = '    if step == config.get("die_at") and not resume:\n'
SLOW = {"wall_minutes": 2, "budget_minutes": 5, "no_progress_minutes": 1}


def misbehave(line: Line, row: str) -> None:
    """At step 25 the program does this, at its first attempt and every other."""
    path = line.program / "train.py"
    text = path.read_text()
    assert AT in text
    path.write_text(text.replace(AT, f"    if step == 25:\n        {row}\n{AT}"))


@pytest.mark.requirement("R092", "R094", "R095", "R096")
@pytest.mark.parametrize(
    ("rule", "row", "changes"),
    [
        pytest.param("nan_loss", 'tell(event="metric", name="loss", step=step, value=float("nan"))', {}, id="NaN"),
        pytest.param("divergence", 'tell(event="metric", name="loss", step=step, value=1e9)', {"max_loss": 100},
                     id="divergence"),
        pytest.param("no_progress", "time.sleep(600)", {"no_progress_minutes": 0.08}, id="a frozen program"),
        pytest.param("wall_time", "pass", {"wall_minutes": 0.12}, id="wall time"),
        pytest.param("budget", "pass", {"budget_minutes": 0.12}, id="budget"),
        pytest.param("data_anomaly", 'tell(event="data_read", step=step, problem="digest", shard="a.jsonl")', {},
                     id="another digest"),
    ],
)  # fmt: skip
def test_a_rule_stops_and_asks(tmp_path: Path, rule: str, row: str, changes: dict[str, Any]) -> None:
    """Stopped with the rule as reason, nothing left running, the checkpoint kept, the time charged, a review asked."""
    line = Line(tmp_path)
    misbehave(line, row)
    line.to_signed_launch(configuration=LONG, **SLOW | changes)

    ended = line.launch()

    view = line.view()
    assert ("stopped", [rule]) == (ended.state, [fired.rule for _, fired in view.all(kinds.StopFired)])
    assert rule in ended.reason
    assert ended.seconds
    assert ended.last_checkpoint_step
    assert ended.last_checkpoint_step >= 20
    assert {} == processes_of(line.run_uid, 1)
    assert asked(line) == rule


def asked(line: Line) -> str:
    """The rule that the review names; no further attempt is launched meanwhile."""
    line.ask("review")
    shown = line.view().dossier("review")
    assert shown is not None
    with pytest.raises(RefusedError, match="no launch") as error:
        line.launch(try_number=2)
    assert any("needs a review" in reason for reason in error.value.reasons)
    assert 1 == line.view().attempts
    assert float(dict(shown[1].document["consequences"])["minutes_spent"]) > 0
    return str(dict(shown[1].document["facts"])["stopped_by"]).partition(":")[0]


@pytest.mark.requirement("R094")
def test_repetition_is_recorded_and_asks(tmp_path: Path) -> None:
    """Two attempts that fail at the same step: no third one before a person looked, whatever retries Airflow has."""
    line = Line(tmp_path)
    misbehave(line, "sys.exit(9)")
    line.to_signed_launch(configuration={"steps": 40})
    assert ["failed", "failed"] == [line.launch().state, line.launch(try_number=2).state]

    with pytest.raises(RefusedError, match="the same failure repeats"):
        line.launch(try_number=3)

    assert ["repeated_failure"] == [fired.rule for _, fired in line.view().all(kinds.StopFired)]
    line.answer("review", line.ask("review"), outcome="resume")
    assert "failed" == line.launch(try_number=3).state  # one more, as was chosen
    assert 3 == line.view().attempts
