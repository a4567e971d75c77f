"""Whole attempts over HTTP: the real wrapper and a small program, started by the fake's kubelet."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster
from tests.fakes.cluster_processes import marked
from tests.integration.kubernetes.playground import ASSETS, IMAGE, NAMESPACE, Run

from pretrain_archive.compute.kubernetes.launch import KubernetesLaunch
from pretrain_archive.domain.kinds import (
    AttemptEnded,
    AttemptStarted,
    EnvironmentObserved,
    JobRemoved,
    MemberObserved,
    StopFired,
)

LONG = {"steps": 100_000, "step_seconds": 0.01}


def in_background(launch: KubernetesLaunch) -> Callable[[], AttemptEnded]:
    """Run a launch in a thread; what is returned waits for its end."""
    found: list[AttemptEnded] = []
    thread = threading.Thread(target=lambda: found.append(launch.run()))
    thread.start()

    def wait() -> AttemptEnded:
        thread.join(60)
        assert found, "the launch has not ended"
        return found[0]

    return wait


def some_steps(run: Run, cluster: FakeCluster) -> None:
    """Wait until the program wrote some steps."""
    events = run.spec().work_folder / "events.jsonl"
    cluster.wait(lambda: events.exists() and events.read_bytes().count(b'"train_loss"') > 12, 60)


def nothing_left(run: Run, cluster: FakeCluster) -> None:
    """Neither job nor pod nor process, and the ledger says so."""
    [removed] = run.facts("job.removed", JobRemoved)
    assert (True, []) == (removed.verified_absent, removed.pods_left)
    assert ([], []) == (list(cluster.list("jobs")), list(cluster.list("pods")))
    assert {} == marked(f"{cluster.kubelet.cluster_id}/")


@pytest.mark.requirement("R188")
def test_a_program_runs_to_its_end_and_leaves_nothing(run: Run, cluster: FakeCluster) -> None:
    """The job completes, its evidence is in the ledger, job and pods are gone and that is proved."""
    ended = run.launch().run()

    assert ("completed", "completed", True) == (ended.state, ended.exit_class, ended.counted), ended
    assert (20, 20, 0) == (ended.last_step, ended.last_checkpoint_step, ended.exit_code)
    nothing_left(run, cluster)
    assert 1 == len(cluster.started)
    [started] = run.facts("attempt.started", AttemptStarted)
    assert (IMAGE, NAMESPACE, 1) == tuple(started.requested[name] for name in ("image", "namespace", "nodes"))
    assert (["node-0"], [IMAGE.partition("@")[2]]) == (
        started.allocated["nodes"],
        started.allocated["image_digests"],
    )
    members = run.facts("member.observed", MemberObserved)
    assert ("node-0", "Succeeded", "completed", 0) == (
        members[-1].node, members[-1].phase, members[-1].exit_class, members[-1].exit_code,
    )  # fmt: skip
    assert members[-1].allocated_at is not None


def test_two_nodes_train_together(run: Run, cluster: FakeCluster) -> None:
    """An Indexed Job with its service: real torchrun on two nodes over gloo; both workers tell their environment."""
    command = (sys.executable, "-m", "torch.distributed.run", str(ASSETS / "group.py"))
    spec = run.spec(
        command=command, config={"steps": 10, "step_seconds": 0.01}, stop={"wall_minutes": 3},
        budget={"nodes": 2, "accelerators": 2, "accelerator": "nvidia.com/gpu"},
        variables={"OMP_NUM_THREADS": "1"}, allowed_variables=("OMP_NUM_THREADS",),
    )  # fmt: skip
    ended = run.launch(spec).run()

    assert ("completed", 10) == (ended.state, ended.last_step), (ended, run.lines)
    nothing_left(run, cluster)
    assert [] == list(cluster.list("services"))
    assert 2 == len(cluster.started)
    [started] = run.facts("attempt.started", AttemptStarted)
    assert [0, 1] == [member["worker"] for member in started.allocated["members"]]
    told = {(e.worker, e.moment) for e in run.facts("environment.observed", EnvironmentObserved)}
    assert {(0, "start"), (1, "start"), (0, "end"), (1, "end")} == told
    held = ended.accelerator_seconds
    assert held is not None
    assert ended.seconds is not None
    assert abs(held - 2 * ended.seconds) < 8  # the API's times have whole seconds


@pytest.mark.case("L01")
@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"exit_at": 12, "exit_code": 0}, id="in the middle"),
        pytest.param({"no_marker": True, "steps": 12}, id="without the end marker"),
    ],
)
def test_exit_code_0_alone_is_no_completion(
    run: Run, cluster: FakeCluster, config: dict[str, object]
) -> None:
    """The Job is Complete, the program never said that it was: interrupted, with the last step seen."""
    ended = run.launch(run.spec(config=config)).run()

    assert ("interrupted", 12, 0) == (ended.state, ended.last_step, ended.exit_code)
    assert "although the job's condition Complete" in ended.reason
    nothing_left(run, cluster)


@pytest.mark.case("L01")
@pytest.mark.parametrize("trap", [pytest.param("exit 0", id="traps SIGTERM"), pytest.param("", id="plain")])
def test_a_job_that_is_deleted_is_never_a_success(run: Run, cluster: FakeCluster, trap: str) -> None:
    """Somebody deletes the job half-way: 404 is a lost attempt, whatever the program's exit code was."""
    wait = in_background(run.launch(run.spec(config=LONG | {"sigterm": trap})))
    some_steps(run, cluster)
    [job] = cluster.list("jobs")
    cluster.delete("jobs", job["metadata"]["name"], NAMESPACE, policy="Background")
    ended = wait()

    assert "lost" == ended.state, ended
    assert (ended.last_step or 0) > 10
    assert "no longer in the cluster" in ended.reason
    nothing_left(run, cluster)


