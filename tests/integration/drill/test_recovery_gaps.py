"""A drill that finds a gap does not pass, and names it: workers without torch that fail in one way each."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.support.main_line import Line

from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.compute.wrapper import send
from pretrain_archive.domain import kinds
from pretrain_archive.domain.policy import load_policy
from pretrain_archive.services import drilling
from pretrain_archive.services.launch_bench import Bench

LIGHT = Path(__file__).with_name("light")
MISLOADED = {"loaded": "changed", "reconciled": "changed"}
POLICIES = Path(__file__).parents[3] / "dags" / "policies"


def drilled(
    folder: Path, flaw: str, *, review: bool = False, strike: drilling.Strike | None = None, **plan: Any
) -> tuple[Line, kinds.DrillFiled]:  # fmt: skip
    """A drill of the light workers with a flaw."""
    program = folder / "light"
    shutil.copytree(LIGHT, program, ignore=shutil.ignore_patterns("__pycache__"))
    (program / "flaw.txt").write_text(flaw)
    (program / "evaluate.py").write_text("")
    example = {"checkpoint_every": 1, "model": {}, "optimisation": {}}
    (program / "demo.json").write_text(json.dumps(example))
    line = Line(folder=folder, policy=load_policy(POLICIES, "drill"))
    bench = Bench(store=line.store, policies=lambda _: line.policy, runs_folder=line.runs_folder)
    asked = drilling.Plan(
        **({"inject": "worker_exit", "program": program, "steps": 50, "patience": 0} | plan)
    )

    def answer(run_uid: str) -> None:
        line.run_uid = run_uid
        outcome = line.answer("review", line.ask("review"), outcome="resume")
        assert outcome.decision is not None, outcome.refusal

    line.run_uid, filed = drilling.drill(
        line.ledger, line.caller("drill"), bench, asked, review=answer if review else None, strike=strike
    )
    return line, filed


def verdicts(filed: kinds.DrillFiled) -> dict[str, str]:
    """Verdict by check."""
    return {check["name"]: check["verdict"] for check in filed.checks}


def test_light_workers_without_a_flaw_pass(tmp_path: Path) -> None:
    """What the flaws below are measured against."""
    _, filed = drilled(tmp_path, "")

    assert dict.fromkeys(drilling.NAMES, "verified") == verdicts(filed), filed.checks


@pytest.mark.requirement("R234")
def test_a_fault_by_other_means(tmp_path: Path) -> None:
    """What a cluster's own tools can do is done by whoever calls the drill; the words are filed as they are."""

    def lose(plan: drilling.Plan, run_uid: str, attempt: int) -> str:
        for pid, start in processes_of(run_uid, attempt).items():
            if b"DRILL_NODE=1" in Path(f"/proc/{pid}/environ").read_bytes():
                send(pid, start, signal.SIGKILL)
        return f"node {plan.node} vanished with its workers"

    _, filed = drilled(tmp_path, "", strike=lose, inject="node_lost")

    assert dict.fromkeys(drilling.NAMES, "verified") == verdicts(filed), filed.checks
    assert filed.detail.startswith("node 1 vanished with its workers at step")


@pytest.mark.requirement("R234", "R235")
@pytest.mark.parametrize(
    ("flaw", "gaps", "says"),
    [
        pytest.param("silent", MISLOADED, "worker 2: not reported", id="one says nothing"),
        pytest.param("other", MISLOADED, "worker 1: loaded other bytes", id="one loads other bytes"),
        pytest.param("jump", {"reconciled": "changed"}, "after the resume at", id="jump"),
        pytest.param(
            "broken",
            {"loaded": "unrecorded", "continued": "changed", "reconciled": "changed"},
            "attempt 2 failed",
            id="cannot go on",
        ),
        pytest.param(
            "unnoticed",
            {
                "detected": "changed", "rescheduled": "changed", "loaded": "unrecorded", "continued": "changed",
                "reconciled": "unrecorded",
            },
            "completed",
            id="nobody notices",
        ),
    ],
)  # fmt: skip
def test_a_gap_is_named_and_does_not_pass(tmp_path: Path, flaw: str, gaps: dict[str, str], says: str) -> None:
    """Each flaw shows in exactly the checks that it concerns."""
    line, filed = drilled(tmp_path, flaw)

    assert dict.fromkeys(drilling.NAMES, "verified") | gaps == verdicts(filed), filed.checks
    assert not filed.passed
    assert any(says in check["found"] for check in filed.checks if check["verdict"] != "verified"), (
        filed.checks
    )
    assert filed == line.view().latest(kinds.DrillFiled)


def test_a_job_that_is_over_before_the_fault_proves_nothing(tmp_path: Path) -> None:
    """Nothing was injected: all checks are unrecorded, whatever the job did."""
    line, filed = drilled(tmp_path, "early")

    assert dict.fromkeys(drilling.NAMES, "unrecorded") == verdicts(filed)
    assert "the job completed before step 25: nothing was injected" == filed.detail
    assert (False, 0, 1) == (filed.passed, filed.attempt, line.view().attempts)


FROZEN = {"inject": "worker_frozen", "node": 0, "workers": 1, "no_progress_minutes": 0.06}
"""The first worker hangs, and the whole job with it: only the stop rule can tell."""


@pytest.mark.requirement("R094", "R234")
def test_a_hang_is_stopped_by_the_rule_and_goes_on_after_a_review(tmp_path: Path) -> None:
    """Nobody's patience ends: no_progress stops the job, a person reviews it, the next attempt recovers."""
    line, filed = drilled(tmp_path, "", review=True, **FROZEN)

    assert dict.fromkeys(drilling.NAMES, "verified") == verdicts(filed), filed.checks
    assert "by the stop rule no_progress" in filed.checks[0]["found"]
    assert ["resume"] == [d.outcome for _, d in line.view().all(kinds.GateDecision) if d.gate == "review"]


@pytest.mark.requirement("R094")
def test_a_stopped_drill_waits_for_a_person(tmp_path: Path) -> None:
    """Without a review nothing is launched again, and what follows is unrecorded."""
    line, filed = drilled(tmp_path, "", **FROZEN)

    assert {"detected": "verified", "stopped": "verified"} == {
        name: verdict for name, verdict in verdicts(filed).items() if verdict != "unrecorded"
    }
    assert "a person has to review it" in filed.checks[2]["found"]
    assert (False, None, 1) == (filed.passed, filed.recovered_attempt, line.view().attempts)
