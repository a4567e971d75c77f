"""Runs of a governed platform, told into a real ledger: what they ran on, how they ended, drills that were filed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.main_line import POLICY

from pretrain_archive.domain import kinds
from pretrain_archive.domain.governance_drill import CHECKS
from pretrain_archive.domain.identity import Ref, new_id
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.anchors import FileAnchor
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.services.platform_said import Speaker

DIGEST = "sha256:" + "0" * 64


def policy_text(project: str, platform: str = "", **changes: str) -> str:
    """The demo's policy for another project, with a section about the platform; ``changes`` replace lines by key."""
    text = POLICY.read_text().replace('project = "demo"', f'project = "{project}"')
    lines = [
        next((f"{key} = {value}" for key, value in changes.items() if line.startswith(f"{key} = ")), line)
        for line in text.splitlines()
    ]
    return "\n".join(lines) + "\n" + platform


def by(person: str) -> Speaker:
    """A person who speaks."""
    return Speaker(person=person, authentication=f"{person} of a test")


@dataclass
class Grounds:
    """A ledger on SQLite with anchors, and the policies of its projects."""

    folder: Path
    policies: dict[str, LoadedPolicy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ledger = open_ledger(
            f"sqlite:///{self.folder}/ledger.db", signing_key=self.folder / "ledger.key",
            anchors=[FileAnchor(self.folder / "anchors")], create=True, auto_seal=False,
        )  # fmt: skip

    def policy(self, project: str, platform: str = "", **changes: str) -> LoadedPolicy:
        """Write a project's policy."""
        text = policy_text(project, platform, **changes)
        self.policies[project] = parse_policy(text.encode(), name=f"{project}.toml")
        return self.policies[project]

    def lookup(self, project: str) -> LoadedPolicy:
        """The policy as its file stands now."""
        if project not in self.policies:
            self.policy(project)
        return self.policies[project]

    def add(self, stream: str, payload: kinds.Payload, attempt: int = 0, person: str = "alice") -> Record:
        """Record something in a stream."""
        origin = Origin(dag_id="d", dag_run_id=new_id("call"), task_id="t")
        [record] = self.ledger.append([
            Draft(stream=stream, kind=kinds.BY_MODEL[type(payload)], payload=payload.to_json(), attempt=attempt,
                  actor=Actor(type="person", name=person), origin=origin,
                  edges=(Edge(subject=Ref(type="run", id=stream), relation=Relation.WAS_ASSOCIATED_WITH,
                              object=Ref(type="person", id=person)),))
        ])  # fmt: skip
        return record

    def open(self, project: str = "p", **more: Any) -> str:
        """Open a run of a project and declare its configuration; returns the uid."""
        uid, loaded = new_id("run"), self.lookup(project)
        purpose = kinds.Purpose(
            training_type="fine-tuning", objective="tell a run", origin_class="synthetic", intended_use="research",
            acceptance_metric="loss",
        )  # fmt: skip
        self.add(uid, kinds.RunOpened(
            run_uid=uid, project=project, dag_id="d", dag_run_id=uid, submitter="alice", purpose=purpose,
            people=loaded.policy.people.model_dump(), policy_digest=loaded.digest, policy_name=loaded.name,
            policy=loaded.policy.model_dump(mode="json"), conf={}, conf_digest=DIGEST,
        ))  # fmt: skip
        self.add(uid, kinds.ConfigurationDeclared(
            configuration=more.get("configuration", {"lr": 0.1}), configuration_digest=DIGEST, command=["x"],
            code_digest=DIGEST, budget=kinds.Budget(minutes=60, owner="bob", nodes=more.get("nodes", 1)),
            stop=kinds.StopConditions(wall_minutes=60, no_progress_minutes=5),
            checkpoints=kinds.CheckpointPlan(
                location="/c", every_steps=10, keep_last=2, restore_owner="bob", retention_rule="r"
            ),
        ))  # fmt: skip
        return uid

    def attempt(
        self, uid: str, environment: dict[str, Any] | None, *, number: int = 1, workers: int = 2,
        state: str | None = "completed", nodes: tuple[str, ...] = (), target: str = "local",
    ) -> None:  # fmt: skip
        """An attempt whose workers ran on ``environment`` (None: nobody looked) and ended as ``state``."""
        self.add(uid, kinds.LaunchIntended.model_validate({
            "token_digest": DIGEST, "token": {}, "target": target, "checkpoint_size": 1, "checkpoint_root": "0",
            "signer": "s",
        }), number)  # fmt: skip
        for worker in range(workers if environment is not None else 0):
            self.look(uid, environment or {}, number=number, worker=worker)
        for worker, node in enumerate(nodes):
            self.add(uid, kinds.MemberObserved(
                attempt=number, worker=worker, name=f"pod-{worker}", phase="Running", node=node,
                at="2026-11-29T10:00:00.000000Z",
            ), number)  # fmt: skip
        if state is not None:
            self.end(uid, state, number=number)

    def look(self, uid: str, environment: dict[str, Any], *, number: int, worker: int) -> Record:
        """What the probe sees inside a worker of an attempt."""
        return self.add(uid, kinds.EnvironmentObserved(
            moment="start", worker=worker, environment=environment, environment_digest=DIGEST,
        ), number)  # fmt: skip

    def end(self, uid: str, state: str, *, number: int = 1) -> Record:
        """The end of an attempt."""
        code = 0 if state == "completed" else 1
        return self.add(uid, kinds.AttemptEnded.model_validate(
            {"attempt": number, "state": state, "exit_code": code, "reason": state}
        ), number)  # fmt: skip

    def drill(
        self, uid: str, injected: str = "worker_exit", *, passed: bool = True, **changes: Any
    ) -> Record:
        """File a recovery drill of a run."""
        verdict = "verified" if passed else "changed"
        checks = [
            {"name": name, "verdict": verdict, "expected": "", "found": "", "at": ""} for name in CHECKS
        ]
        return self.add(uid, kinds.DrillFiled.model_validate({
            "target": "local", "injected": injected, "detail": "x", "attempt": 1, "recovered_attempt": 2,
            "passed": passed, "checks": checks, **changes,
        }))  # fmt: skip

    def view(self, uid: str) -> RunView:
        """A run."""
        return load_run(self.ledger, uid)
