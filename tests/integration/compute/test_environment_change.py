"""What changed in a worker since it was here before: named, graded, and stopped where the policy wants it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute.ingest import Ingest
from pretrain_archive.compute.seen import Writer
from pretrain_archive.domain import kinds

from .conftest import ACTOR, Job, origin

SMI = "#!/bin/sh\necho '0, {uuid}, H100, {driver}, 81559, 00000000:18:00.0'\n"


def device(job: Job, monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """A machine whose nvidia-smi tells of this device from now on."""
    folder = job.root / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "nvidia-smi").write_text(SMI.format(**{"uuid": "GPU-1", "driver": "550.54"} | values))
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def since(job: Job, attempt: int) -> dict[str, dict[str, str]]:
    """Fields that differ from before, with their grades, by moment."""
    observed = [(r, o) for r, o in job.view().all(kinds.EnvironmentObserved) if r.attempt == attempt]
    return {
        o.moment: {d["field"]: d["grade"] for d in o.since_previous or ()}
        for _, o in observed
        if o.since_previous is not None
    }


@pytest.mark.requirement("R071", "R074", "R092")
def test_another_machine_at_the_next_attempt_is_named(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempt 2 got another device with another driver; its end is like its start."""
    device(job, monkeypatch)
    job.run(job.spec(config={"steps": 3}))
    device(job, monkeypatch, uuid="GPU-2", driver="560.1")
    job.run(job.spec(2, config={"steps": 3}))

    assert {"end": {}} == since(job, 1)
    named = {"accelerators.0.driver": "warning", "accelerators.0.uuid": "info", "stack.driver": "warning"}
    assert {"start": named, "end": {}} == since(job, 2)
    (started,) = [s for _, s in job.view().all(kinds.AttemptStarted) if s.attempt == 2]
    assert (1, ["GPU-2"]) == (started.allocated["accelerators"], started.allocated["devices"])


@pytest.mark.requirement("R071", "R092")
def test_a_change_during_the_attempt_is_named_at_its_end(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody installed another driver while the job ran."""
    device(job, monkeypatch)
    smi = job.root / "bin" / "nvidia-smi"
    command = ("sh", "-c", f"sed -i s/550.54/560.1/ {smi}")
    job.run(job.spec(command=command))

    assert {"accelerators.0.driver": "warning", "stack.driver": "warning"} == since(job, 1)["end"]


@pytest.mark.requirement("R071", "R096")
@pytest.mark.parametrize(("drift", "state"), [("stop", "stopped"), ("warn", "completed")])
def test_drift_stops_where_the_policy_says_so(job: Job, drift: str, state: str) -> None:
    """Another torch than the signed one: stopped by the rule and named, or only named."""
    declared = {"packages": {"torch": "1.0.0"}}
    config = {"steps": 20, "step_seconds": 0.05} if drift == "warn" else {"steps": 5000}
    ended = job.run(job.spec(declared=declared, drift=drift, config=config))

    fired = job.view().latest(kinds.StopFired)
    assert state == ended.state
    assert ("drift" if drift == "stop" else None) == (fired.rule if fired else None)
    if fired:
        assert "packages.torch" in fired.observed


def status(path: Path, *environments: tuple[str, dict[str, Any]]) -> None:
    """A status file with environments at moments."""
    at = "2026-01-01T00:00:00.000000Z"
    lines = [
        {"status": "environment", "at": at, "moment": moment, "environment": environment}
        for moment, environment in environments
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read(job: Job, attempt: int) -> None:
    """Read the status files in the job's folder as this attempt's."""
    writer = Writer(
        ledger=job.ledger, run_uid=job.run_uid, attempt=attempt, actor=ACTOR, origin=origin(attempt)
    )
    reader = Ingest(
        writer,
        status=job.root / "status.jsonl",
        events=job.root / "events.jsonl",
        on_checkpoint=lambda _: True,
    )
    reader.poll(final=True)


@pytest.mark.requirement("R071", "R077")
def test_each_worker_is_compared_with_itself(job: Job) -> None:
    """Worker 1 of the second attempt with worker 1 of the first, and the loaded libraries with those loaded then."""
    first, second = {"node": "a", "memory_bytes": 1}, {"node": "b", "memory_bytes": 1}
    status(job.root / "status.jsonl", ("start", first), ("end", first | {"libraries": {"libnccl": "2.20.5"}}))
    status(job.root / "status-1.jsonl", ("start", second))
    read(job, 1)
    status(job.root / "status.jsonl", ("start", first), ("end", first | {"libraries": {"libnccl": "2.21.5"}}))
    status(job.root / "status-1.jsonl", ("resume", second | {"memory_bytes": 2}))
    read(job, 2)

    observed = [(r.attempt, o) for r, o in job.view().all(kinds.EnvironmentObserved)]
    found = {
        (attempt, o.worker, o.moment): None
        if o.since_previous is None
        else [d["field"] for d in o.since_previous]
        for attempt, o in observed
    }
    assert {
        (1, 0, "start"): None, (1, 0, "end"): [], (1, 1, "start"): None,
        (2, 0, "start"): [], (2, 0, "end"): ["libraries.libnccl"], (2, 1, "resume"): ["memory_bytes"],
    } == found  # fmt: skip
