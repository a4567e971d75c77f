"""One private Airflow for all end-to-end tests, with policies and small inputs of their own."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster
from tests.support.human_run import section
from tests.support.main_line import EVALUATE, TRAIN
from tests.unit.gates.asked_run import without_steps

from pretrain_archive.domain.kinds import Payload, PayloadT
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import GateView, gate_view, load_run
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.ledger.port import RunQuery
from pretrain_archive.ledger.sql import SqlLedger

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docker" / "local"))  # the tooling's modules are scripts beside each other
from airflow_client import Question  # noqa: E402 - after the path above
from private_airflow import PrivateAirflow  # noqa: E402

DAG = "pretraining_reference"
QUICK = {
    "model": {"layers": 1, "width": 32, "heads": 2, "context": 64, "previous_bytes": 4},
    "optimisation": {
        "steps": 60, "batch": 4, "learning_rate": 0.01, "matrix_learning_rate": 0.04, "warmup": 5,
        "weight_decay": 0.1, "clip": 1.0,
    },
    "seed": 1, "threads": 1, "dtype": "float32", "evaluate_every": 60, "evaluate_bytes": 2048,
    "report_bytes": 4096, "log_every": 5,
}  # fmt: skip
STEP = "[[data.steps]]\nname = "
MIX, BY_CONTENT = f'{STEP}"fewer-code-tables"', f'{STEP}"by-content"'
INCLUDE = ["email/*.py", "json/*.py", "asyncio/*.py", "unittest/*.py", "importlib/*.py", "collections/*.py"]


VERSIONS = itertools.count(1)  # a name and version is one model in the whole ledger


def conf(project: str = "quick", **changes: Any) -> dict[str, Any]:
    """The form's values for a run of seconds: a few modules of the standard library, sixty steps."""
    return {
        "project": project, "objective": "Learn the bytes of a few modules in seconds", "configuration": QUICK,
        "include": INCLUDE, "checkpoint_every": 20, "must_beat_baselines": False, "acceptance_limit": 9.0,
        "release_version": f"0.{next(VERSIONS)}",
    } | changes  # fmt: skip


def policy_text(project: str, **changes: str) -> str:
    """The demo's policy for another project, with lines replaced."""
    text = (ROOT / "dags" / "policies" / "demo.toml").read_text()
    for first, after in (
        ("[data.mixture]", "[data.quality]"),
        (MIX, BY_CONTENT),
    ):  # a few modules have no shares
        before, found, rest = text.partition(first)
        assert found
        text = before + after + rest.partition(after)[2]
    for old, new in {
        'project = "demo"': f'project = "{project}"',
        "min_documents = 50": "min_documents = 5",
    }.items():
        assert old in text
        text = text.replace(old, new)
    for old, new in changes.items():
        key = f"{old} = "
        assert key in text
        text = "\n".join(f"{key}{new}" if line.startswith(key) else line for line in text.splitlines())
    return text + "\n"


LABELS = """
[data.labels]
definition = "labels.toml"

[data.labels.review]
sample = 12
"""
DEFINITION = """
name = "mail"
version = "1"

[labels]
ham = "a letter that a person wrote to another one"
spam = "advertisement that nobody asked for"
"""


def labelled_policy() -> str:
    """A policy for labelled lines of text: bob reviews a sample of them, and nothing is processed."""
    text = without_steps(policy_text("labelled"))
    text = text.replace('retention = ["bob"]', 'retention = ["bob"]\nlabel_reviewers = ["bob"]')
    return text.replace('profile = "code"', 'profile = "text"') + LABELS


TRAINER_FILES = {"train.py": TRAIN, "evaluate.py": EVALUATE}
IMAGE = "registry.example/trainer@sha256:" + "ab" * 32


def cloud_policy(volume: Path) -> str:
    """A policy that launches on the fake cluster, whose pods see ``volume`` where the workers do."""
    section = (
        f'\n[compute]\ntarget = "kubernetes"\n[compute.kubernetes]\nconnection = "e2e_cluster"\n'
        f'namespace = "training"\nimage = "{IMAGE}"\nclaim = "shared"\nmount_path = "{volume}"\n'
        f'python = "{sys.executable}"\n'
    )
    return policy_text("cloud", approval_above_bytes="0") + section


def cluster_in(volume: Path) -> FakeCluster:
    """The cluster, with a program of a few lines on its volume."""
    program = volume / "program"
    program.mkdir(parents=True)
    for name, text in TRAINER_FILES.items():
        (program / name).write_text(text)
    return FakeCluster(bookmark_seconds=5.0)


def dags(folder: Path) -> Path:
    """The project's DAGs and the tests' own, in one folder."""
    folder.mkdir()
    for file in (*(ROOT / "dags").glob("*.py"), *(Path(__file__).parent / "dags").glob("*.py")):
        (folder / file.name).symlink_to(file)
    return folder


