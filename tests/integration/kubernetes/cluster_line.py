"""The main line on a cluster: policy, connection and operator as in Airflow, without Airflow's processes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

# Airflow writes its configuration file where it is imported: never into a person's home.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-home-"))

from airflow.sdk.exceptions import TaskDeferred
from tests.fakes.cluster import FakeCluster
from tests.support.main_line import Line, line_policy_text

from pretrain_archive.domain.kinds import AttemptEnded, JobCreated, JobRemoved
from pretrain_archive.domain.policy import parse_policy
from pretrain_archive_operators import GpuLaunchOperator
from pretrain_archive_operators.launch_trigger import LaunchTrigger

NAMESPACE = "training"
CONNECTION = "test_cluster"
IMAGE = "registry.example/trainer@sha256:" + "ab" * 32


def inline(value: Any) -> str:
    """A value in TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {inline(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(value)


def section(mount: Path, **changes: Any) -> str:
    """The policy's section of a cluster whose volume is ``mount``."""
    values = {
        "connection": CONNECTION, "namespace": NAMESPACE, "image": IMAGE, "claim": "shared", "mount_path": str(mount),
        "python": sys.executable,
    } | changes  # fmt: skip
    lines = [f"{name} = {inline(value)}" for name, value in values.items()]
    return "\n".join(['[compute]\ntarget = "kubernetes"\n[compute.kubernetes]', *lines, ""])


def cluster_policy(mount: Path, **changes: Any) -> str:
    """The line's policy on a cluster, as the text of its file."""
    return line_policy_text(section(mount, **changes), min_documents="5", max_unclean_rate="1.0")


class ClusterLine(Line):
    """A line whose runs work below the work folder of the settings."""

    @property
    def runs_folder(self) -> Path:
        """Where runs work."""
        return self.folder / "work" / "runs"


def settle_in(monkeypatch: Any, folder: Path, policy: str) -> Line:
    """A line in ``folder`` whose settings Airflow's processes would have."""
    policies = folder / "policies"
    policies.mkdir(exist_ok=True)
    (policies / "line.toml").write_text(policy)
    line = ClusterLine(folder, policy=parse_policy(policy.encode(), name="line.toml"))
    for name, value in {
        "DATABASE_URL": f"sqlite:///{folder}/ledger.db", "SIGNING_KEY": str(folder / "ledger.key"),
        "PUBLIC_KEYS": str(folder / "ledger.pub"), "ANCHORS": (folder / "anchors").as_uri(),
        "STORE_URL": (folder / "store").as_uri(), "WORK_FOLDER": str(folder / "work"), "POLICIES_FOLDER": str(policies),
    }.items():  # fmt: skip
        monkeypatch.setenv(f"AIRFLOW__PRETRAIN_ARCHIVE__{name}", value)
    return line


def connect(
    monkeypatch: Any, cluster: FakeCluster, folder: Path, name: str = CONNECTION, **extra: Any
) -> None:
    """An Airflow connection to the cluster."""
    config = cluster.kubeconfig(folder / f"{name}.kubeconfig", namespace=NAMESPACE)
    values = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(config)} | extra}
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(values))


@dataclass
class Task:
    """The launch task of a line, tried, deferred and resumed as Airflow does it."""

    line: Line
    options: dict[str, Any] = field(default_factory=dict)
    tries: int = 0
    max_tries: int = 2
    news: list[str] = field(default_factory=list)
    stored: dict[str, Any] = field(default_factory=dict)

    def operator(self) -> GpuLaunchOperator:
        """The operator, made anew as each process does."""
        options = {"visit_seconds": 5.0} | self.options
        return GpuLaunchOperator(task_id="gpu_launch", run_uid=self.line.run_uid, **options)

    def context(self) -> Any:
        """What Airflow hands to this try."""
        ti = SimpleNamespace(
            id=uuid4(), dag_id="line", run_id=self.line.dag_run_id, task_id="gpu_launch", map_index=None,
            try_number=self.tries, max_tries=self.max_tries, dag_version_id=None, stats_tags={},
        )  # fmt: skip
        store = SimpleNamespace(get=self.stored.get, set=self.stored.__setitem__)
        return {
            "ti": ti, "task_instance": ti, "dag_run": SimpleNamespace(triggering_user_name="alice"), "params": {},
            "task_state_store": store,
        }  # fmt: skip

    def start(self) -> Any:
        """A new try: the result, or the trigger that it defers to."""
        self.tries += 1
        return self._call(lambda: self.operator().execute(self.context()))

    def resume(self, event: dict[str, Any]) -> Any:
        """The same try again, in another process, since the trigger fired."""
        return self._call(lambda: self.operator().visit(self.context(), event))

    def _call(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except TaskDeferred as deferred:
            _path, values = deferred.trigger.serialize()
            return LaunchTrigger(**json.loads(json.dumps(values)))  # as the triggerer makes it

    def fire(self, trigger: LaunchTrigger, seconds: float = 30) -> dict[str, Any]:
        """Let the trigger wait for news, in a triggerer of its own."""

        async def wait() -> dict[str, Any]:
            async for event in trigger.run():
                return dict(event.payload)
            raise AssertionError("the trigger ended without an event")

        found = asyncio.run(asyncio.wait_for(wait(), seconds))
        self.news.append(found["news"])
        return found

    def follow(self, found: Any, *, until: Callable[[], bool] = lambda: False) -> Any:
        """Fire and resume until the task has a result, or ``until`` says so."""
        while isinstance(found, LaunchTrigger) and not until():
            found = self.resume(self.fire(found))
        return found

    # -- what came of it -------------------------------------------------------------------------------

    def ends(self) -> list[tuple[int, str]]:
        """Attempts and how they ended."""
        return [(end.attempt, end.state) for _, end in self.line.view().all(AttemptEnded)]

    def jobs(self) -> list[str]:
        """Names of the jobs on record."""
        return [job.name for _, job in self.line.view().all(JobCreated)]

    def removed(self) -> list[JobRemoved]:
        """What was taken away."""
        return [gone for _, gone in self.line.view().all(JobRemoved)]
