"""The review after a stop on a real main line: asked, answered three ways, and what a launch then may do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.main_line import Line

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.verdicts import Item
from pretrain_archive.gates.asking import Ask
from pretrain_archive.gates.service import gate_view
from pretrain_archive.services import closing

NAN = """
tell(event="metric", name="loss", step=25, tokens=250, value=float("nan"))
time.sleep(30)
"""


def nan_once(line: Line) -> None:
    """The program's loss is NaN at step 25 of its first attempt; resumed, it trains on."""
    path = line.program / "train.py"
    text = path.read_text()
    at = '    if step == config.get("die_at") and not resume:\n'
    assert at in text
    path.write_text(text.replace(at, "    if step == 25 and not resume:\n" + "".join(
        f"        {row}\n" for row in NAN.strip().splitlines()
    ) + at))  # fmt: skip


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """A run whose first attempt is stopped by its NaN rule."""
    made = Line(tmp_path)
    nan_once(made)
    made.to_signed_launch()
    ended = made.launch()
    assert ("stopped", 25, 20) == (ended.state, ended.last_step, ended.last_checkpoint_step)
    return made


def review(line: Line, outcome: str | None, *, asked: Ask | None = None, **values: Any) -> Any:
    """Ask a review and answer it."""
    return line.answer("review", asked or line.ask("review"), outcome=outcome, **values)


def refused(line: Line) -> str:
    """Why no further attempt is launched; nothing was started."""
    before = line.view().attempts
    with pytest.raises(RefusedError) as error:
        line.launch(try_number=2)
    assert before == line.view().attempts
    return "; ".join(error.value.reasons)


@pytest.mark.requirement("R094", "R095", "R096")
def test_a_stop_is_resumed_only_after_a_review(line: Line) -> None:
    """Nothing is launched before; then the same run goes on from its last verified checkpoint."""
    assert "attempt 1 needs a review (nan_loss: nan at step 25, limit a finite loss)" in refused(line)

    asked = line.ask("review")
    assert "waiting_review" == line.view().state
    assert "nobody has answered one" in refused(line)
    outcome = review(line, "resume", asked=asked)

    assert outcome.decision is not None, outcome.refusal
    ended = line.launch(try_number=2)
    assert ("completed", 2, 21) == (ended.state, ended.attempt, ended.first_step)
    assert 5 == ended.steps_repeated
    assert "verified" == items(line, "run")["run.explainable"].verdict


def items(line: Line, gate: str) -> dict[str, Item]:
    """The items of a gate's dossier as it stands, by id."""
    return {item.id: item for item in gate_view(line.ledger, line.view(), gate).dossier.items}


@pytest.mark.requirement("R095", "R096", "R135")
def test_the_dossier_says_what_happened_and_what_each_choice_does(line: Line) -> None:
    """Rule, limit, steps, cost, checkpoint and what is left stand in it, in words and numbers."""
    asked = line.ask("review")
    shown = line.view().dossier("review")
    assert shown is not None
    document = shown[1].document
    facts, found = dict(document["facts"]), {i["id"]: i for i in document["items"]}

    assert "1" == facts["attempt"]
    assert "nan_loss: nan at step 25, limit a finite loss" == facts["stopped_by"]
    assert ("25", "5") == (facts["last_step"], facts["steps_lost"])
    assert "step 20 of attempt 1" == found["review.checkpoint"]["found"]
    assert "1 used, 2 left" == found["review.attempts"]["found"]
    numbers = dict(document["consequences"])
    assert ("20", "5", "2") == (
        numbers["resume_step"],
        numbers["steps_to_repeat"],
        numbers["attempts_remaining"],
    )
    assert "from the checkpoint of step 20: 5 steps are done again" in asked.form.body
    assert "自第 20 步的检查点：重做 5 步" in asked.form.body
    assert ["resume", "resume_changed", "stop"] == asked.form.fields["outcome"]["enum"][1:]


@pytest.mark.requirement("R095")
@pytest.mark.parametrize(("outcome", "closed"), [("stop", "stopped"), ("resume_changed", "superseded")])
def test_a_review_can_end_the_run(line: Line, outcome: str, closed: str) -> None:
    """The run closes with cost and kept checkpoint; its package verifies, and says that there is no release."""
    review(line, outcome)

    close = line.view().latest(kinds.RunClosed)
    assert close is not None
    assert (closed, "closed", "20") == (close.outcome, line.view().state, close.figures["resume_step"])
    [attempt] = [end for _, end in line.view().all(kinds.AttemptEnded)]
    assert pytest.approx((attempt.seconds or 0) / 60, abs=0.005) == float(close.figures["minutes_spent"])
    with pytest.raises(RefusedError, match="is closed and frozen"):
        line.launch(try_number=2)
    done = archive(line)
    told = line.verify(done.folder)
    assert 0 == told.returncode, told.stdout
    assert "verified" == json.loads(told.stdout)["verdict"]
    assert "no release" in (done.folder / "index.html").read_text()
    assert done.package == archive(line, try_number=2).package
    assert 1 == sum(1 for _ in line.view().all(kinds.PackageWritten))


def archive(line: Line, *, try_number: int = 1) -> closing.Closed:
    """The package of a run that a review closed."""
    shelf = closing.Shelf(
        packages_folder=line.folder / "packages", verifier_key=(line.folder / "ledger.pub").read_text().strip(),
        policies=lambda _: line.policy,
    )  # fmt: skip
    caller = line.caller("stop_review", try_number=try_number)
    return closing.archive_stopped(line.ledger, line.store, caller, line.run_uid, shelf)