@pytest.mark.case("L01")
@pytest.mark.requirement("R091")
@pytest.mark.parametrize("trap", [pytest.param("exit 0", id="traps SIGTERM"), pytest.param("", id="plain")])
def test_a_killed_launch_is_interrupted(run: Run, cluster: FakeCluster, trap: str) -> None:
    """Asked to end: the job is deleted, the program ended, the attempt interrupted and never completed."""
    launch = run.launch(run.spec(config=LONG | {"sigterm": trap}))
    wait = in_background(launch)
    some_steps(run, cluster)
    launch.kill("somebody marked the task as failed")
    ended = wait()

    assert ("interrupted", "interrupted") == (ended.state, ended.exit_class)
    assert "marked the task" in ended.reason
    assert (ended.last_step or 0) > 10
    nothing_left(run, cluster)


def test_an_end_that_is_asked_for_from_outside(run: Run, cluster: FakeCluster) -> None:
    """What the caller's question answers is the reason on record."""
    answers = iter([""] * 3)
    ended = run.launch(run.spec(config=LONG), should_stop=lambda: next(answers, "the run was closed")).run()

    assert ("interrupted", "the run was closed") == (ended.state, ended.reason)
    nothing_left(run, cluster)


def test_an_end_that_is_asked_for_while_the_job_is_made(run: Run, by_hand: FakeCluster) -> None:
    """A signal between creation and release: nothing is released, the attempt ends as interrupted."""
    launch = run.launch()
    release = run.api.create

    def create_and_kill(*args: Any) -> Any:
        made = release(*args)
        launch.kill("SIGTERM")
        return made

    run.api.create = create_and_kill  # type: ignore[method-assign]
    ended = launch.run()

    assert ("interrupted", "SIGTERM") == (ended.state, ended.reason)
    assert [] == by_hand.ever("pods")
    assert [] == list(by_hand.list("jobs"))


def test_an_orphaned_pod_is_found_and_ended(run: Run, cluster: FakeCluster) -> None:
    """Somebody deletes the job and leaves its pods: they are found by their labels and ended."""
    wait = in_background(run.launch(run.spec(config=LONG)))
    some_steps(run, cluster)
    [job] = cluster.list("jobs")
    cluster.delete("jobs", job["metadata"]["name"], NAMESPACE, policy="Orphan")
    ended = wait()

    assert "lost" == ended.state
    nothing_left(run, cluster)


@pytest.mark.requirement("R096")
def test_a_stop_rule_ends_the_job(run: Run, cluster: FakeCluster) -> None:
    """A loss that is no number stops the job inside its pod; one record says so, the last checkpoint is kept."""
    ended = run.launch(run.spec(config=LONG | {"nan_at": 25})).run()

    assert ("stopped", "stopped") == (ended.state, ended.exit_class), ended
    [fired] = run.facts("stop.fired", StopFired)
    assert "nan_loss" == fired.rule
    assert (fired.last_checkpoint_step or 0) >= 20
    nothing_left(run, cluster)


def test_a_failed_program_fails_the_attempt(run: Run, cluster: FakeCluster) -> None:
    """Exit code 3 is the user's error; nothing of the infrastructure is to blame."""
    ended = run.launch(run.spec(config={"exit_at": 5, "exit_code": 3})).run()

    assert ("failed", "user_error", 3, True) == (
        ended.state,
        ended.exit_class,
        ended.exit_code,
        ended.counted,
    )
    nothing_left(run, cluster)


def test_a_queue_lets_it_wait_takes_it_back_and_admits_it_again(run: Run, cluster: FakeCluster) -> None:
    """Held by quota, admitted, evicted, admitted again: one job, waits in words, no attempt used up, completed."""
    cluster.kueue.mode = "hold"
    policy = run.policy(queue="gpus")
    wait = in_background(run.launch(run.spec(config={"steps": 300, "step_seconds": 0.02}), cluster=policy))
    cluster.wait(lambda: run.records("wait.observed"))
    assert [] == cluster.ever("pods")
    cluster.kueue.mode = "admit"
    some_steps(run, cluster)
    [job] = cluster.list("jobs")
    cluster.kueue.evict(job, "Preempted", "Preempted to accommodate a workload of higher priority")
    cluster.wait(
        lambda: [m for m in run.facts("member.observed", MemberObserved) if m.exit_class == "requeued"]
    )
    cluster.kueue.mode = "admit"
    ended = wait()

    assert ("completed", 300) == (ended.state, ended.last_step), ended
    assert 1 == len(cluster.ever("jobs"))
    assert 2 == len(cluster.started)
    waits = [(r.payload["reason"], r.payload["ended"]) for r in run.records("wait.observed")]
    assert {("quota", False), ("quota", True)} <= set(waits)
    nothing_left(run, cluster)


@pytest.mark.parametrize("field", ["podTemplateOverrides", "runtimePatches"])
def test_a_train_job_runs_to_its_end(run: Run, cluster: FakeCluster, field: str) -> None:
    """The same launch as a Kubeflow TrainJob: suspended, released, completed, gone with its pods."""
    policy = run.policy(object_kind="TrainJob", runtime="torch", train_job_patches=field)
    ended = run.launch(cluster=policy).run()

    assert ("completed", "completed", 20) == (ended.state, ended.exit_class, ended.last_step), ended
    assert 1 == len(cluster.ever("trainjobs"))
    assert 1 == len(cluster.started)
    assert [] == list(cluster.list("trainjobs"))
    nothing_left(run, cluster)
