"""The main line without Airflow: the use cases in the order of the reference DAG, with real processes.

The training program is a few lines that speak the contract with the standard library alone, so that a run takes
seconds. Everything else is the product: policy, ledger, store, launcher, verifier.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pretrain_archive.compute.local import LocalLaunch
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.kinds import AttemptEnded, RunOpened
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.answers import Outcome
from pretrain_archive.gates.asking import Ask
from pretrain_archive.gates.judging import Answer
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.anchors import FileAnchor
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.services import (
    checkpoints,
    closing,
    data,
    evaluating,
    gating,
    launching,
    opening,
    processing,
)
from pretrain_archive.services.caller import Caller
from pretrain_archive.storage.files import FileStore

POLICY = Path(__file__).parents[2] / "dags" / "policies" / "demo.toml"

TRAIN = """
import hashlib, json, os, sys, time
from pathlib import Path
env = lambda name: os.environ["PRETRAIN_ARCHIVE_" + name]
config = json.loads(Path(env("CONFIG")).read_text())
events = open(env("EVENTS"), "a", buffering=1)
tell = lambda **event: events.write(json.dumps(event) + "\\n")
resume = env("RESUME_FROM")
first = json.loads((Path(resume) / "state.json").read_text())["step"] if resume else 0
for step in range(first + 1, config["steps"] + 1):
    time.sleep(config.get("seconds", 0.0))
    tell(event="metric", name="loss", step=step, tokens=step * 10, value=5 / step)
    if step % config["checkpoint_every"] == 0:
        target = Path(env("CHECKPOINT_DIR")) / f"step_{step:08d}"
        hidden = target.with_name(f".tmp_step_{step}")
        hidden.mkdir(parents=True, exist_ok=True)
        (hidden / "weights.bin").write_bytes(hashlib.sha256(str(step).encode()).digest() * 8)
        (hidden / "state.json").write_text(json.dumps({"step": step, "tokens": step * 10}))
        (hidden / ".complete").touch()
        hidden.rename(target)
        tell(event="checkpoint", path=str(target), step=step, tokens=step * 10)
    if step == config.get("die_at") and not resume:
        sys.exit(9)
tell(event="note", text="training complete", complete=True, step=config["steps"])
"""

EVALUATE = """
import hashlib, json, os, sys
from pathlib import Path
env = lambda name: os.environ["PRETRAIN_ARCHIVE_" + name]
folder = Path(env("RESUME_FROM"))
step = json.loads((folder / "state.json").read_text())["step"]
if step in json.loads(Path(env("CONFIG")).read_text()).get("cannot_evaluate", []):
    sys.exit("this checkpoint cannot be evaluated")
metric = lambda value: [
    {"name": "bits_per_byte", "unit": "bits/byte", "direction": "lower", "value": value, "samples": 100}
]
digest = lambda text: "sha256:" + hashlib.sha256(text.encode()).hexdigest()
Path(env("EVALUATION")).write_text(json.dumps({
    "metrics": metric(4.0 - step / 100), "definition": {"what": "bits per byte of the validation split"},
    "data_set": "validation split", "data_set_digest": digest("validation"),
    "baselines": [
        {"name": "untrained", "kind": "untrained model", "subject_digest": digest("u"), "metrics": metric(8.0)}
    ],
}))
"""

CONF: dict[str, Any] = {
    "project": "line", "objective": "Walk the main line in a few seconds", "training_type": "pre-training",
    "licence": "CC0-1.0", "intended_use": "research", "source_name": "corpus", "origin_class": "synthetic",
    "obtained": "made by this test", "authorisation": "own work", "usage_scope": ["research"],
    "configuration": {"steps": 40}, "budget_minutes": 5, "checkpoint_every": 10, "wall_minutes": 2,
    "no_progress_minutes": 1, "max_attempts": 3, "acceptance_metric": "bits_per_byte", "release_name": "line",
    "release_version": "1", "applicable": ["tests"], "not_applicable": ["anything else"],
    "known_limits": ["knows nothing"], "rollback": "none needed", "take_down": "delete the folder",
}  # fmt: skip


def line_policy(steps: str = "", **changes: str) -> LoadedPolicy:
    """The demo's policy for the project "line": see :func:`line_policy_text`."""
    return parse_policy(line_policy_text(steps, **changes).encode(), name="line.toml")


def line_policy_text(steps: str = "", **changes: str) -> str:
    """The demo's policy for the project "line", without a mixture; ``changes`` replace lines by key.

    ``steps`` is TOML that stands in place of the demo's steps of processing.
    """
    text = POLICY.read_text().replace('project = "demo"', 'project = "line"')
    text = text.partition("[data.mixture]")[0] + steps + "\n[quotas]" + text.partition("[quotas]")[2]
    lines = [
        next((f"{key} = {value}" for key, value in changes.items() if line.startswith(f"{key} = ")), line)
        for line in text.splitlines()
    ]
    return "\n".join(lines)


