"""Runs as somebody would tell them: seconds after a fixed moment, and what was recorded then."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.records import Actor, Origin, Record
from pretrain_archive.domain.run_view import RunView

START = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
DIGEST = "sha256:" + "0" * 64


def at(seconds: float) -> str:
    """The moment so many seconds after the start."""
    return format_time(START + timedelta(microseconds=round(seconds * 1_000_000)))


@dataclass
class Told:
    """Records of one run, written in the order of the calls; ``clock`` is how far the worker's clock is ahead."""

    run_uid: str = "run_x"
    accelerators: int = 0
    nodes: int = 1
    clock: float = 0.0
    records: list[Record] = field(default_factory=list)

    def add(self, payload: kinds.Payload, seconds: float, attempt: int = 0) -> Record:
        """Record a payload at a moment of the ledger's clock."""
        number = len(self.records)
        record = Record(
            record_id=f"rec_{number}", position=number, stream=self.run_uid, sequence=number, previous="",
            kind=kinds.BY_MODEL[type(payload)], schema_version=1, attempt=attempt, ordinal=0,
            payload=payload.to_json(), actor=Actor(type="task", name="t"), recorded_at=at(seconds),
            origin=Origin(dag_id="d", dag_run_id="r", task_id="t"),
        )  # fmt: skip
        self.records.append(record)
        return record

    @property
    def view(self) -> RunView:
        """The run."""
        return RunView.of(self.run_uid, self.records)

    def open(
        self, *, scope: str = "full", cost: dict[str, Any] | None = None, seconds: float = -60, **more: Any
    ) -> None:
        """The run is opened by alice in project p, and its configuration is declared."""
        purpose = kinds.Purpose(
            training_type="pre-training", objective="tell a run", origin_class="synthetic", intended_use="research",
            acceptance_metric="loss",
        )  # fmt: skip
        self.add(
            kinds.RunOpened(
                run_uid=self.run_uid, project=more.get("project", "p"), dag_id="d", dag_run_id="r",
                submitter=more.get("submitter", "alice"), purpose=purpose, people={"budget_owner": "bob"},
                policy_digest=None, policy_name="", policy={"cost": cost or {}}, conf={"scope": scope},
                conf_digest=DIGEST,
            ),
            seconds,
        )  # fmt: skip
        self.add(
            kinds.ConfigurationDeclared(
                configuration=more.get("configuration", {}), configuration_digest=DIGEST, command=["x"],
                code_digest=None,
                budget=kinds.Budget(accelerators=self.accelerators, minutes=60, owner="bob", nodes=self.nodes),
                stop=kinds.StopConditions(wall_minutes=60, no_progress_minutes=5),
                checkpoints=kinds.CheckpointPlan(
                    location="/c", every_steps=more.get("every", 10), keep_last=2, restore_owner="bob",
                    retention_rule="r",
                ),
            ),
            seconds,
        )  # fmt: skip

    def launch(self, attempt: int, seconds: float, *, scope: Any = "full", target: Any = "local") -> None:
        """The token is consumed."""
        self.add(
            kinds.LaunchIntended(
                token_digest=DIGEST, token={}, target=target, checkpoint_size=1, checkpoint_root="", signer="bob",
                scope=scope,
            ),
            seconds,
            attempt,
        )  # fmt: skip

    def start(
        self, attempt: int, seconds: float, *, resume: int | None = None, there: int | None = None
    ) -> None:
        """The program began."""
        self.add(
            kinds.AttemptStarted(
                attempt=attempt, host="h", resume_step=resume, requested={"accelerators": self.accelerators},
                allocated={"accelerators": there},
            ),
            seconds,
            attempt,
        )  # fmt: skip

    def steps(self, attempt: int, *told: tuple[float, int], name: str = "loss", late: float = 0.0) -> None:
        """One batch of points (moment, step), recorded ``late`` seconds after the last one."""
        points = [
            kinds.MetricPoint(name=name, step=step, value=1.0, at=at(seconds + self.clock))
            for seconds, step in told
        ]
        self.add(kinds.MetricsRecorded(attempt=attempt, points=points), told[-1][0] + late, attempt)

    def event(self, attempt: int, when: float, event: str, *, step: int | None = None, **data: Any) -> Record:
        """An event of the program."""
        return self.add(
            kinds.EventRecorded(attempt=attempt, event=event, at=at(when + self.clock), step=step, data=data),
            when,
            attempt,
        )

    def save(self, attempt: int, seconds: float, step: int, *, took: float | None, good: bool = True) -> None:
        """A checkpoint was complete."""
        self.event(attempt, seconds, "checkpoint", step=step, seconds=took, registered=good)

    def end(
        self, attempt: int, seconds: float, *, took: float | None, state: Any = "completed", own: bool = True,
        late: float = 0.0, **more: Any,
    ) -> Record:  # fmt: skip
        """The attempt ended at a moment; ``own`` says that the wrapper told its own clock."""
        return self.add(
            kinds.AttemptEnded(
                attempt=attempt, state=state, exit_code=0, reason=more.pop("reason", state), seconds=took,
                ended_at=at(seconds + self.clock) if own else None, **more,
            ),
            seconds + late,
            attempt,
        )  # fmt: skip

    def member(self, attempt: int, worker: int, seconds: float, phase: str, **more: Any) -> None:
        """A member was seen to change."""
        moments = {k: at(more.pop(k)) for k in ("started_at", "ended_at") if k in more}
        self.add(
            kinds.MemberObserved(
                attempt=attempt, worker=worker, name=more.pop("name", f"m-{worker}"), phase=phase, at=at(seconds),
                **moments, **more,
            ),
            seconds,
            attempt,
        )  # fmt: skip
