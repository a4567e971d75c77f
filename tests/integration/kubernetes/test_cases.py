"""How members end and why they wait, over HTTP: the same pods as a cluster shows them, played by the test."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.kubernetes.grounds import VARIABLE, Playground, open_ground, until
from tests.integration.kubernetes.playground import IMAGE, Run

from pretrain_archive.compute.kubernetes.launch import KubernetesLaunch
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.kinds import JobRemoved, MemberObserved, WaitObserved

DISRUPTED = ("DisruptionTarget", "True", "PreemptionByScheduler", "preempted for a higher priority")
SCHEDULED = ("PodScheduled", "True", "", "")


@pytest.fixture(params=["fake", "control plane"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Playground]:
    """The fake cluster, also played over HTTP alone; or, once, the real one that the environment names."""
    if VARIABLE in os.environ and request.param != "control plane":
        pytest.skip("the real cluster is asked once")
    with open_ground(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def run(ground: Playground, tmp_path: Path, ledger: Any) -> Run:
    """A run on the ground's cluster."""
    return Run(ledger=ledger, root=tmp_path, api=ground.api, namespace=ground.namespace)


def begin(run: Run, ground: Playground, **options: Any) -> tuple[KubernetesLaunch, list[str]]:
    """Create the job and wait for its pods."""
    launch = run.launch(**options)
    name = str(launch.create().payload["name"])
    wanted = launch.spec.budget.nodes
    pods = until(lambda: len(found := ground.pods(name)) == wanted and found)
    return launch, [str(pod["metadata"]["name"]) for pod in pods]


def report(launch: KubernetesLaunch, *, steps: int = 7, code: int | None = None, **facts: Any) -> None:
    """What wrapper and program write into the attempt's folder; with ``code`` also their end."""
    folder = launch.spec.work_folder
    lines: list[dict[str, Any]] = [
        {"status": "environment", "moment": "start", "environment": {}},
        {"status": "program_started", "pid": 1},
    ]
    if code is not None:
        how = {"exit_code": code, "signal": None} if code >= 0 else {"exit_code": None, "signal": -code}
        lines.append(
            {"status": "ended", "reason": "exited", "seconds": 2.0, "hidden_failures": [], **how, **facts}
        )
    (folder / "status.jsonl").write_text(
        "".join(json.dumps(line | {"at": utc_now()}) + "\n" for line in lines)
    )
    events: list[dict[str, Any]] = [
        {"event": "metric", "name": "train_loss", "step": step, "value": 1.0} for step in range(1, steps + 1)
    ]
    if code == 0:
        events.append({"event": "note", "text": "training complete", "complete": True, "step": steps})
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def gone(run: Run, ground: Playground, launch: KubernetesLaunch) -> bool:
    """Neither job nor pod is there, and the ledger says that it was looked."""
    job = launch.job
    assert job is not None
    [removed] = run.facts("job.removed", JobRemoved)
    there = ground.api.read("Job", ground.namespace, job.name)
    return bool(removed.verified_absent) and there is None and not ground.pods(job.name)


OOM = {"phase": "Failed", "exit_code": 137, "reason": "OOMKilled"}
KILLED = {"phase": "Failed", "exit_code": 137, "reason": "Error"}


@pytest.mark.case("L03")
@pytest.mark.requirement("R189", "R084")
@pytest.mark.parametrize(
    ("state", "expected", "counted", "attempt"),
    [
        pytest.param(OOM, "oom", True, "failed", id="out of memory"),
        pytest.param(KILLED | {"conditions": [DISRUPTED]}, "preempted", False, "interrupted", id="preempted"),
        pytest.param(KILLED, "killed", True, "interrupted", id="killed by hand"),
        pytest.param(
            KILLED | {"pod_reason": "Evicted", "message": "The node was low on resource: memory."},
            "evicted", True, "interrupted", id="evicted",
        ),
        pytest.param({"phase": "Failed", "exit_code": 1}, "user_error", True, "failed", id="exit code 1"),
    ],
)  # fmt: skip
def test_137_has_several_meanings(
    run: Run, ground: Playground, state: dict[str, Any], expected: str, counted: bool, attempt: str
) -> None:
    """Class, code, reason, condition and restarts are on record; a preemption uses up no attempt."""
    launch, [pod] = begin(run, ground)
    ground.play(pod, node="node-0", phase="Running", conditions=[SCHEDULED])
    report(launch)
    assert "running" == launch.visit().state
    ground.play(pod, **state)
    until(lambda: launch.visit().state == "ended")
    ended = launch.end()

    assert (attempt, expected, counted) == (ended.state, ended.exit_class, ended.counted), ended
    assert 7 == ended.last_step
    member = next(m for m in run.facts("member.observed", MemberObserved) if m.exit_class == expected)
    assert (state["exit_code"], 0) == (member.exit_code, member.restarts)
    assert member.reason in (state.get("reason"), state.get("pod_reason"), "Error")
    assert ("DisruptionTarget" in member.condition) == ("conditions" in state)
    assert gone(run, ground, launch)


