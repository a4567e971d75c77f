"""The launch task on a cluster: deferred, visited, ended, adopted, and never two jobs for one token."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.cluster_line import (
    NAMESPACE,
    Task,
    cluster_policy,
    connect,
    settle_in,
)
from tests.support.main_line import Line

from pretrain_archive.domain import kinds
from pretrain_archive_operators import TemporaryCleanOperator
from pretrain_archive_operators.launch_trigger import LaunchTrigger


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A cluster whose pods are real processes of this machine."""
    with FakeCluster(bookmark_seconds=0.5) as made:
        yield made


@pytest.fixture
def line(cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    """A line whose policy launches on the cluster."""
    connect(monkeypatch, cluster, tmp_path)
    return settle_in(monkeypatch, tmp_path, cluster_policy(tmp_path))


def ready(line: Line, **configuration: Any) -> Task:
    """The launch task of a run that was signed."""
    line.to_signed_launch(configuration={"steps": 40, **configuration})
    return Task(line)


@pytest.mark.requirement("R024", "R094")
def test_deferred_to_completion(cluster: FakeCluster, line: Line) -> None:
    """The task defers while the job runs; one job, one pod, its end by the job's own condition, nothing left."""
    task = ready(line, seconds=0.05)
    found = task.start()
    assert isinstance(found, LaunchTrigger)
    result = task.follow(found)
    assert {"attempt": 1, "state": "completed", "last_step": 40, "last_checkpoint_step": 40} == {
        name: result[name] for name in ("attempt", "state", "last_step", "last_checkpoint_step")
    }
    assert task.news[-1] in {"ended", "members"}  # the pod's end is seen before the job's, or with it
    assert [(1, "completed")] == task.ends()
    assert task.jobs() == cluster.ever("jobs")
    assert len(cluster.started) == 1
    assert [True] == [gone.verified_absent for gone in task.removed()]
    assert not cluster.list("pods", NAMESPACE)


def running(task: Task, cluster: FakeCluster) -> LaunchTrigger:
    """Follow a deferred task until its program wrote its first checkpoint; the trigger that waits then."""
    found = task.start()
    cluster.wait(lambda: task.line.view().latest(kinds.JobCreated) and cluster.started)
    folder = task.line.runs_folder / task.line.run_uid / "checkpoints"
    cluster.wait(lambda: list(folder.glob("step_*")))
    assert isinstance(found, LaunchTrigger)
    return found


def one_job_ended(task: Task, cluster: FakeCluster) -> None:
    """One job was ever made, its pod is gone, and that is on record once."""
    assert task.jobs() == cluster.ever("jobs")
    assert len(cluster.started) == 1
    assert not cluster.list("jobs", NAMESPACE)
    assert not cluster.list("pods", NAMESPACE)
    assert [True] == [gone.verified_absent for gone in task.removed()]


@pytest.mark.requirement("R024")
def test_ended_by_a_person_while_deferred(cluster: FakeCluster, line: Line) -> None:
    """Mark failed, clear or mark success: the trigger deletes the job, and the attempt has its end and its steps."""
    task = ready(line, steps=4000, seconds=0.02)
    trigger = running(task, cluster)
    asyncio.run(trigger.on_kill())
    assert [(1, "interrupted")] == task.ends()
    one_job_ended(task, cluster)
    [end] = [end for _, end in line.view().all(kinds.AttemptEnded)]
    assert "a person ended the task" in end.reason
    assert (end.last_checkpoint_step or 0) >= 10
    again = task.start()  # cleared: a new attempt, from the checkpoint, by permission
    assert isinstance(again, LaunchTrigger)
    asyncio.run(again.on_kill())
    assert [(1, "interrupted"), (2, "interrupted")] == task.ends()
    assert len(set(task.jobs())) == 2


def test_ended_by_a_person_while_the_ledger_is_away(
    cluster: FakeCluster, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trigger deletes the job all the same; the clean-up of the DAG run writes the end, and again nothing."""
    task = ready(line, steps=4000, seconds=0.02)
    trigger = running(task, cluster)
    with monkeypatch.context() as patch:
        patch.setenv(
            "AIRFLOW__PRETRAIN_ARCHIVE__DATABASE_URL", "postgresql+psycopg://nobody@127.0.0.1:1/none"
        )
        asyncio.run(trigger.on_kill())
    assert [] == task.ends()
    cluster.wait(lambda: not cluster.list("pods", NAMESPACE))
    clean = TemporaryCleanOperator(task_id="clean_up", run_uid=line.run_uid)
    clean.execute(task.context())
    assert [1] == [attempt for attempt, _ in task.ends()]
    one_job_ended(task, cluster)
    clean.execute(task.context())
    one_job_ended(task, cluster)


def test_clean_up_ends_what_nobody_follows(cluster: FakeCluster, line: Line) -> None:
    """A task that failed for the last time leaves a job: the teardown deletes it and writes its end."""
    task = ready(line, steps=4000, seconds=0.02)
    running(task, cluster)
    TemporaryCleanOperator(task_id="clean_up", run_uid=line.run_uid).execute(task.context())
    assert [(1, "interrupted")] == task.ends()
    one_job_ended(task, cluster)


def test_lost_worker_is_followed_by_the_next_try(cluster: FakeCluster, line: Line) -> None:
    """The worker dies while it visits: the next try follows the same job, also after the approval expired."""
    task = ready(line, steps=60, seconds=0.05)
    running(task, cluster)
    line.policy = type(line.policy)(policy=line.policy.policy, digest="sha256:" + "0" * 64, name="line.toml")
    result = task.follow(task.start())
    assert result["state"] == "completed"
    one_job_ended(task, cluster)


@pytest.mark.parametrize("cut", ["record_job", "release"])
def test_cut_off_while_launching(
    cluster: FakeCluster, line: Line, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """SIGKILL before the job is on record: a new token and a new job; after it: the same job. Never two that run."""
    task = ready(line, seconds=0.02)

    class Killed(BaseException):
        """The worker is gone at this line."""

    def die(*_words: Any, **_named: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(f"pretrain_archive.compute.kubernetes.launch.{cut}", die)
        with pytest.raises(Killed):
            task.start()
    assert [] == cluster.started
    result = task.follow(task.start())
    assert result["state"] == "completed"
    before = [(1, "lost")] if cut == "record_job" else []
    assert [*before, (len(before) + 1, "completed")] == task.ends()
    assert len(cluster.started) == 1
    assert len(cluster.ever("jobs")) == len(before) + 1
    assert not cluster.list("jobs", NAMESPACE)


@pytest.mark.requirement("R094", "R135")
def test_failed_attempt_leads_to_the_next_by_permission(cluster: FakeCluster, line: Line) -> None:
    """A program that dies fails the try; the next one asks again and resumes from the checkpoint that still holds."""
    task = ready(line, steps=60, seconds=0.02, die_at=25)
    with pytest.raises(AirflowException, match="attempt 1 failed at step 25"):
        task.follow(task.start())
    newest = max(
        (kept for _, kept in line.view().all(kinds.CheckpointRegistered)), key=lambda kept: kept.step
    )
    shutil.rmtree(Path(urlsplit(newest.location).path or newest.location))
    result = task.follow(task.start())
    assert (2, "completed") == (result["attempt"], result["state"])
    started = [(s.resume_step, len(s.resume_refused)) for _, s in line.view().all(kinds.AttemptStarted)]
    assert [(None, 0), (10, 1)] == started
    assert len(cluster.started) == 2


def test_cluster_and_ledger_away_during_visits(
    cluster: FakeCluster, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A visit that cannot reach one of them defers again; without evidence for too long the job is stopped."""
    task = ready(line, steps=4000, seconds=0.02)
    trigger = running(task, cluster)
    event = {"news": "visit", "trigger": trigger.serialize()[1]}
    monkeypatch.setattr("pretrain_archive.compute.kubernetes.api.pause_of", lambda *_: 60.0)
    fault = cluster.fail("get", "jobs", status=503, times=-1)
    again = task.resume(event)
    assert isinstance(again, LaunchTrigger)
    fault.times = 0
    with monkeypatch.context() as patch:
        patch.setenv(
            "AIRFLOW__PRETRAIN_ARCHIVE__DATABASE_URL", "postgresql+psycopg://nobody@127.0.0.1:1/none"
        )
        again = task.resume({"news": "visit", "trigger": again.serialize()[1]})
        assert again.failing_since
        assert cluster.list("pods", NAMESPACE)
        patch.setattr("pretrain_archive.services.launch_follow.EVIDENCE_SECONDS", 0.0)
        with pytest.raises(AirflowException, match="ledger"):
            task.resume({"news": "visit", "trigger": again.serialize()[1]})
    cluster.wait(lambda: not cluster.list("pods", NAMESPACE))
    with pytest.raises(AirflowFailException, match="stop rule evidence"):
        task.follow(task.start())
    assert [(1, "stopped")] == task.ends()


def test_closed_run_trains_no_further(cluster: FakeCluster, line: Line) -> None:
    """A run that was closed while its job ran, since its gate was asked again: the job goes at the next visit."""
    task = ready(line, steps=4000, seconds=0.02)
    trigger = running(task, cluster)
    line.answer("prepare", line.ask("prepare", try_number=2), option="Reject", reason="on second thoughts")
    assert "closed" == line.view().state
    with pytest.raises(AirflowFailException, match="is closed: its job is deleted"):
        task.resume({"news": "visit", "trigger": trigger.serialize()[1]})
    cluster.wait(lambda: not cluster.list("pods", NAMESPACE) and not cluster.list("jobs", NAMESPACE))
    clean = TemporaryCleanOperator(task_id="clean_up", run_uid=line.run_uid)
    with pytest.raises(
        AirflowFailException, match="no recorded end"
    ):  # a closed run takes none: the data stays
        clean.execute(task.context())


@pytest.mark.requirement("R086", "R188")
def test_waits_in_a_queue_without_a_worker(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kueue holds the job back: the reason is recorded in words, no pod starts, and the admission is noticed."""
    connect(monkeypatch, cluster, tmp_path)
    line = settle_in(monkeypatch, tmp_path, cluster_policy(tmp_path, queue="gpus"))
    cluster.kueue.mode, cluster.kueue.ahead = "hold", 3
    task = ready(line, seconds=0.02)
    found = task.start()
    assert isinstance(found, LaunchTrigger)
    while not (waits := [wait for _, wait in line.view().all(kinds.WaitObserved) if wait.reason == "quota"]):
        found = task.resume(task.fire(found))
    assert "queue gpus, 3 others before it: couldn't assign flavors" in waits[0].message
    assert "insufficient unused quota" in waits[0].message
    assert [] == cluster.started
    cluster.kueue.mode = "admit"
    cluster.patch("jobs", task.jobs()[0], {"metadata": {"annotations": {"touched": "1"}}}, NAMESPACE)
    assert "completed" == task.follow(found)["state"]
    assert len(cluster.started) == 1


def test_the_log_tells_how_it_went(line: Line) -> None:
    """A reader of the task's log finds the job, why it was looked at, in words, and how the attempt ended."""
    task = ready(line, seconds=0.05)
    told: list[str] = []
    operator = task.operator

    def telling() -> Any:
        made = operator()
        made.log.info = lambda text, *words, **_: told.append(text % words)
        return made

    task.operator = telling  # type: ignore[method-assign]
    assert "completed" == task.follow(task.start())["state"]
    assert any("is released in namespace training" in text for text in told)
    assert any(text.endswith((": it ended", ": its pods changed")) for text in told), told
    assert "attempt 1 completed at step 40 after " in told[-1]
