"""A run whose gates are asked and answered by the real gates, on top of the seeded run's facts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.seeded_run import SNAPSHOT, SOURCE, _Run
from tests.unit.gates.asked_run import without_steps

from pretrain_archive.domain import kinds
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.domain.records import Actor
from pretrain_archive.domain.records import Origin as TaskOrigin
from pretrain_archive.gates.answers import Outcome, take_answer
from pretrain_archive.gates.asking import Ask, ask
from pretrain_archive.gates.judging import Answer
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.storage.port import ObjectStore

POLICY_FILE = Path(__file__).parents[3] / "dags" / "policies" / "demo.toml"
UID = "run_019a0000-0000-7000-8000-0000000000{:02d}"


def demo_policy() -> LoadedPolicy:
    """The demo project's policy as its file says, without the steps of processing: seeded runs have none."""
    return parse_policy(without_steps(POLICY_FILE.read_text()).encode(), name="demo.toml")


@dataclass
class GatedRun(_Run):
    """Seeds stage by stage; a gate is asked with :meth:`ask` and answered with :meth:`answer`."""

    dag_id: str = "pretraining_reference"
    objective: str = "Does a byte-level decoder learn Python source better than an n-gram model?"
    submitter: str = "alice"
    known_limits: tuple[str, ...] = ("Context of 256 bytes",)

    def origin(self, task: str) -> TaskOrigin:
        """Which task of which Dag writes."""
        return TaskOrigin(dag_id=self.dag_id, dag_run_id=self.dag_run_id, task_id=task)

    def add(self, task: str, payload: kinds.Payload, *edges: Any, **more: Any) -> Any:
        """Append a record; the opening gets the policy."""
        if isinstance(payload, kinds.RunOpened):
            payload = self.opened_with_policy(payload)
        return super().add(task, payload, *edges, **more)

    def opened_with_policy(self, payload: kinds.RunOpened) -> kinds.RunOpened:
        """The opening as a real run records it: with policy and request."""
        loaded = demo_policy()
        conf = {
            **payload.conf,
            "known_limits": list(self.known_limits),
            "release_name": "stdlib-bytes",
            "release_version": "1",
        }
        assert payload.purpose is not None
        purpose = payload.purpose.model_copy(update={"intended_use": "research", "objective": self.objective})
        return payload.model_copy(
            update={
                "dag_id": self.dag_id,
                "submitter": self.submitter,
                "policy": loaded.policy.model_dump(mode="json"),
                "policy_digest": loaded.digest,
                "policy_name": loaded.name,
                "conf": conf,
                "conf_digest": digest_of(conf),
                "purpose": purpose,
            }
        )

    def sign(self, gate: str, reason: str, *, outcome: Any = None, decision: Any = "approve") -> None:
        """Ask the gate and answer it as bob."""
        self.ask(gate)
        self.answer(
            gate, reason=reason, outcome=outcome, option="Approve" if decision == "approve" else "Reject"
        )

    def ask(self, gate: str) -> Ask:
        """Put the question of a gate."""
        return ask(
            self.ledger,
            run_uid=self.uid,
            gate=gate,
            policy=demo_policy(),
            link="http://localhost/x",
            actor=Actor(type="task", name=f"{gate}_gate"),
            origin=self.origin(f"{gate}_gate"),
        )

    def answer(
        self,
        gate: str,
        *,
        reason: str = "All evidence is there and was read.",
        person: str = "bob",
        option: str = "Approve",
        outcome: str | None = None,
        digest: str | None = None,
    ) -> Outcome:
        """Answer as ``person``, by default on the dossier that stands now."""
        from pretrain_archive.gates.service import gate_view, load_run

        now = gate_view(self.ledger, load_run(self.ledger, self.uid), gate).digest
        return take_answer(
            self.ledger,
            run_uid=self.uid,
            gate=gate,
            policy=demo_policy(),
            answer=Answer(
                person_id=person,
                person_name=person,
                option=option,
                values={
                    "dossier_digest": digest or now,
                    "reason": reason,
                    "acknowledge": True,
                    "outcome": outcome,
                },
                responded_at="2026-11-29T12:00:00.000000Z",
                authentication="test",
            ),
            actor=Actor(type="task", name=f"{gate}_gate"),
            origin=self.origin(f"{gate}_gate"),
        )

    def waiting_at_prepare(self) -> str:
        """Everything before the prepare gate's answer, as the reference DAG leaves it."""
        self.open(self.objective)
        self.data()
        self.declare()
        self.ask("prepare")
        return self.uid

    def declare(self) -> None:
        """Configuration and environment, without the seeded run's own signature."""
        signing, self.sign = self.sign, lambda *_args, **_more: None  # type: ignore[method-assign]
        self.prepare()
        self.sign = signing  # type: ignore[method-assign]

    def whole(self) -> str:
        """The whole run up to the close."""
        self.open(self.objective)
        self.data()
        self.prepare()
        self.training()
        self.evaluation()
        self.run_gate()
        self.close_gate()
        return self.uid

    def package(self) -> None:
        """A package record as the close writes it."""
        self.add(
            "archive_close",
            kinds.PackageWritten(
                location="file:///srv/archive/packages/run one",
                digest="sha256:" + hashlib.sha256(b"package").hexdigest(),
                files=41,
                total_bytes=123_456,
                verdict="verified",
            ),
            attempt=2,
        )


def gated_run(ledger: Ledger, store: ObjectStore, folder: Path, *, number: int = 1, **more: Any) -> GatedRun:
    """A fresh run in ``ledger``; ``number`` makes its ids."""
    return GatedRun(
        ledger=ledger,
        store=store,
        folder=folder,
        uid=UID.format(number),
        seed=17,
        dag_run_id=more.pop("dag_run_id", f"manual__2026-11-{number:02d}T10:00:00+00:00"),
        **more,
    )


__all__ = ["POLICY_FILE", "SNAPSHOT", "SOURCE", "UID", "GatedRun", "demo_policy", "gated_run"]
