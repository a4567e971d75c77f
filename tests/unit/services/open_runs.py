"""What a run is opened with: a request, a program in a folder, a host with a policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.unit.gates.asked_run import CONF, policy_with

from pretrain_archive.domain.kinds import RunOpened
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger, RunQuery
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.opening import Host, open_run

DAG_RUN = "manual__1"


@dataclass
class Opener:
    """Opens runs of one DAG run; a test changes what stands between two calls."""

    ledger: Ledger
    folder: Path
    policy: LoadedPolicy = field(default_factory=policy_with)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.program.mkdir()
        self.source.mkdir()
        for name in ("train.py", "evaluate.py"):
            (self.program / name).write_text("print('nothing')\n")
        for number in range(12):
            (self.source / f"doc{number}.txt").write_text(f"words of document {number}\n" * (number + 1))

    @property
    def program(self) -> Path:
        """The training program's folder."""
        return self.folder / "program"

    @property
    def source(self) -> Path:
        """The data's folder."""
        return self.folder / "source"

    def values(self, **changes: Any) -> dict[str, Any]:
        """A request that can be opened."""
        return (
            CONF
            | {"source": str(self.source), "train_command": ["{python}", str(self.program / "train.py")]}
            | {"evaluate_command": ["{python}", str(self.program / "evaluate.py")]}
            | changes
        )

    def caller(self, task: str = "open_run", **origin: Any) -> Caller:
        """A task try of alice's DAG run."""
        fields = {"dag_id": "pretraining_reference", "dag_run_id": DAG_RUN, "task_id": task}
        return Caller(
            origin=Origin(**fields | origin), actor=Actor(type="task", name=task), submitter="alice",
            say=self.said.append,
        )  # fmt: skip

    def host(self, **changes: Any) -> Host:
        """The machine of the test."""
        fields = {"policies": lambda _: self.policy, "work_folder": self.folder / "runs"}
        return Host(**fields | changes)

    def open(self, *, caller: Caller | None = None, **changes: Any) -> RunOpened:
        """Open or go on, as a new try of the task."""
        tries = len(self.runs()) + len(self.said) + 1
        return open_run(
            self.ledger, caller or self.caller(try_number=tries), self.values(**changes), self.host()
        )

    def runs(self) -> list[RunView]:
        """The runs of the ledger, oldest first."""
        rows = self.ledger.runs(RunQuery(limit=1000))
        return [load_run(self.ledger, row.run_uid) for row in reversed(rows)]
