"""A run whose gates are asked and answered by the real gates, on the facts of the seeded run."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.seeded_run import _Run

from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.domain.records import Actor, Record
from pretrain_archive.domain.records import Origin as TaskOrigin
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.answers import Outcome, take_answer
from pretrain_archive.gates.asking import Ask, ask
from pretrain_archive.gates.judging import Answer
from pretrain_archive.gates.permit import LaunchPermit, Observed, derive_permit
from pretrain_archive.gates.service import GateView, gate_view, load_run
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.services.caller import Caller

POLICY_FILE = Path(__file__).parents[3] / "dags" / "policies" / "demo.toml"
DAG_ID = "pretraining_reference"
UID = "run_019a0000-0000-7000-8000-0000000000{:02d}"
ANSWERED_AT = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
"""When answers were given: just now, since an answer from the future or of long ago does not count."""
ANSWERED = format_time(ANSWERED_AT)
NOW = ANSWERED_AT + timedelta(minutes=30)
EXPIRES = format_time(ANSWERED_AT + timedelta(hours=24))

CONF: dict[str, Any] = {
    "project": "demo",
    "objective": "Show that a byte-level decoder beats an n-gram model",
    "training_type": "pre-training",
    "source": "python:stdlib",
    "licence": "PSF-2.0",
    "intended_use": "research",
    "source_name": "python-stdlib",
    "origin_class": "public corpus",
    "obtained": "shipped with the interpreter",
    "authorisation": "open licence",
    "usage_scope": ["research", "experiment", "internal"],
    "configuration": {"layers": 1},
    "train_command": ["{python}"],
    "evaluate_command": ["{python}"],
    "budget_minutes": 8,
    "checkpoint_every": 20,
    "wall_minutes": 6,
    "no_progress_minutes": 2,
    "max_attempts": 3,
    "acceptance_metric": "bits_per_byte",
    "release_name": "stdlib-bytes",
    "release_version": "1",
    "applicable": ["research"],
    "not_applicable": ["production"],
    "known_limits": ["256 bytes of context"],
    "rollback": "use the release before",
    "take_down": "remove the folder",
}
"""A complete request, as the form sends it."""


def without_steps(text: str) -> str:
    """A policy's text without its steps of processing: seeded runs have none."""
    before, found, after = text.partition("\n# Processing, in this order")
    return before + "\n[quotas]" + after.partition("\n[quotas]")[2] if found else text


def policy_with(name: str = "demo.toml", **lines: str) -> LoadedPolicy:
    """The demo's policy with lines replaced: ``key=text`` where ``key = …`` stands in the file."""
    text = without_steps(POLICY_FILE.read_text())
    for key, new in lines.items():
        start = f"{key} = "
        assert f"\n{start}" in text
        text = "\n".join(f"{start}{new}" if line.startswith(start) else line for line in text.split("\n"))
    return parse_policy(text.encode(), name=name)


def without_retention() -> LoadedPolicy:
    """The demo's policy without its retention section."""
    text = without_steps(POLICY_FILE.read_text())
    text = text.partition("[retention]")[0] + "[data]" + text.partition("[data]")[2]
    return parse_policy(text.encode(), name="demo.toml")


