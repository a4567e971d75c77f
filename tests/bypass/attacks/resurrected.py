"""What an attempt left is brought to life again: its intent, its files, its records, its job."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.bypass.attacks.replay import derived, used
from tests.bypass.ground import Ground, Try

from pretrain_archive.domain.kinds import AttemptEnded, AttemptStarted


def _end(ground: Ground, state: str, **more: Any) -> None:
    """The attempt has an end on record."""
    fact = {"attempt": 1, "state": state, "exit_code": None, "reason": state, "seconds": 1.0} | more
    ground.add("attempt.ended", AttemptEnded.model_validate(fact), task="gpu_launch", attempt=1)


def _start(ground: Ground) -> None:
    fact = AttemptStarted(attempt=1, host="elsewhere", requested={}, allocated={})
    ground.add("attempt.started", fact, task="gpu_launch", attempt=1)


def _door(*steps: Callable[[Ground], object], times: int = 1) -> Callable[[Ground], object]:
    """The token was used and more happened; then its intent is handed to the last door again."""

    def act(ground: Ground) -> None:
        intent = used(ground, derived(ground))
        for step in steps:
            step(ground)
        for _ in range(times):
            ground.door(intent, attempt=1)

    return act


def _ended(state: str, **more: Any) -> Callable[[Ground], object]:
    return lambda ground: _end(ground, state, **more)


def _later(ground: Ground) -> None:
    """Another attempt was launched and ended meanwhile."""
    _end(ground, "failed")
    used(ground, derived(ground), try_number=2)
    ground.add("attempt.ended", AttemptEnded(attempt=2, state="failed", exit_code=9, reason="x", seconds=1.0),
               task="gpu_launch", attempt=2)  # fmt: skip


def _closed(ground: Ground) -> None:
    _end(ground, "failed")
    ground.line.answer("prepare", ground.line.ask("prepare", try_number=9), option="Reject")


def _left_folder(ground: Ground) -> None:
    """The attempt's folder lies there again, with a status that looks alive."""
    folder = ground.line.runs_folder / ground.line.run_uid / "attempt-1"
    folder.mkdir(parents=True)
    (folder / "status.jsonl").write_text(json.dumps({"event": "start"}) + "\n")


def _second_launch(*steps: Callable[[Ground], object], words: str) -> Callable[[Ground], object]:
    """The launch's task runs again while the attempt of the used token has no end here."""

    def act(ground: Ground) -> None:
        used(ground, derived(ground))
        for step in steps:
            step(ground)
        ground.refused(words, try_number=1, task_id="gpu_launch_again")

    return act


def _completed(ground: Ground) -> None:
    """The run completed; its launch is cleared and run again: the recorded end is handed back, nothing runs."""
    used(ground, derived(ground))
    _end(ground, "completed", exit_code=0)
    assert "completed" == ground.launch(try_number=5).state


TRIES = [
    Try("after it failed", "signed", _door(_ended("failed", exit_code=9))),
    Try("after it completed", "signed", _door(_ended("completed", exit_code=0))),
    Try("after it was stopped", "signed", _door(_ended("stopped"))),
    Try("after it was interrupted", "signed", _door(_ended("interrupted", signal=15))),
    Try("after it was lost", "signed", _door(_ended("lost"))),
    Try("after it was preempted", "signed", _door(_ended("lost", exit_class="preempted", counted=False))),
    Try("after it was evicted", "signed", _door(_ended("failed", exit_class="evicted"))),
    Try("after its node was lost", "signed", _door(_ended("lost", exit_class="node_lost"))),
    Try("after memory ran out", "signed", _door(_ended("failed", exit_class="oom"))),
    Try("after its deadline", "signed", _door(_ended("stopped", exit_class="deadline"))),
    Try("three times in a row", "signed", _door(_ended("failed"), times=3)),
    Try("while it runs elsewhere", "signed", _door(_start)),
    Try("after it ran elsewhere", "signed", _door(_start, _ended("failed"))),
    Try("after it completed elsewhere", "signed", _door(_start, _ended("completed"))),
    Try("after a later attempt", "signed", _door(_later)),
    Try("after the run was closed", "signed", _door(_closed)),
    Try("launched beside it", "signed", _second_launch(words="attempt 1 of run")),
    Try("launched beside it, folder there", "signed", _second_launch(_left_folder, words="attempt 1 of run")),
    Try("launched beside it, running elsewhere", "signed", _second_launch(_start, words="attempt 1 of run")),
    Try("the completed run's launch again", "signed", _completed),
    Try("with a note behind it", "signed", _door(_ended("failed"), lambda g: g.note(g.line.run_uid))),
    Try("after the ledger was opened again", "signed",
        _door(_ended("lost"), lambda g: setattr(g, "ledger", g.line.open_ledger()))),
]  # fmt: skip