@dataclass
class House:
    """A running Airflow, its ledger, and what tests ask of both."""

    air: PrivateAirflow
    cluster: FakeCluster
    volume: Path

    def ledger(self) -> SqlLedger:
        """The ledger, opened afresh, without a key: tests only read."""
        url = f"sqlite:///{self.air.home}/pretrain_archive/ledger.db"
        key = self.air.home / "pretrain_archive" / "ledger.pub"
        return open_ledger(url, signing_key=None, anchors=[], public_keys=[key])

    def runs(self, dag_run_id: str) -> list[str]:
        """The uids of the runs of a DAG run, newest first."""
        return [row.run_uid for row in self.ledger().runs(RunQuery(dag_run_id=dag_run_id))]

    def view(self, dag_run_id: str) -> RunView:
        """The newest run of a DAG run as its records tell it."""
        return load_run(self.ledger(), self.runs(dag_run_id)[0])

    def gate(self, dag_run_id: str, gate: str) -> GateView:
        """A gate of the newest run of a DAG run."""
        return gate_view(self.ledger(), self.view(dag_run_id), gate)

    def all(self, dag_run_id: str, model: type[PayloadT]) -> list[PayloadT]:
        """Every payload of a kind, oldest first."""
        return [payload for _, payload in self.view(dag_run_id).all(model)]

    def sign(self, question: Question, *, user: str = "bob", option: str = "Approve", **values: Any) -> int:
        """Answer a question with everything that its form demands; return the status of Airflow's answer."""
        filled: dict[str, Any] = {"reason": "read and understood"}
        if "acknowledge" in question.params:
            filled["acknowledge"] = True
        if "outcome" in question.params:
            filled["outcome"] = "register"
        return self.air.answer(user, question, option=option, values=filled | values).status_code

    def trigger(self, **changes: Any) -> str:
        """Alice triggers the reference DAG with small inputs."""
        return self.air.trigger("alice", DAG, conf(**changes))

    def pass_gate(self, dag_run_id: str, gate: str, *, dag: str = DAG, **values: Any) -> None:
        """Bob approves a gate."""
        assert self.sign(self.air.wait_question(dag, dag_run_id, f"{gate}_gate"), **values) == 200

    def finish(self, dag_run_id: str, gates: tuple[str, ...] = ("prepare", "run", "close")) -> str:
        """Approve the gates and return the DAG run's final state."""
        for gate in gates:
            self.pass_gate(dag_run_id, gate)
        return self.air.wait_run(DAG, dag_run_id)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command line with this installation's settings."""
        program = [str(Path(sys.executable).with_name("pretrain-archive")), *words]
        return subprocess.run(
            program, env=self.air.environment(), capture_output=True, text=True, timeout=120, check=False
        )

    def json(self, *words: str) -> Any:
        """What a command prints with ``--json``."""
        done = self.command(*words, "--json")
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A private Airflow with all DAGs and a policy for each of the projects that tests name."""
    base = tmp_path_factory.mktemp("house")
    policies = base / "policies"
    policies.mkdir()
    (policies / "quick.toml").write_text(policy_text("quick", approval_above_bytes="0"))
    (policies / "hurry.toml").write_text(policy_text("hurry", deadline_hours="0.002"))
    (policies / "alone.toml").write_text(policy_text("alone", prepare='["alice"]'))
    (policies / "strangers.toml").write_text(policy_text("strangers", prepare='["nobody-here"]'))
    (policies / "labelled.toml").write_text(labelled_policy())
    (policies / "labels.toml").write_text(DEFINITION)
    judged = section("pairs", sample="6", reviewers='["bob", "admin"]')
    (policies / "judged.toml").write_text(policy_text("judged") + judged)
    (policies / "typo.toml").write_text(policy_text("typo").replace("deadline_hours", "deadline_hour"))
    (policies / "cloud.toml").write_text(cloud_policy(base))
    (policies / "drill.toml").write_text((ROOT / "dags" / "policies" / "drill.toml").read_text())
    with cluster_in(base) as cluster:
        config = {"kube_config_path": str(cluster.kubeconfig(base / "kubeconfig"))}
        env = {
            "AIRFLOW__PRETRAIN_ARCHIVE__POLICIES_FOLDER": str(policies),
            "AIRFLOW_CONN_E2E_CLUSTER": json.dumps({"conn_type": "kubernetes", "extra": config}),
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "20",  # tests kill schedulers
        }
        with PrivateAirflow(base / "home", dags_folder=dags(base / "dags"), env=env) as air:
            air.wait_dag(DAG)
            yield House(air=air, cluster=cluster, volume=base)


__all__ = ["DAG", "House", "Payload", "Record", "conf"]
