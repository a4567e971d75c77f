"""Real processes under the local launch: what counts as an end, and what is written down."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pretrain_archive.compute.environment import declare_environment
from pretrain_archive.compute.spec import build_process
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import CheckpointError, InputError, LedgerUnavailableError, RefusedError
from pretrain_archive.domain.records import Draft

from .conftest import ASSETS, Job


@pytest.mark.requirement("R065", "R073", "R075", "R088", "R091")
def test_a_run_completes_with_exit_code_and_marker(job: Job) -> None:
    """A program that reaches its end marker is completed, and its metrics are in the ledger."""
    ended = job.run(job.spec(config={"steps": 30}))

    view = job.view()
    points = [p for _, m in view.all(kinds.MetricsRecorded) for p in m.points]
    started = view.latest(kinds.AttemptStarted)
    assert ("completed", 0, 1, 30, 30) == (
        ended.state, ended.exit_code, ended.first_step, ended.last_step, ended.last_checkpoint_step,
    )  # fmt: skip
    assert list(range(1, 31)) == [p.step for p in points if p.name == "train_loss"]
    assert list(range(1, 31)) == [p.step for p in points if p.name == "data_read_seconds"]
    assert [10, 20, 30] == [event.step for event in job.accepted]
    assert ["start", "end"] == [e.moment for _, e in view.all(kinds.EnvironmentObserved)]
    assert started is not None
    assert (0, 0) == (started.requested["accelerators"], started.allocated["accelerators"])
    assert started.allocated["memory_bytes"] > 0
    assert ended == view.latest(kinds.AttemptEnded)
    assert ended.log_digest
    assert ended.cpu_seconds
    assert "step 30 loss" in job.lines[-1]


@pytest.mark.case("L01")
@pytest.mark.parametrize(
    ("config", "state", "word"),
    [
        pytest.param({"exit_at": 7}, "interrupted", "without the end marker", id="exit 0 half-way"),
        pytest.param({"exit_at": 7, "exit_code": 5}, "failed", "exit code 5", id="exit 5"),
        pytest.param({"no_marker": True}, "interrupted", "without the end marker", id="all steps, no marker"),
    ],
)
def test_exit_code_zero_alone_is_no_success(job: Job, config: dict[str, int], state: str, word: str) -> None:
    """Without the end marker nothing is completed, whatever the exit code."""
    ended = job.run(job.spec(config={"steps": 12} | config))

    assert state == ended.state
    assert word in ended.reason
    assert config.get("exit_at", 12) == ended.last_step


def test_the_configured_target_step_is_a_completion(job: Job) -> None:
    """A program without an end marker is completed when it reported the target step and ended with 0."""
    ended = job.run(job.spec(config={"steps": 12, "no_marker": True}, target_steps=12))

    assert ("completed", "exit code 0 and the configured step 12") == (ended.state, ended.reason)


def test_a_program_outside_the_contract_is_never_completed(job: Job) -> None:
    """A program that only prints is interrupted; the step is taken from its log, and that is said."""
    ended = job.run(job.spec(command=("sh", "-c", "echo step 10 loss 0.5")))

    assert ("interrupted", 10, None) == (ended.state, ended.last_step, ended.first_step)
    assert "by the log alone" in ended.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param("other attempt", "expected launch.intended", id="of another attempt"),
        pytest.param("other kind", "expected launch.intended", id="of another kind"),
        pytest.param("other run", "expected launch.intended", id="of another run"),
        pytest.param("used", "has been used", id="used before"),
    ],
)
def test_no_process_starts_without_its_intent(job: Job, change: str, reason: str) -> None:
    """A launch intent that is not exactly this attempt's, or that is used, starts nothing."""
    intent = job.intend(2 if change == "other attempt" else 1)
    if change == "other kind":
        draft = Draft(
            stream=job.run_uid, kind="note.added", payload=kinds.NoteAdded(topic="note", text="x").to_json(),
            actor=intent.actor, origin=intent.origin, attempt=1,
        )  # fmt: skip
        intent = job.ledger.append([draft])[0]
    if change == "other run":
        intent = Job(ledger=job.ledger, root=job.root).intend()
    if change == "used":
        job.run(job.spec(config={"steps": 1}), intent=intent)
    before = len(list((job.root / "work").rglob("*"))) if change == "used" else 0

    with pytest.raises(RefusedError, match=reason):
        job.run(job.spec(), intent=intent)

    assert before == len(list((job.root / "work").rglob("*")))


@pytest.mark.parametrize(
    ("command", "word"),
    [
        pytest.param(("no-such-program",), "no such program on PATH", id="not on PATH"),
        pytest.param(("./missing",), "there is no such file", id="missing file"),
        pytest.param((str(ASSETS / "trainer.py"),), "is not an executable file", id="not executable"),
        pytest.param((sys.executable, "missing.py"), "there is no such script", id="missing script"),
    ],
)
def test_a_command_that_cannot_start_is_named(job: Job, command: tuple[str, ...], word: str) -> None:
    """A wrong command is an input error with field, value and remedy, before anything is started."""
    with pytest.raises(InputError, match=word) as caught:
        job.run(job.spec(command=command))

    assert ("command", True) == (caught.value.field, bool(caught.value.hint))
    ended = job.view().latest(kinds.AttemptEnded)
    assert ended is not None
    assert "failed" == ended.state
    assert word in ended.reason
    assert [] == list(job.view().all(kinds.AttemptStarted))