@dataclass
class Line:
    """One run on its way; each method is the use case of one task."""

    folder: Path
    policy: LoadedPolicy = field(
        default_factory=lambda: line_policy(min_documents="5", max_unclean_rate="1.0")
    )
    dag_run_id: str = "manual__line"
    run_uid: str = ""
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        source = self.folder / "source"
        if not source.exists():
            source.mkdir(parents=True)
            self.program.mkdir()
            for number in range(60):
                (source / f"doc{number:02d}.txt").write_text(
                    f"document {number} has words of its own\n" * (number + 2)
                )
            (self.program / "train.py").write_text(TRAIN)
            (self.program / "evaluate.py").write_text(EVALUATE)
        self.store = FileStore(self.folder / "store")
        self.ledger: SqlLedger = self.open_ledger()

    def open_ledger(self, *, key: bool = True) -> SqlLedger:
        """The line's ledger, made on first use."""
        return open_ledger(
            f"sqlite:///{self.folder}/ledger.db", signing_key=self.folder / "ledger.key" if key else None,
            anchors=[FileAnchor(self.folder / "anchors")], create=True,
        )  # fmt: skip

    @property
    def program(self) -> Path:
        """Where the training program stands."""
        return self.folder / "program"

    def caller(self, task_id: str, *, try_number: int = 1, map_index: int = -1) -> Caller:
        """A task try of alice's DAG run."""
        origin = Origin(
            dag_id="line",
            dag_run_id=self.dag_run_id,
            task_id=task_id,
            try_number=try_number,
            map_index=map_index,
        )
        return Caller(origin=origin, actor=Actor(type="task", name=f"line.{task_id}"), submitter="alice",
                      say=self.said.append)  # fmt: skip

    @property
    def runs_folder(self) -> Path:
        """Where runs work."""
        return self.folder / "runs"

    def view(self) -> RunView:
        """The run as its records tell it."""
        return load_run(self.ledger, self.run_uid)

    def open(self, **changes: Any) -> RunOpened:
        """Open the run."""
        values = CONF | {
            "source": str(self.folder / "source"), "train_command": ["{python}", str(self.program / "train.py")],
            "evaluate_command": ["{python}", str(self.program / "evaluate.py")],
        } | changes  # fmt: skip
        host = opening.Host(policies=lambda _: self.policy, work_folder=self.runs_folder)
        opened = opening.open_run(self.ledger, self.caller("open_run"), values, host)
        self.run_uid = opened.run_uid
        return opened

    def prepare_data(self, *, try_number: int = 1) -> None:
        """Source, snapshot, processing, split and quality."""
        names = ("register_source", "snapshot", "process", "quality_check")
        source, snapshot, process, quality = (self.caller(name, try_number=try_number) for name in names)
        data.register(self.ledger, source, self.run_uid)
        data.make_snapshot(self.ledger, self.store, snapshot, self.run_uid)
        processing.process(self.ledger, self.store, process, self.run_uid)
        data.quality(self.ledger, self.store, quality, self.run_uid)

    def ask(self, gate: str, *, try_number: int = 1) -> Ask:
        """Put a gate's question."""
        caller = self.caller(f"{gate}_gate", try_number=try_number)
        return gating.put_question(
            self.ledger, caller, self.run_uid, gate, policy=self.policy, link="http://x/"
        )

    def answer(
        self, gate: str, asked: Ask, *, person: str = "bob", option: str = "Approve", **values: Any
    ) -> Outcome:
        """Answer it with everything that the form demands."""
        filled = {
            "dossier_digest": asked.digest,
            "reason": "read",
            "acknowledge": True,
            "outcome": "register",
        } | values
        answer = Answer(person_id=person, person_name=person, option=option, values=filled,
                        responded_at=format_time(datetime.now(UTC)), authentication="test")  # fmt: skip
        return gating.take(
            self.ledger, self.caller(f"{gate}_gate"), self.run_uid, gate, policy=self.policy, answer=answer
        )

    def sign(self, gate: str) -> None:
        """Ask and approve."""
        outcome = self.answer(gate, self.ask(gate))
        assert outcome.decision is not None, outcome.refusal

    def launch(
        self, *, try_number: int = 1, hold: Callable[[LocalLaunch], None] | None = None
    ) -> AttemptEnded:
        """The next attempt."""
        bench = launching.Bench(
            store=self.store, policies=lambda _: self.policy, runs_folder=self.runs_folder
        )
        caller = self.caller("gpu_launch", try_number=try_number)
        return launching.launch(self.ledger, caller, self.run_uid, bench, hold=hold or (lambda _job: None))

    def register(self) -> checkpoints.Registered:
        """Register what training left."""
        return checkpoints.register_all(self.ledger, self.caller("register_checkpoints"), self.run_uid)

    def evaluate(self, checkpoint_id: str | None = None, **place: int) -> evaluating.Evaluated:
        """Evaluate a checkpoint."""
        held: list[subprocess.Popen[bytes]] = []
        return evaluating.evaluate(
            self.ledger, self.store, self.caller("evaluate", **place), self.run_uid, self.runs_folder,
            hold=held.append, checkpoint_id=checkpoint_id,
        )  # fmt: skip

    def close(self, *, try_number: int = 1) -> closing.Closed:
        """Close the run and write its package."""
        shelf = closing.Shelf(
            packages_folder=self.folder / "packages", verifier_key=(self.folder / "ledger.pub").read_text().strip(),
            policies=lambda _: self.policy,
        )  # fmt: skip
        caller = self.caller("archive_close", try_number=try_number)
        return closing.close_archive(self.ledger, self.store, caller, self.run_uid, shelf)

    def to_signed_launch(self, **changes: Any) -> None:
        """Everything up to the approved prepare gate."""
        self.open(**changes)
        self.prepare_data()
        self.sign("prepare")

    def verify(self, package: Path, *, key: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the package's own verifier with nothing but Python."""
        command = [sys.executable, "-I", "-S", f"{package}/verify.py", "--json"]
        words = ["--key", str(self.folder / "ledger.pub")] if key else []
        return subprocess.run([*command, *words, str(package)], capture_output=True, text=True, check=False)