@dataclass
class AskedRun(_Run):
    """Seeds stage by stage (open, data, declare, training, evaluation); gates are real."""

    submitter: str | None = "alice"
    policy: LoadedPolicy = field(default_factory=policy_with)
    conf: dict[str, Any] = field(default_factory=lambda: dict(CONF))

    # -- facts -----------------------------------------------------------------------------------------

    def add(self, task: str, payload: kinds.Payload, *edges: Any, **more: Any) -> Record:
        """Append a record; the opening gets request, policy and purpose."""
        if isinstance(payload, kinds.RunOpened):
            purpose = payload.purpose
            assert purpose is not None
            people = self.policy.policy.people.model_dump()
            payload = payload.model_copy(
                update={
                    "submitter": self.submitter, "policy": self.policy.policy.model_dump(mode="json"),
                    "policy_digest": self.policy.digest, "policy_name": self.policy.name, "conf": self.conf,
                    "conf_digest": digest_of(self.conf), "people": people,
                    "purpose": purpose.model_copy(
                        update={"intended_use": "research", "objective": self.conf["objective"]}
                    ),
                }
            )  # fmt: skip
        return super().add(task, payload, *edges, **more)

    def replace(self, task: str, model: type[kinds.PayloadT], **changes: Any) -> Record:
        """Append the newest payload of a kind again with ``changes``: a later fact of the same kind."""
        now = self.view().latest(model)
        assert now is not None
        return self.add(task, model.model_validate(now.model_dump() | changes))

    def sign(self, gate: str, reason: str, *, outcome: Any = None, decision: Any = "approve") -> None:
        """What the seeded run signs by itself is signed through the gates here, by the caller."""

    def until(self, stage: str) -> AskedRun:
        """Write and sign everything up to ``stage``: open, data, declare, prepare, training, evaluation, run, close."""
        stages: dict[str, Any] = {
            "open": lambda: self.open(self.conf["objective"]), "data": self.data, "declare": self.prepare,
            "prepare": lambda: self.pass_gate("prepare"), "training": self.training,
            "evaluation": self.evaluation, "run": lambda: self.pass_gate("run"),
            "close": lambda: self.pass_gate("close", outcome="register"),
        }  # fmt: skip
        for name, write in stages.items():
            write()
            if name == stage:
                return self
        raise ValueError(stage)

    # -- gates -----------------------------------------------------------------------------------------

    def caller(self, task: str, **changes: Any) -> Caller:
        """A try of a task of this run."""
        return Caller(
            origin=self.origin(task, **changes), actor=Actor(type="task", name=task), submitter=self.submitter
        )

    def origin(self, task: str, **changes: Any) -> TaskOrigin:
        """Which task try writes."""
        return TaskOrigin(**{"dag_id": DAG_ID, "dag_run_id": self.dag_run_id, "task_id": task} | changes)

    def view(self) -> RunView:
        """The run as its records tell it now."""
        return load_run(self.ledger, self.uid)

    def gate(self, gate: str, policy: LoadedPolicy | None = None) -> GateView:
        """A gate as it stands now."""
        return gate_view(self.ledger, self.view(), gate, policy)

    def ask(self, gate: str, *, policy: LoadedPolicy | None = None) -> Ask:
        """Put the question of a gate."""
        return ask(
            self.ledger, run_uid=self.uid, gate=gate, policy=policy or self.policy, link="http://localhost/x",
            actor=Actor(type="task", name=f"{gate}_gate"), origin=self.origin(f"{gate}_gate"),
        )  # fmt: skip

    def answer(
        self, gate: str, *, person: str | None = "bob", option: str = "Approve", at: str = ANSWERED,
        policy: LoadedPolicy | None = None, authentication: str = "SimpleAuthManager", try_number: int = 1,
        **values: Any,
    ) -> Outcome:  # fmt: skip
        """Answer as ``person``; by default everything the form demands, about what stands now."""
        filled: dict[str, Any] = {
            "dossier_digest": self.gate(gate).digest,
            "reason": "All evidence was read.",
            "acknowledge": True,
        }
        return take_answer(
            self.ledger, run_uid=self.uid, gate=gate, policy=policy or self.policy,
            answer=Answer(person_id=person, person_name=person, option=option, values=filled | values,
                          responded_at=at, authentication=authentication,
                          anonymous="all admins" in authentication),
            actor=Actor(type="task", name=f"{gate}_gate"),
            origin=self.origin(f"{gate}_gate", try_number=try_number),
        )  # fmt: skip

    def pass_gate(self, gate: str, **values: Any) -> Outcome:
        """Ask a gate and approve it as bob."""
        self.ask(gate)
        outcome = self.answer(gate, **values)
        assert outcome.decision is not None, outcome.refusal
        return outcome

    # -- launch ----------------------------------------------------------------------------------------

    def observed(self, **changes: str) -> Observed:
        """What stands on the worker: by default what was declared."""
        config, env = (
            self.view().latest(kinds.ConfigurationDeclared),
            self.view().latest(kinds.EnvironmentDeclared),
        )
        assert config is not None
        assert config.code_digest is not None
        assert env is not None
        return Observed(
            **{"code_digest": config.code_digest, "environment_digest": env.environment_digest} | changes
        )

    def permit(
        self, *, now: datetime = NOW, policy: LoadedPolicy | None = None, **changes: str
    ) -> LaunchPermit:
        """Derive the next launch token."""
        dag_run_id = changes.pop("dag_run_id", self.dag_run_id)
        return derive_permit(
            self.ledger, self.view(), dag_run_id=dag_run_id, policy=policy or self.policy,
            observed=self.observed(**changes), now=now,
        )  # fmt: skip

    def launched(self, attempt: int = 1) -> None:
        """An attempt with its token and start, without an end."""
        self.add(
            "gpu_launch",
            kinds.LaunchIntended(token_digest=digest_of({"n": attempt}), token={}, target="local",
                                 checkpoint_size=1, checkpoint_root="00" * 32, signer="test"),
            attempt=attempt, unique=f"launch/{self.uid}/{attempt}",
        )  # fmt: skip

    def ended(self, attempt: int = 1, *, seconds: float = 1.0, **changes: Any) -> None:
        """How an attempt ended: by default killed after ``seconds``."""
        values: dict[str, Any] = {
            "attempt": attempt, "state": "interrupted", "exit_code": None, "signal": 9,
            "reason": "worker was killed (signal 9)", "seconds": seconds,
        }  # fmt: skip
        self.add("gpu_launch", kinds.AttemptEnded(**values | changes), attempt=attempt)

    def close_run(self, outcome: Any = "rejected") -> None:
        """Freeze the run without a package."""
        self.add("close", kinds.RunClosed(outcome=outcome, reason="over"), unique=f"close/{self.uid}")
