"""A real ledger on SQLite, a launch intent, and a job specification to vary."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute.events import CheckpointEvent
from pretrain_archive.compute.local import LocalLaunch
from pretrain_archive.compute.recovery import close_lost_attempts
from pretrain_archive.compute.spec import JobSpec, attempt_folder
from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.kinds import AttemptEnded, Budget, LaunchIntended, StopConditions
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.factory import open_ledger

ASSETS = Path(__file__).with_name("assets")
ACTOR = Actor(type="task", name="gpu_launch")


def origin(try_number: int = 1) -> Origin:
    """A task try."""
    return Origin(dag_id="d", dag_run_id="r", task_id="gpu_launch", try_number=try_number)


def gone(pid: int) -> bool:
    """Whether a process is gone; a zombie is."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def wait_for(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """Wait until ``condition`` is true and return its value; fail after ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not so after {seconds} s: {condition}")


@dataclass
class Job:
    """A run in a ledger with everything to launch it."""

    ledger: Any
    root: Path
    run_uid: str = field(default_factory=lambda: new_id("run"))
    accepted: list[CheckpointEvent] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def intend(self, attempt: int = 1) -> Record:
        """Consume a launch token, as the gates do."""
        payload = LaunchIntended(
            token_digest="sha256:" + "0" * 64, token={}, target="local", checkpoint_size=1,
            checkpoint_root="0" * 64, signer="test",
        )  # fmt: skip
        draft = Draft(
            stream=self.run_uid, kind="launch.intended", payload=payload.to_json(), actor=ACTOR,
            origin=origin(attempt), attempt=attempt, unique=f"launch/{self.run_uid}/{attempt}",
        )  # fmt: skip
        return self.ledger.append([draft])[0]

    def spec(self, attempt: int = 1, *, command: tuple[str, ...] = (), **changes: Any) -> JobSpec:
        """A specification of the small trainer; ``config`` and stop conditions can be changed."""
        config = {"steps": 20, "step_seconds": 0.005} | changes.pop("config", {})
        stop = {"wall_minutes": 1, "no_progress_minutes": 1} | changes.pop("stop", {})
        values: dict[str, Any] = {
            "run_uid": self.run_uid,
            "attempt": attempt,
            "command": command or (sys.executable, str(ASSETS / "trainer.py")),
            "configuration": config,
            "data_manifest": None,
            "work_folder": attempt_folder(self.root / "work", self.run_uid, attempt),
            "checkpoint_folder": self.root / "checkpoints",
            "budget": Budget(minutes=5, owner="bob"),
            "stop": StopConditions.model_validate(stop),
            "heartbeat_seconds": 0.5,
        }
        return JobSpec(**(values | changes))

    def accept(self, event: CheckpointEvent) -> bool:
        """Take a checkpoint whose state file is there."""
        self.accepted.append(event)
        return (Path(event.path) / "state.json").exists()

    def launch(self, spec: JobSpec, intent: Record | None = None, **options: Any) -> LocalLaunch:
        """A launch that is not running yet."""
        return LocalLaunch(
            spec, intent=intent or self.intend(spec.attempt), ledger=options.pop("ledger", self.ledger),
            actor=ACTOR, origin=origin(spec.attempt), on_checkpoint=self.accept, progress=self.lines.append,
            **options,
        )  # fmt: skip

    def run(self, spec: JobSpec, **options: Any) -> AttemptEnded:
        """Launch and wait."""
        return self.launch(spec, **options).run()

    def recover(self) -> list[AttemptEnded]:
        """What the next task try does first."""
        return close_lost_attempts(
            self.ledger, self.view(), self.root / "work", actor=ACTOR, origin=origin(2), on_checkpoint=self.accept,
        )  # fmt: skip

    def view(self) -> RunView:
        """The run as the ledger tells it."""
        return RunView.of(self.run_uid, self.ledger.records(streams=[self.run_uid]))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A run in a fresh ledger on SQLite."""
    ledger = open_ledger(
        f"sqlite:///{tmp_path / 'ledger.db'}", signing_key=None, anchors=(), create=True, auto_seal=False
    )
    return Job(ledger=ledger, root=tmp_path)
