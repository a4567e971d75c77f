"""A run in a real ledger, a job specification to vary, and a cluster that speaks HTTP."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pretrain_archive.compute.events import CheckpointEvent
from pretrain_archive.compute.kubernetes.api import ClusterApi
from pretrain_archive.compute.kubernetes.launch import KubernetesLaunch
from pretrain_archive.compute.recovery import close_lost_attempts
from pretrain_archive.compute.spec import JobSpec, attempt_folder
from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.kinds import (
    AttemptEnded,
    Budget,
    LaunchIntended,
    Payload,
    StopConditions,
    read_payload,
)
from pretrain_archive.domain.policy_compute import Kubernetes
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.canonical import digest_of

ASSETS = Path(__file__).with_name("assets")
TRAINER = Path(__file__).parents[1] / "compute" / "assets" / "trainer.py"
"""The same program as on one machine: a cluster gets nothing of its own to run."""
ACTOR = Actor(type="task", name="gpu_launch")
IMAGE = "registry.test/train@sha256:" + "a" * 64
NAMESPACE = "training"


def origin(try_number: int = 1) -> Origin:
    """A task try."""
    return Origin(dag_id="d", dag_run_id="r", task_id="gpu_launch", try_number=try_number)


@dataclass
class Run:
    """A run in a ledger with everything to launch it on a cluster."""

    ledger: Any
    root: Path
    api: ClusterApi
    namespace: str = NAMESPACE
    run_uid: str = field(default_factory=lambda: new_id("run"))
    accepted: list[CheckpointEvent] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def intend(self, attempt: int = 1) -> Record:
        """Consume a launch token, as the gates do; the same token if it was consumed before."""
        known = [r for r in self.records("launch.intended") if r.attempt == attempt]
        if known:
            return known[0]
        token = {"run_uid": self.run_uid, "attempt": attempt, "nonce": new_id("nonce")}
        payload = LaunchIntended(
            token_digest=digest_of(token), token=token, target="kubernetes", checkpoint_size=1,
            checkpoint_root="0" * 64, signer="test",
        )  # fmt: skip
        draft = Draft(
            stream=self.run_uid, kind="launch.intended", payload=payload.to_json(), actor=ACTOR,
            origin=origin(attempt), attempt=attempt, unique=f"launch/{self.run_uid}/{attempt}",
        )  # fmt: skip
        return self.ledger.append([draft])[0]  # type: ignore[no-any-return]

    def spec(self, attempt: int = 1, *, command: tuple[str, ...] = (), **changes: Any) -> JobSpec:
        """A specification of the small trainer; ``config``, ``stop`` and ``budget`` can be changed."""
        config = {"steps": 20, "step_seconds": 0.005} | changes.pop("config", {})
        stop = {"wall_minutes": 1, "no_progress_minutes": 1} | changes.pop("stop", {})
        budget = {"minutes": 5, "owner": "bob"} | changes.pop("budget", {})
        values: dict[str, Any] = {
            "run_uid": self.run_uid,
            "attempt": attempt,
            "command": command or (sys.executable, str(TRAINER)),
            "configuration": config,
            "data_manifest": None,
            "work_folder": attempt_folder(self.root / "work", self.run_uid, attempt),
            "checkpoint_folder": self.root / "checkpoints",
            "budget": Budget(**budget),
            "stop": StopConditions.model_validate(stop),
            "heartbeat_seconds": 0.5,
        }
        return JobSpec(**(values | changes))

    def policy(self, **changes: Any) -> Kubernetes:
        """The cluster's section of the policy."""
        values: dict[str, Any] = {
            "namespace": self.namespace, "image": IMAGE, "claim": "archive", "mount_path": str(self.root),
            "python": sys.executable, "grace_seconds": 2, "start_minutes": 10,
        }  # fmt: skip
        return Kubernetes(**(values | changes))

    def launch(
        self, spec: JobSpec | None = None, *, cluster: Kubernetes | None = None, task: Origin | None = None,
        **options: Any,
    ) -> KubernetesLaunch:  # fmt: skip
        """A launch of an attempt: a new object, as another process would make one."""
        spec = spec or self.spec()
        return KubernetesLaunch(
            spec, intent=options.pop("intent", None) or self.intend(spec.attempt), cluster=cluster or self.policy(),
            api=options.pop("api", self.api), ledger=options.pop("ledger", self.ledger), actor=ACTOR,
            origin=task or origin(spec.attempt), on_checkpoint=self.accept, progress=self.lines.append,
            sleep=options.pop("sleep", _sleep), **{"absence_seconds": 20.0, **options},
        )  # fmt: skip

    def accept(self, event: CheckpointEvent) -> bool:
        """Take a checkpoint whose state file is there."""
        self.accepted.append(event)
        return (Path(event.path) / "state.json").exists()

    def close_lost(self) -> list[AttemptEnded]:
        """What the next task try does with an attempt that has no job on record."""
        return close_lost_attempts(
            self.ledger,
            self.view(),
            self.root / "work",
            actor=ACTOR,
            origin=origin(2),
            on_checkpoint=self.accept,
        )

    def records(self, *kinds: str) -> list[Record]:
        """Records of the run."""
        return list(self.ledger.records(streams=[self.run_uid], kinds=kinds))

    def facts(self, kind: str, model: type[Payload]) -> list[Any]:
        """Payloads of a kind."""
        return [read_payload(record, model) for record in self.records(kind)]

    def view(self) -> RunView:
        """The run as the ledger tells it."""
        return RunView.of(self.run_uid, self.ledger.records(streams=[self.run_uid]))


def _sleep(seconds: float) -> None:
    """Visits follow each other faster than in production."""
    time.sleep(min(seconds, 0.1))
