"""The ground that attacks on a launch stand on: a run at a stage, a way to try a launch, and signs that one began.

Both targets share the attacks. A try takes the launch as the task does; whatever it did before, at its end no
process and no pod may ever have been started: the program's first act is a marker file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.main_line import EVALUATE, POLICY, TRAIN, Line

from pretrain_archive.compute.local import LocalLaunch
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.kinds import Payload
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.gates.permit import Observed
from pretrain_archive.services import launch_inputs, launching
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.checkpoints import registrar
from pretrain_archive.services.launch_bench import cluster_of
from pretrain_archive.services.launch_spec import spec_of

ENEMY = 77
"""The try by which the enemy's own records are told apart."""

MARK = "the-program-was-here"
PROGRAM = f"""import os
from pathlib import Path
(Path(os.environ["PRETRAIN_ARCHIVE_CONFIG"]).parent / "{MARK}").touch()
"""


@dataclass(frozen=True)
class Try:
    """One try of an attack: from which stage it starts, and what it does; it asserts that the launch is refused."""

    name: str
    stage: str
    act: Callable[[Ground], object]


@dataclass
class Ground:
    """A run at a stage, on one target."""

    line: Line
    monkeypatch: pytest.MonkeyPatch
    target: str = "local"
    clusters: Any = None
    pods: Callable[[], list[str]] = list
    ledger: Any = None
    before: set[str] = field(default_factory=set)
    other: str = ""

    def __post_init__(self) -> None:
        self.ledger = self.ledger or self.line.ledger
        self.before = set(self.signs())

    # -- the launch ----------------------------------------------------------------------------------

    def caller(self, **origin: Any) -> Caller:
        """A try of the launch's task."""
        values = {"dag_id": "line", "dag_run_id": self.line.dag_run_id, "task_id": "gpu_launch"} | origin
        return Caller(origin=Origin(**values), actor=Actor(type="task", name="line.gpu_launch"), submitter="alice",
                      say=self.line.said.append)  # fmt: skip

    def bench(self) -> launching.Bench:
        """What a launch works with."""
        more = {"clusters": self.clusters} if self.clusters else {}
        return launching.Bench(
            store=self.line.store,
            policies=lambda _: self.line.policy,
            runs_folder=self.line.runs_folder,
            **more,
        )

    def launch(self, *, run_uid: str = "", **origin: Any) -> Any:
        """Try to launch, as the task does."""
        return launching.launch(
            self.ledger,
            self.caller(**origin),
            run_uid or self.line.run_uid,
            self.bench(),
            hold=lambda _: None,
        )

    def refused(self, *words: str, **call: Any) -> str:
        """Try to launch and be refused; every one of ``words`` is in the reasons."""
        try:
            ended = self.launch(**call)
        except ArchiveError as error:
            said = "; ".join([error.message, *getattr(error, "reasons", ())])
            assert all(word in said for word in words), said
            return said
        raise AssertionError(f"the launch was not refused: {ended}")

    def observed(self, code: str, environment: str) -> Observed:
        """What stands on the worker."""
        return Observed(code_digest=code, environment_digest=environment)

    def door(self, intent: Record, *, attempt: int) -> None:
        """Hand an intent to the last door before a process or a job, which must not open."""
        view = self.line.view()
        config = launch_inputs.config_of(view)
        code = launch_inputs.code_of(config.command, cluster_of(self.line.policy.policy))
        spec = spec_of(
            view, attempt=attempt, code=code, manifest=None, runs_folder=self.line.runs_folder, resume=None
        )
        try:
            self.open_door(spec, intent)
        except ArchiveError:
            return
        raise AssertionError("the last door opened")

    def open_door(self, spec: Any, intent: Record) -> None:
        """Start what a consumed token starts."""
        caller = self.caller()
        LocalLaunch(
            spec, intent=intent, ledger=self.ledger, actor=caller.actor, origin=caller.origin,
            on_checkpoint=registrar(self.ledger, caller, self.line.view()), progress=caller.say,
        ).run()  # fmt: skip

    # -- signs ---------------------------------------------------------------------------------------

    def seen(self) -> list[str]:
        """Marks, processes and pods; the ledger is not asked, since it may be damaged."""
        found = [str(path) for path in self.line.runs_folder.glob(f"*/attempt-*/{MARK}")]
        found += [f"process {pid}" for pid in processes_of(self.line.run_uid)]
        return [*found, *self.pods()]

    def signs(self) -> list[str]:
        """Everything that tells of a process or a pod."""
        return self.seen() + [
            f"record {record.record_id}"
            for record in self.line.ledger.records(kinds=["attempt.started"])
            if record.origin.try_number != ENEMY
        ]

    def started_unread(self) -> list[str]:
        """What was started since this ground was made, without asking the ledger."""
        return sorted(set(self.seen()) - self.before)

    def started(self) -> list[str]:
        """What was started since this ground was made."""
        return sorted(set(self.signs()) - self.before)

    # -- the enemy's hands ---------------------------------------------------------------------------

    def add(
        self, kind: str, payload: Payload, *, task: str = "open_run", person: str = "", **more: Any
    ) -> Record:
        """Append a record as a task, or in a person's name."""
        values: dict[str, Any] = {
            "actor": Actor(type="person", name=person) if person else Actor(type="task", name=f"line.{task}"),
            "origin": Origin(dag_id="line", dag_run_id=self.line.dag_run_id, task_id=task, try_number=ENEMY),
        } | more
        return self.line.ledger.append([
            Draft(stream=self.line.run_uid, kind=kind, payload=payload.to_json(), **values)
        ])[0]  # fmt: skip

    def clock(self, shift: timedelta) -> None:
        """Move the clock by which launches are judged on this machine."""

        class Moved(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return datetime.now(tz) + shift

        for module in ("services.launch_permission", "gates.permit"):
            self.monkeypatch.setattr(f"pretrain_archive.{module}.datetime", Moved)

    def ledger_clock(self, shift: timedelta) -> None:
        """Move the clock by which the ledger writes on this machine."""
        self.monkeypatch.setattr(
            "pretrain_archive.ledger.writing.utc_now",
            lambda: format_time(datetime.now().astimezone() + shift),
        )

    def note(self, stream: str, text: str = "elsewhere") -> None:
        """Somebody writes something into another stream."""
        self.line.ledger.append([
            Draft(stream=stream, kind="note.added", payload={"topic": "note", "text": text},
                  actor=Actor(type="task", name="other"),
                  origin=Origin(dag_id="other", dag_run_id=os.urandom(6).hex(), task_id="write"))
        ])  # fmt: skip

    def policy_text(self) -> str:
        """The policy's file as text."""
        return policy_text(self.target)

    def set_policy(self, text: str) -> None:
        """The policy's file is changed."""
        self.line.policy = parse_policy(text.encode(), name="line.toml")


def policy_text(target: str) -> str:
    """The demo's policy for the project of these runs, without mixture and processing."""
    text = POLICY.read_text().replace('project = "demo"', 'project = "line"')
    text = text.partition("[data.mixture]")[0] + "\n[quotas]" + text.partition("[quotas]")[2]
    for old, new in (
        ("min_documents = 50", "min_documents = 5"),
        ("max_unclean_rate = 0.02", "max_unclean_rate = 1.0"),
    ):
        assert old in text
        text = text.replace(old, new)
    return text + EXTRA.get(target, "")


EXTRA: dict[str, str] = {}
"""What a target adds to the policy, by target."""


def policy_of(target: str) -> LoadedPolicy:
    """The policy that the runs of a target are opened under."""
    return parse_policy(policy_text(target).encode(), name="line.toml")


def processes_of(run_uid: str) -> list[str]:
    """Living processes that carry the run's id in their environment, whatever attempt they say they are."""
    mark, found = f"PRETRAIN_ARCHIVE_RUN_UID={run_uid}".encode(), []
    for place in os.scandir("/proc"):
        try:
            if place.name.isdigit() and mark in Path(place.path, "environ").read_bytes():
                found.append(place.name)
        except OSError:
            continue
    return found


def cached_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe the same command in the same environment once: a probe is a process, and there are hundreds of tries."""
    real, known = launch_inputs.declare_environment, PROBES

    def probe(command: Any, allowed: Any, root: Path, **more: Any) -> Any:
        key = (str(command), str(root), str(more), *((name, os.environ.get(name)) for name in allowed))
        if key not in known:
            known[key] = real(command, allowed, root, **more)
        return known[key]

    monkeypatch.setattr(launch_inputs, "declare_environment", probe)


PROBES: dict[Any, Any] = {}


class Stages:
    """One run, photographed at each stage; a ground is a copy of a photograph.

    ``data``: nobody was asked; ``asked``: the prepare gate waits; ``signed``: bob approved; ``failed``: the signed
    run's first attempt died. A second signed run of the same project is in every photograph.
    """

    def __init__(self, folder: Path, policy: LoadedPolicy, **opening: Any) -> None:
        self.folder, self.policy, self.opening = folder, policy, opening
        folder.mkdir(exist_ok=True)
        self.uids: dict[str, str] = {}
        self._make()

    def _make(self) -> None:
        work = self.folder / "work"
        (work / "source").mkdir(parents=True)
        (work / "program").mkdir()
        for number in range(40):
            (work / "source" / f"doc{number}.txt").write_text(
                f"document {number} of this ground\n" * (number + 2)
            )
        self.restore()
        values = {"configuration": {"steps": 2}, "checkpoint_every": 2} | self.opening
        other = Line(folder=work, policy=self.policy, dag_run_id="manual__other")
        other.to_signed_launch(**values)
        self.uids["other"] = other.run_uid
        line = Line(folder=work, policy=self.policy)
        line.open(**values)
        line.prepare_data()
        self.uids["line"] = line.run_uid
        self._photograph("data", line)
        asked = line.ask("prepare")
        self._photograph("asked", line)
        line.answer("prepare", asked)
        self._photograph("signed", line)

    def restore(self) -> None:
        """The program's files as they were declared, and no checkpoint of an earlier try."""
        for folder in (self.folder / "work").glob("runs/*/checkpoints"):
            shutil.rmtree(folder)
        program = self.folder / "work" / "program"
        for path in program.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        (program / "train.py").write_text(PROGRAM + TRAIN)
        (program / "evaluate.py").write_text(EVALUATE)

    @property
    def program(self) -> Path:
        """The folder of the training program."""
        return self.folder / "work" / "program"

    def _photograph(self, stage: str, line: Line) -> None:
        line.ledger.close()
        target = self.folder / stage
        shutil.copytree(line.folder, target, ignore=shutil.ignore_patterns("program", "source"))

    def at(self, stage: str, folder: Path) -> Line:
        """A copy of the run at ``stage``, in a folder of its own."""
        shutil.copytree(self.folder / stage, folder, dirs_exist_ok=True)
        (folder / "source").mkdir()
        return Line(folder=folder, policy=self.policy, run_uid=self.uids["line"])