def test_the_program_gets_no_secrets_of_the_worker(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only usual and allowed variables reach the program, and only allowed ones are recorded."""
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://u:hunter2@db/x")
    monkeypatch.setenv("TEAM_FLAG", "https://u:hunter2@host/x")
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    spec = job.spec(command=("sh", "-c", "env; exit 3"), allowed_variables=("TEAM_FLAG",))

    job.run(spec)

    stored = b"".join(record.stored for record in job.ledger.records())
    assert [] == [line for line in job.lines if "AIRFLOW" in line or "HF_TOKEN" in line]
    assert any("TEAM_FLAG" in line for line in job.lines)
    assert b"https://***@host/x" in stored
    assert b"hunter2" not in stored


def test_a_dry_run_shows_exactly_what_starts(job: Job) -> None:
    """The request is a pure function of the specification."""
    spec = job.spec(resume_from=Path("/ckpt/step-10"), resume_step=10)
    request = build_process(spec, inherited={"PATH": "/bin", "HF_TOKEN": "x"}, python="/py")

    assert request == build_process(spec, inherited={"PATH": "/bin", "HF_TOKEN": "y"}, python="/py")
    assert "/py" == request.argv[0]
    assert spec.command == request.argv[-2:]
    assert "/ckpt/step-10" == request.environment["PRETRAIN_ARCHIVE_RESUME_FROM"]
    assert ["PATH"] == request.to_dict()["inherited"]
    assert not spec.work_folder.exists()


@pytest.mark.requirement("R092")
def test_a_bad_checkpoint_does_not_count(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused checkpoint is on the timeline and is not the last checkpoint."""

    def accept(event: object) -> bool:
        if event.step == 20:  # type: ignore[attr-defined]
            raise CheckpointError("cut short")
        return True

    monkeypatch.setattr(job, "accept", accept)
    ended = job.run(job.spec(config={"steps": 25}))

    events = [e for _, e in job.view().all(kinds.EventRecorded) if e.event == "checkpoint"]
    assert [True, False] == [e.data["registered"] for e in events]
    assert "cut short" == events[1].data["problem"]
    assert (10, 15) == (ended.last_checkpoint_step, ended.steps_lost)


@pytest.mark.requirement("R069", "R071")
@pytest.mark.parametrize(
    ("drift", "state"),
    [pytest.param("warn", "completed", id="warn"), pytest.param("stop", "stopped", id="stop")],
)
def test_drift_from_the_signed_environment_is_named(job: Job, drift: str, state: str) -> None:
    """A package with another version is a difference; the policy says whether it stops the job."""
    declared = declare_environment(sys.executable, ("LANG",), job.root).environment
    declared["packages"]["torch"] = "0.0.1"
    ended = job.run(job.spec(declared=declared, drift=drift, config={"steps": 300}))

    observed = job.view().latest(kinds.EnvironmentObserved)
    assert state == ended.state
    assert observed is not None
    assert ["packages.torch"] == [d["field"] for d in observed.differences if d["grade"] == "blocking"]


class Unreachable:
    """The real ledger behind a connection that can be cut: before the write, or after it (no answer)."""

    def __init__(self, ledger: object) -> None:
        self.ledger, self.calls, self.cut, self.lost = ledger, 0, range(0), 0

    def append(self, drafts: list[Draft]) -> object:
        """Append, unless the connection is cut."""
        self.calls += 1
        if self.calls in self.cut:
            if self.calls % 2:
                self.lost += len(self.ledger.append(drafts))  # type: ignore[attr-defined]
            raise LedgerUnavailableError("no connection")
        return self.ledger.append(drafts)  # type: ignore[attr-defined]

    def __getattr__(self, name: str) -> object:
        return getattr(self.ledger, name)


def test_an_unreachable_ledger_loses_and_repeats_nothing(job: Job) -> None:
    """While the ledger cannot be reached the job goes on; afterwards everything is there once."""
    ledger = Unreachable(job.ledger)
    intent = job.intend()
    ledger.cut = range(2, 20)
    ended = job.run(job.spec(config={"steps": 60, "step_seconds": 0.02}), intent=intent, ledger=ledger)

    points = [
        p.step for _, m in job.view().all(kinds.MetricsRecorded) for p in m.points if p.name == "train_loss"
    ]
    assert ledger.lost > 0
    assert "completed" == ended.state
    assert list(range(1, 61)) == points
    assert 6 == len([e for _, e in job.view().all(kinds.EventRecorded) if e.event == "checkpoint"])