@pytest.mark.case("L03")
def test_a_child_signal_of_torchrun_is_shown(run: Run, ground: Playground) -> None:
    """Torchrun ends with 1 after a child got SIGKILL: the wrapper saw it, and the record says so."""
    launch, [pod] = begin(run, ground)
    ground.play(pod, node="node-0", phase="Running", conditions=[SCHEDULED])
    report(launch, code=1, hidden_failures=[{"pid": 7, "name": "python", "exit_code": None, "signal": 9}])
    launch.visit()
    ground.play(pod, phase="Failed", exit_code=1)
    until(lambda: launch.visit().state == "ended")
    ended = launch.end()

    assert ("interrupted", "killed") == (ended.state, ended.exit_class), ended
    assert "signal 9" in ended.reason


def test_a_completion_needs_the_job_and_the_evidence(run: Run, ground: Playground) -> None:
    """Exit code 0, the end marker and the job's condition Complete: completed."""
    launch, [pod] = begin(run, ground)
    ground.play(pod, node="node-0", phase="Running", conditions=[SCHEDULED])
    launch.visit()
    report(launch, code=0)
    assert "running" == launch.visit().state  # the wrapper has ended, the job does not say so yet
    ground.play(pod, phase="Succeeded", exit_code=0)
    until(lambda: launch.visit().state == "ended")
    ended = launch.end()

    assert ("completed", "completed", 7) == (ended.state, ended.exit_class, ended.last_step), ended
    assert gone(run, ground, launch)


@pytest.mark.case("L05")
@pytest.mark.requirement("R192")
@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param(("InvalidImageName", "could not parse reference"), id="no image name"),
        pytest.param(("ErrImagePull", "manifest unknown: not found"), id="no such image"),
    ],
)
def test_an_image_that_cannot_be_pulled_ends_at_once(
    run: Run, ground: Playground, waiting: tuple[str, str]
) -> None:
    """A name that no waiting mends: failed within one visit, with image and message, and nothing starts later."""
    launch, [pod] = begin(run, ground)
    ground.play(pod, node="node-0", waiting=waiting, conditions=[SCHEDULED])
    standing = launch.visit()
    assert "ended" == standing.state
    ended = launch.end()

    assert ("failed", "image") == (ended.state, ended.exit_class), ended
    assert waiting[1] in ended.reason
    assert IMAGE.partition("@")[0] in ended.reason
    assert gone(run, ground, launch)


@pytest.mark.case("L05")
def test_a_passing_image_error_is_waited_for(run: Run, ground: Playground) -> None:
    """A rate limit, a back-off, then running: the wait is told once and its end too."""
    launch, [pod] = begin(run, ground)
    for waiting in (("ErrImagePull", "pull QPS exceeded"), ("ImagePullBackOff", "Back-off pulling image")):
        ground.play(pod, node="node-0", waiting=waiting, conditions=[SCHEDULED])
        assert "waiting" == launch.visit().state
    ground.play(pod, phase="Running")
    report(launch)
    assert "running" == launch.visit().state

    waits = [(w.reason, w.ended) for w in run.facts("wait.observed", WaitObserved)]
    assert [("image", False), ("image", True)] == waits[-2:]
    assert any("QPS" in line for line in run.lines)


@pytest.mark.case("L05")
@pytest.mark.requirement("R190")
def test_a_pod_that_stays_pending_is_taken_away(run: Run, ground: Playground) -> None:
    """Unschedulable for longer than the start limit: the scheduler's words, and no pod that starts hours later."""
    launch, [pod] = begin(run, ground)
    message = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    ground.play(pod, conditions=[("PodScheduled", "False", "Unschedulable", message)])
    assert "waiting" == launch.visit().state
    launch.clock = lambda: datetime.now(UTC) + timedelta(minutes=11)
    assert "ended" == launch.visit().state
    ended = launch.end()

    assert ("failed", "unschedulable") == (ended.state, ended.exit_class)
    assert "Insufficient nvidia.com/gpu" in ended.reason
    assert "limit" in ended.reason
    assert gone(run, ground, launch)
    assert 0.0 == ended.accelerator_seconds


@pytest.mark.requirement("R188")
def test_every_member_is_on_record(run: Run, ground: Playground) -> None:
    """Two members with their nodes, image digest and index; once for each change, however often it is looked."""
    spec = run.spec(budget={"nodes": 2, "accelerators": 2, "accelerator": "nvidia.com/gpu"})
    launch, pods = begin(run, ground, spec=spec)
    for _ in range(3):
        launch.visit()
    for pod in pods:
        ground.play(pod, node="node-0", phase="Running", conditions=[SCHEDULED])
    for _ in range(3):
        launch.visit()
    again = run.launch(spec)  # another process looks too
    again.visit()
    members = run.facts("member.observed", MemberObserved)

    running = [member for member in members if member.phase == "Running"]
    assert {0, 1} == {member.worker for member in running}
    assert 2 == len(running)
    assert len(members) == len({(m.worker, m.phase, m.node, m.started_at) for m in members})
    launch.kill()
    assert ("interrupted", "interrupted") == ((ended := launch.end()).state, ended.exit_class)
    assert gone(run, ground, launch)
