"""The page of a review on Airflow's real API server: what happened, what each choice does, and how to go on."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from tests.integration.web.api_server import store_in
from tests.integration.web.conftest import Seeded
from tests.unit.web.gated_run import GatedRun, gated_run

from pretrain_archive.domain import kinds
from pretrain_archive.domain.kinds import AttemptEnded, LaunchIntended, StopFired
from pretrain_archive.gates.service import load_run


def stopped(seeded: Seeded, folder: Path, number: int, **end: object) -> GatedRun:
    """A run whose first attempt was stopped by its NaN rule, with its review asked."""
    run = gated_run(
        seeded.ledger, store_in(folder), folder, number=number, dag_run_id=f"manual__review{number}"
    )
    run.waiting_at_prepare()
    run.answer("prepare")
    intent = LaunchIntended(
        token_digest="sha256:" + "0" * 64, token={}, target="local", checkpoint_size=1, checkpoint_root="00" * 32,
        signer="t",
    )  # fmt: skip
    run.add("gpu_launch", intent, attempt=1)
    run.add("gpu_launch", StopFired(attempt=1, rule="nan_loss", observed="nan at step 30", limit="a finite loss"),
            attempt=1)  # fmt: skip
    values = {"attempt": 1, "state": "stopped", "exit_code": None, "last_step": 30, "steps_lost": 30,
              "reason": "stop rule nan_loss", "seconds": 30.0} | end  # fmt: skip
    run.add("gpu_launch", AttemptEnded.model_validate(values), attempt=1)
    run.ask("review")
    return run


def words(text: str) -> str:
    """A page's text without markup."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text)))


@pytest.mark.requirement("R094", "R096")
def test_the_review_in_both_languages(seeded: Seeded, tmp_path: Path) -> None:
    """Rule, limit, steps, cost and every choice in words and numbers; the run's page leads to it."""
    run = stopped(seeded, tmp_path, 11)
    with seeded.server.client("bob") as client:
        gate = client.get(f"/runs/{run.uid}/gates/review")
        page = words(client.get(f"/runs/{run.uid}").text)
        listed = words(client.get("/runs", params={"state": "waiting"}).text)

    told = words(gate.text)
    assert 200 == gate.status_code
    assert "nan_loss: nan at step 30, limit a finite loss" in told
    assert "from the start (no verified checkpoint): 30 steps are done again" in told
    assert "从头开始（没有已核验的检查点）：重做 30 步" in told
    assert "停止后的复审" in told
    assert ["resume", "resume_changed", "stop"] == re.findall(
        r'name="outcome" value="(\w+)"(?! disabled)', gate.text
    )
    assert "Review after a stop" in page
    assert "waiting for a review" in listed
    assert "等待复审" in listed


def test_what_cannot_be_resumed_is_disabled_with_its_reason(seeded: Seeded, tmp_path: Path) -> None:
    """A budget that is used up: the choice stands, disabled, with what forbids it."""
    run = stopped(seeded, tmp_path, 12, seconds=1_000_000.0)
    with seeded.server.client("bob") as client:
        text = client.get(f"/runs/{run.uid}/gates/review").text

    assert 'value="resume" disabled' in text
    choice = re.search(r'value="resume" disabled>.*?</label>', text, re.DOTALL)
    assert choice is not None
    assert all(part in words(choice[0]) for part in ("Not possible:", "不可选：", "Budget left", "剩余预算"))


def test_how_to_go_on_with_changes(seeded: Seeded, tmp_path: Path) -> None:
    """A replaced run gives the request for the next one, with its origin filled in, and the way to trigger it."""
    run = stopped(seeded, tmp_path, 13)
    run.answer("review", outcome="resume_changed")
    with seeded.server.client("bob") as client:
        text = client.get(f"/runs/{run.uid}/gates/review").text

    shown = re.search(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)
    assert shown is not None
    conf = json.loads(html.unescape(shown[1]))
    closed = load_run(seeded.ledger, run.uid).latest(kinds.RunClosed)
    assert closed is not None
    assert ("superseded", run.uid) == (closed.outcome, conf["derived_from"])
    assert "/dags/pretraining_reference" in text
