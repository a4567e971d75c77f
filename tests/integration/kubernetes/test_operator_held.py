"""The launch task that holds its worker: Airflow's mixin keeps the job's name, and the ledger decides."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.cluster_line import (
    NAMESPACE,
    Task,
    cluster_policy,
    connect,
    settle_in,
)

from pretrain_archive.domain import kinds


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A cluster whose pods are real processes."""
    with FakeCluster() as made:
        yield made


@pytest.fixture
def task(cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """The launch task, not signed yet; visits come quickly."""
    connect(monkeypatch, cluster, tmp_path)
    monkeypatch.setattr("pretrain_archive.compute.kubernetes.launch.VISIT_SECONDS", 0.2)
    line = settle_in(monkeypatch, tmp_path, cluster_policy(tmp_path))
    return Task(line, options={"deferrable": False})


def sign(task: Task, **configuration: Any) -> None:
    """Everything up to the approved gate."""
    task.line.to_signed_launch(configuration={"steps": 40, **configuration})


def test_held_to_completion_and_cleared(cluster: FakeCluster, task: Task) -> None:
    """It completes; cleared and run again it finds the completed attempt and starts nothing."""
    sign(task, seconds=0.02)
    result = task.start()
    assert (1, "completed") == (result["attempt"], result["state"])
    [job] = task.jobs()
    assert {"namespace": NAMESPACE, "name": job, "attempt": 1} == task.stored["pretrain_archive_job"]
    assert result == task.start()
    assert [job] == cluster.ever("jobs")


def test_next_try_reconnects(cluster: FakeCluster, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is killed while it holds the job: the next try follows the same one."""
    sign(task, steps=80, seconds=0.05)

    class Killed(BaseException):
        """The worker is gone."""

    def die(*_words: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("pretrain_archive.compute.kubernetes.launch.KubernetesLaunch.run", die)
        with pytest.raises(Killed):
            task.start()
    assert task.start()["state"] == "completed"
    assert len(cluster.started) == 1
    assert [(1, "completed")] == task.ends()


def test_failed_job_leads_on_through_permission_only(cluster: FakeCluster, task: Task) -> None:
    """Airflow's mixin would submit again; here the next attempt is derived afresh, or refused by name."""
    sign(task, steps=60, seconds=0.01, die_at=25)
    with pytest.raises(AirflowException, match="attempt 1 failed at step 25"):
        task.start()
    line = task.line
    (line.program / "train.py").write_text("print('something else')\n")
    with pytest.raises(AirflowException, match="the training code changed after it was signed"):
        task.start()
    assert 1 == line.view().attempts
    assert len(cluster.ever("jobs")) == 1


def test_asked_to_end(cluster: FakeCluster, task: Task) -> None:
    """SIGTERM: the job is deleted, no pod is left, the attempt is interrupted, and the try fails."""
    sign(task, steps=4000, seconds=0.02)
    operator = task.operator()
    task.tries += 1
    raised: list[BaseException] = []

    def execute() -> None:
        try:
            operator.execute(task.context())
        except BaseException as error:  # noqa: BLE001 (told to the test)
            raised.append(error)

    worker = threading.Thread(target=execute)
    worker.start()
    cluster.wait(lambda: cluster.started and task.line.view().latest(kinds.MemberObserved), 60)
    operator.on_kill()
    worker.join(30)
    assert not worker.is_alive()
    assert "interrupted" in str(raised[0])
    assert [(1, "interrupted")] == task.ends()
    assert not cluster.list("pods", NAMESPACE)


def test_asked_to_end_before_anything_started(cluster: FakeCluster, task: Task) -> None:
    """SIGTERM while the data is still proved: no token is used and no job is created."""
    sign(task)
    operator = task.operator()
    operator.on_kill()
    task.tries += 1
    with pytest.raises(AirflowException, match="asked to end before anything was started"):
        operator.execute(task.context())
    assert 0 == task.line.view().attempts
    assert [] == cluster.ever("jobs")
