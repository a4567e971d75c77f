"""The launch on a cluster in a real Airflow: deferred, ended by a person, and whatever process is killed."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

import psutil
import pytest
from tests.e2e.conftest import DAG, House

from pretrain_archive.domain import kinds

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1500)]

TASK = "gpu_launch"
NAMESPACE = "training"
KILLED = "killed"
KILLS = 6
"""Kills of the last test: two of each kind of process, at moments and in an order that the seed says."""


def trigger(house: House, *, steps: int, seconds: float) -> str:
    """Alice triggers a run on the cluster and bob signs it; the program takes ``seconds`` a step."""
    program = house.volume / "program"
    return house.trigger(
        project="cloud", include=["json/*.py", "email/*.py"], checkpoint_every=10,
        configuration={"steps": steps, "seconds": seconds},
        train_command=["{python}", str(program / "train.py")],
        evaluate_command=["{python}", str(program / "evaluate.py")],
    )  # fmt: skip


def wait_for(what: str, check: Any, seconds: float = 240) -> Any:
    """Wait for a condition; the tooling's own function says what did not come."""
    from waiting import wait_for as wait

    return wait(what, check, timeout=seconds, every=0.3)


def state(house: House, dag_run_id: str) -> str:
    """The launch task's state."""
    return house.air.task_states(DAG, dag_run_id).get(TASK, "none")


def pods(house: House, dag_run_id: str) -> list[dict[str, Any]]:
    """The pods of a run that are there now."""
    label = f"pretrain-archive/run={house.view(dag_run_id).run_uid}"
    return list(house.cluster.list("pods", NAMESPACE, labels=label))


def one_job_per_token(house: House, dag_run_id: str) -> None:
    """Every job that ever existed belongs to its own token, at most one pod of each ran, and none is left."""
    view = house.view(dag_run_id)
    tail = view.run_uid[-12:]
    made = [name for name in house.cluster.ever("jobs") if f"-{tail}-" in name]
    started = [name for name in house.cluster.started if f"-{tail}-" in name]
    tokens = house.all(dag_run_id, kinds.LaunchIntended)
    recorded = [job.name for job in house.all(dag_run_id, kinds.JobCreated)]
    assert len(made) == len(set(made)) <= len(tokens)
    assert set(recorded) <= set(made)
    assert len({name.rpartition("-")[0] for name in started}) == len(started)
    assert {name.rpartition("-")[0] for name in started} <= set(recorded)
    assert not house.cluster.list("jobs", NAMESPACE, labels=f"pretrain-archive/run={view.run_uid}")
    assert not pods(house, dag_run_id)
    assert {t.token["attempt"] for t in tokens} == {
        e.attempt for e in house.all(dag_run_id, kinds.AttemptEnded)
    }


def victims(house: House, kind: str, runs: list[str]) -> list[psutil.Process]:
    """Processes of a kind that can be killed now: task processes of a launch, triggerers or schedulers."""
    if kind == "worker":
        ids = {
            t["id"]
            for r in runs
            for t in house.air.task_instances(DAG, r)
            if t["task_id"] == TASK and t["id"]
        }
        wanted = {f"airflow worker -- {one}" for one in ids}
    found = []
    for pid in house.air.family():
        try:
            words = " ".join(psutil.Process(pid).cmdline()).strip()
        except psutil.Error:
            continue
        if (kind == "worker" and words in wanted) or (
            kind != "worker" and (words.endswith(f"airflow {kind}") or words == f"airflow {kind}")
        ):
            found.append(psutil.Process(pid))
    return found


def kill(house: House, kind: str, runs: list[str]) -> str:
    """SIGKILL processes of a kind and start what does not come back by itself; empty if there was none."""
    found = victims(house, kind, runs)
    for process in found[:1] if kind == "worker" else found:
        os.kill(process.pid, signal.SIGKILL)
    if found and kind != "worker":
        house.air.restart(kind)
    return KILLED if found else ""


def all_over(house: House, runs: list[str]) -> bool:
    """Whether no launch goes on any more."""
    return all(state(house, run) in {"success", "failed", "upstream_failed"} for run in runs)


@pytest.fixture(scope="module")
def signed(house: House) -> list[str]:
    """Four signed runs, made ready side by side: one that is short, one that would not end, two for the kills."""
    runs = [trigger(house, steps=steps, seconds=0.1) for steps in (120, 20_000, 400, 400)]
    for dag_run_id in runs:
        house.pass_gate(dag_run_id, "prepare")
    return runs


@pytest.mark.requirement("R024", "R094")
def test_whatever_is_killed_there_is_one_job_per_token(house: House, signed: list[str]) -> None:
    """Workers that create or visit, triggerers and the scheduler are killed: every run ends right, on one job."""
    chance = random.Random(20)
    runs = signed[2:]
    plan = ["worker", "triggerer", "scheduler"] * (KILLS // 3)
    chance.shuffle(plan)
    killed: list[str] = []
    for kind in plan:
        time.sleep(chance.uniform(0, 3))
        found = wait_for(
            f"a {kind} to kill", lambda k=kind: kill(house, k, runs) or all_over(house, runs), 120
        )
        killed += [kind] if found == KILLED else []
    assert set(killed) == {"worker", "triggerer", "scheduler"}
    for dag_run_id in runs:
        assert house.air.wait_task(DAG, dag_run_id, TASK, timeout=400) == "success"
        assert "completed" == house.all(dag_run_id, kinds.AttemptEnded)[-1].state
        one_job_per_token(house, dag_run_id)


@pytest.mark.requirement("R024")
def test_deferred_to_completion(house: House, signed: list[str]) -> None:
    """The run completes while its task was deferred."""
    complete = signed[0]
    assert house.air.wait_task(DAG, complete, TASK, timeout=240) == "success"
    assert [(1, "completed")] == [(e.attempt, e.state) for e in house.all(complete, kinds.AttemptEnded)]
    one_job_per_token(house, complete)


@pytest.mark.requirement("R024")
def test_ended_by_a_person_while_deferred(house: House, signed: list[str]) -> None:
    """Marked failed while it is deferred: job and pod are gone, and the attempt has its end."""
    ended = signed[1]
    wait_for("the pod of the job", lambda: len(pods(house, ended)) == 1)
    wait_for("a checkpoint", lambda: house.all(ended, kinds.CheckpointRegistered))
    wait_for("a deferred launch", lambda: state(house, ended) == "deferred")
    house.air.api("alice", "PATCH", house.air.task_path(DAG, ended, TASK), {"new_state": "failed"})
    wait_for("the end of the attempt", lambda: house.all(ended, kinds.AttemptEnded), 90)
    one_job_per_token(house, ended)
    [end] = house.all(ended, kinds.AttemptEnded)
    assert "interrupted" == end.state
    assert [True] == [gone.verified_absent for gone in house.all(ended, kinds.JobRemoved)]
