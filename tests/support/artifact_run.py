"""A run with registered and evaluated checkpoints, made through the real services: for candidates and clean-up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tests.support.artifact_files import write_checkpoint

from pretrain_archive.artifacts.evaluation import record_evaluation
from pretrain_archive.artifacts.registration import Claim, register_checkpoint
from pretrain_archive.artifacts.rules import Limit
from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore

DIGEST = "sha256:" + "d" * 64
CONFIGURATION = "sha256:" + "c" * 64
ACTOR = Actor(type="task", name="a task")

POLICY = """
project = "demo"
[people]
data_owner = "alice"
model_owner = "alice"
platform_owner = "bob"
budget_owner = "bob"
restore_owner = "alice"
acceptance = "bob"
[approvers]
prepare = ["bob"]
run = ["bob"]
close = ["bob"]
retention = ["bob", "dora"]
[gates]
deadline_hours = 1
decision_valid_hours = 1
[data]
usage_scope = ["research"]
validation_fraction = 0.1
max_exact_duplicate_rate = 1
max_unclean_rate = 1
[quotas]
max_accelerators = 0
max_minutes = 1
[retention]
recovery_keep_last = {keep_last}
recovery_max_age_days = {age}
evaluation_max_age_days = 30
approval_above_bytes = {limit}
legal_hold = {hold}
"""


def policies(
    *, keep_last: int = 1, age: float = 0, limit: int = 10**9, hold: tuple[str, ...] = ()
) -> dict[str, LoadedPolicy]:
    """The policy of the project demo, with its retention rules."""
    text = POLICY.format(keep_last=keep_last, age=age, limit=limit, hold=json.dumps(list(hold)))
    return {"demo": parse_policy(text.encode(), name="demo.toml")}


class Run:
    """Appends to one run, every record from a task try of its own."""

    def __init__(
        self, ledger: Ledger, store: ObjectStore, folder: Path, *, uid: str = "", project: str = "demo"
    ) -> None:
        self.ledger = ledger
        self.store = store
        self.folder = folder
        self.uid = uid or new_id("run")
        self.project = project

    @staticmethod
    def origin() -> Origin:
        """A task try that nobody else writes from."""
        return Origin(dag_id="pretraining_reference", dag_run_id=new_id("manual"), task_id="task")

    def append(
        self, payload: kinds.Payload, *, attempt: int = 0, edges: tuple[Edge, ...] = (), unique: str = ""
    ) -> Record:
        """Append any fact to the run."""
        draft = Draft(
            stream=self.uid,
            kind=kinds.BY_MODEL[type(payload)],
            payload=payload.to_json(),
            actor=ACTOR,
            origin=self.origin(),
            attempt=attempt,
            edges=edges,
            unique=unique,
        )
        return self.ledger.append([draft])[0]

    def open(self, *, derived_from: str | None = None, use: str = "research") -> Run:
        """The run begins."""
        purpose = kinds.Purpose(
            training_type="pre-training",
            objective="learn",
            origin_class="open",
            intended_use=use,
            acceptance_metric="loss",
            acceptance_limit=2.0,
        )
        opened = kinds.RunOpened(
            run_uid=self.uid,
            project=self.project,
            dag_id="pretraining_reference",
            dag_run_id="manual__1",
            submitter="alice",
            purpose=purpose,
            people={},
            policy_digest=DIGEST,
            policy_name="demo.toml",
            conf={},
            conf_digest=DIGEST,
            derived_from=derived_from,
        )
        self.append(opened)
        return self

    def checkpoint(
        self,
        step: int,
        *,
        attempt: int = 1,
        artifact_class: Literal["recovery", "evaluation", "candidate"] = "recovery",
        name: str = "",
        content: bytes = b"",
    ) -> kinds.CheckpointRegistered:
        """Write and register the checkpoint of ``step``."""
        folder = write_checkpoint(
            self.folder, step, name=name, content=content or step.to_bytes(8, "little") * 2
        )
        claim = Claim(
            run_uid=self.uid,
            attempt=attempt,
            step=step,
            tokens=None,
            snapshot="stdlib@1",
            configuration_digest=CONFIGURATION,
            responsible="alice",
            artifact_class=artifact_class,
        )
        return register_checkpoint(self.ledger, folder, claim, actor=ACTOR, origin=self.origin())

    def evaluate(self, checkpoint: kinds.CheckpointRegistered, loss: float) -> kinds.EvaluationReported:
        """Evaluate a checkpoint with a given loss; up to 2.0 passes."""
        metric = {
            "name": "loss",
            "unit": "nats per token",
            "direction": "lower",
            "value": loss,
            "samples": 10,
        }
        baseline = {
            "name": "untrained",
            "kind": "untrained model",
            "subject_digest": DIGEST,
            "metrics": [{**metric, "value": 9.0}],
        }
        document: Mapping[str, Any] = {
            "metrics": [metric],
            "baselines": [baseline],
            "definition": {"metric": "loss"},
            "data_set": "validation",
            "data_set_digest": DIGEST,
        }
        output = self.folder / f"evaluation-{checkpoint.step}.json"
        output.write_text(json.dumps(document))
        return record_evaluation(
            self.ledger,
            self.store,
            run_uid=self.uid,
            checkpoint=checkpoint,
            output=output,
            rules=(Limit(metric="loss", direction="lower", limit=2.0),),
            actor=ACTOR,
            origin=self.origin(),
        )

    def decide(
        self,
        *,
        decision: Literal["approve", "reject"] = "approve",
        outcome: Literal["register", "continue", "clean_up"] | None = "register",
        acknowledged: tuple[str, ...] = (),
    ) -> Record:
        """Bob answers the close gate."""
        return self.append(
            kinds.GateDecision(
                gate="close",
                decision=decision,
                person_id="bob",
                person_name="bob",
                reason="good",
                dossier_digest=DIGEST,
                dossier_record="rec_x",
                responded_at="2026-11-29T10:00:00Z",
                acknowledged=list(acknowledged),
                outcome=outcome,
            )
        )

    def close(self) -> None:
        """The run is frozen."""
        self.append(kinds.RunClosed(outcome="register", reason="done"), unique=f"close/{self.uid}")
