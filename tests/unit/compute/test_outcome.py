"""What an attempt's end means, from its evidence alone."""

from __future__ import annotations

from typing import Any

import pytest

from pretrain_archive.compute.outcome import conclude
from pretrain_archive.compute.seen import Seen
from pretrain_archive.domain.kinds import StopFired

FIRED = StopFired(attempt=1, rule="nan_loss", observed="nan at step 3", limit="a finite loss")
GOOD = {"reason": "exited", "exit_code": 0, "signal": None, "hidden_failures": []}


def seen(ended: dict[str, Any] | None, *, complete: bool = True, last_step: int | None = 9) -> Seen:
    """What was seen of an attempt that ended so."""
    return Seen(ended=ended, complete=complete, last_step=last_step)


def replaced(found: Seen) -> Seen:
    """The same, with a pipe in place of the event file."""
    found.replaced = "events.jsonl is a pipe"
    return found


@pytest.mark.case("L01", "L03")
@pytest.mark.parametrize(
    ("found", "options", "state"),
    [
        pytest.param(seen(GOOD), {}, "completed", id="exit 0 and the marker"),
        pytest.param(seen(GOOD, complete=False), {}, "interrupted", id="exit 0 alone"),
        pytest.param(seen(GOOD, complete=False), {"target_steps": 9}, "completed", id="target step reached"),
        pytest.param(
            seen(GOOD, complete=False), {"target_steps": 10}, "interrupted", id="target step missed"
        ),
        pytest.param(
            seen(GOOD, complete=False, last_step=None),
            {"target_steps": 0},
            "interrupted",
            id="no step, target 0",
        ),
        pytest.param(seen(GOOD), {"killed": "asked"}, "interrupted", id="completed but the task was killed"),
        pytest.param(seen(GOOD), {"fired": FIRED}, "stopped", id="completed but a rule fired"),
        pytest.param(seen(GOOD), {"drift": "packages.torch"}, "stopped", id="completed but drifted"),
        pytest.param(seen(GOOD | {"exit_code": 1}), {}, "failed", id="exit 1 and the marker"),
        pytest.param(
            seen(GOOD | {"hidden_failures": [{"pid": 1, "exit_code": 3}]}), {}, "failed", id="hidden failure"
        ),
        pytest.param(
            seen(GOOD | {"hidden_failures": [{"pid": 1, "exit_code": 3}]}),
            {"target_steps": 9},
            "failed",
            id="hidden failure, target step reached",
        ),
        pytest.param(replaced(seen(GOOD)), {}, "failed", id="completed but its events are a pipe"),
        pytest.param(replaced(seen(GOOD)), {"fired": FIRED}, "stopped", id="stopped, its events are a pipe"),
        pytest.param(seen(GOOD | {"exit_code": None, "signal": 9}), {}, "failed", id="SIGKILL"),
        pytest.param(seen(GOOD | {"exit_code": None, "signal": 15}), {}, "interrupted", id="SIGTERM"),
        pytest.param(seen(GOOD | {"exit_code": None, "signal": 11}), {}, "failed", id="segmentation fault"),
        pytest.param(seen(GOOD | {"reason": "signal"}), {}, "interrupted", id="asked to end, marker written"),
        pytest.param(seen(GOOD | {"reason": "parent_lost"}), {}, "lost", id="worker killed"),
        pytest.param(seen(GOOD | {"reason": "deadline"}), {}, "stopped", id="wrapper's limit"),
        pytest.param(
            seen(GOOD | {"reason": "not_started", "exit_code": None}), {}, "failed", id="not started"
        ),
        pytest.param(seen({"reason": "exited"}), {}, "failed", id="no exit code"),
        pytest.param(
            seen({"reason": "exited", "exit_code": True}), {}, "failed", id="exit code is no number"
        ),
        pytest.param(seen(None), {}, "lost", id="no end at all"),
        pytest.param(seen(None), {"wrapper_code": -9}, "failed", id="wrapper killed"),
    ],
)
def test_only_full_evidence_is_a_completion(found: Seen, options: dict[str, Any], state: str) -> None:
    """Each way to end has one state, and always a reason."""
    outcome = conclude(found, **({"target_steps": None} | options))

    assert state == outcome.state
    assert outcome.reason


def test_the_worst_loss_is_kept() -> None:
    """A NaN is not forgotten when the loss looks well again; among numbers the highest counts."""
    numbers, odd = Seen(), Seen()
    for step, value in ((1, 3.0), (2, 9.0), (3, 1.0)):
        numbers.loss(step, value)
        odd.loss(step, float("nan") if step == 2 else value)

    assert (2, 9.0) == numbers.worst_loss
    assert odd.worst_loss is not None
    assert (2, "nan") == (odd.worst_loss[0], str(odd.worst_loss[1]))


def test_progress_is_a_higher_step() -> None:
    """The same or a lower step again is no progress."""
    found = Seen()
    for step in (5, 5, 4, 5, 6):
        found.step(step)

    assert (4, 6, 2) == (found.first_step, found.last_step, found.progress_steps)


def test_a_start_lasts_until_training_tells_a_step() -> None:
    """What was read or loaded at a step is no training; another start of the worker begins anew."""
    found = Seen()
    found.begin("program_started")
    found.step(20)
    before = (found.trains, found.progress_steps)
    found.trained()
    found.trained()
    during = (found.trains, found.progress_steps)
    found.begin("program_started")

    assert ((False, 2), (True, 3), (False, 4)) == (before, during, (found.trains, found.progress_steps))
