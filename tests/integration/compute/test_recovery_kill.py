"""Real signals while a run trains, through the whole main line: what stays, what is recorded, how it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.main_line import Line
from tests.support.recovering_program import recovering_line

from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import CheckpointError, StillRunningError

from .conftest import wait_for

ROOT = Path(__file__).parents[3]
TASK = """
import sys
from pathlib import Path
from tests.support.main_line import Line
line = Line(folder=Path(sys.argv[1]))
line.run_uid = sys.argv[2]
ended = line.launch()
print(ended.state, flush=True)
sys.exit(0 if ended.state == "completed" else 1)
"""


class Task:
    """The launching task in a process of its own, as a worker of Airflow runs it."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.process = subprocess.Popen(
            [sys.executable, "-c", TASK, str(line.folder), line.run_uid], cwd=ROOT, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def events(self) -> list[dict[str, Any]]:
        """What the program reported so far."""
        path = self.line.runs_folder / self.line.run_uid / "attempt-1" / "events.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def at_step(self, step: int) -> None:
        """Wait until the program reported a step, and the ledger its newest checkpoint before it."""
        wait_for(lambda: any(e.get("step") == step and e["event"] == "metric" for e in self.events()), 60)
        saved = step - step % 10
        wait_for(lambda: saved in [c.step for _, c in self.line.view().all(kinds.CheckpointRegistered)], 30)

    def trainer(self) -> int:
        """The program's process id, as its wrapper wrote it down."""
        started = wait_for(lambda: self.line.view().latest(kinds.AttemptStarted), 30)
        return int(started.process_group)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """A run whose program ends with exit code 0 when it is asked to end."""
    return recovering_line(Line(folder=tmp_path), steps=400, seconds=0.05)


@pytest.mark.case("L01")
@pytest.mark.parametrize("whom", ["task", "trainer", "both"])
def test_sigterm_never_ends_as_success(line: Line, whom: str) -> None:
    """SIGTERM to the task, to the trainer only, to both: interrupted, last step known, nothing of it is left."""
    task = Task(line)
    task.at_step(15)
    trainer = task.trainer()
    if whom in {"trainer", "both"}:
        os.kill(trainer, signal.SIGTERM)
    if whom in {"task", "both"}:
        task.process.send_signal(signal.SIGTERM)
    said, _ = task.process.communicate(timeout=40)
    ended = line.view().latest(kinds.AttemptEnded)

    assert ended is not None
    assert ("interrupted", 1, "interrupted") == (ended.state, task.process.returncode, said.strip())
    assert 15 <= (ended.last_step or 0) < 400
    assert {} == processes_of(line.run_uid, 1)
    assert all(not e.get("complete") for e in task.events())


@pytest.mark.requirement("R195")
def test_a_worker_killed_by_sigkill_is_followed_by_a_resume(tmp_path: Path) -> None:
    """SIGKILL of the worker: its job ends with it, the next try closes the attempt as lost and goes on."""
    line = recovering_line(Line(folder=tmp_path), steps=60, seconds=0.05)
    task = Task(line)
    task.at_step(25)
    task.process.kill()
    task.process.communicate(timeout=20)
    wait_for(lambda: not processes_of(line.run_uid, 1), 20)
    assert line.view().latest(kinds.AttemptEnded) is None

    ended = line.launch(try_number=2)
    view = line.view()
    first = next(e for _, e in view.all(kinds.AttemptEnded) if e.attempt == 1)
    done = view.latest(kinds.AttemptReconciled)
    told = [e["step"] for e in task.events() if e["event"] == "metric"]

    assert done is not None
    assert (("lost", 1), ("completed", 2)) == ((first.state, first.attempt), (ended.state, ended.attempt))
    assert max(told) == first.last_step
    assert max(told) - max(told) // 10 * 10 == first.steps_lost == done.steps_lost == done.steps_repeated
    assert (1, 1) == (done.members_loaded, done.members_expected)
    assert {"verified"} == {check["verdict"] for check in done.checks}, done.checks


def test_an_attempt_that_lives_is_not_taken_over(line: Line) -> None:
    """Another caller than the task's next try ends nothing while the job runs."""
    task = Task(line)
    task.at_step(11)
    with pytest.raises(StillRunningError):
        line.launch(try_number=1)
    assert processes_of(line.run_uid, 1)
    task.process.terminate()
    task.process.communicate(timeout=40)


def test_a_run_whose_checkpoints_all_lie_has_no_result(tmp_path: Path) -> None:
    """Registration after the end reads everything again: damage since then leaves no result."""
    line = recovering_line(Line(folder=tmp_path), steps=10)
    line.launch()
    path = line.runs_folder / line.run_uid / "checkpoints" / "step_00000010" / "weights-0.bin"
    path.write_bytes(b"x" * 256)

    with pytest.raises(CheckpointError, match="other content"):
        line.register()
