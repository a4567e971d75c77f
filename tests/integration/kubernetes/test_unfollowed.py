"""The daily pass over all runs: a job whose DAG run is over or gone is ended, one that is followed is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.cluster_line import NAMESPACE, Task, cluster_policy, connect, settle_in
from tests.support.main_line import Line

from pretrain_archive.domain import kinds
from pretrain_archive_operators import UnfollowedJobsOperator
from pretrain_archive_operators.launch_trigger import LaunchTrigger


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A cluster whose pods are real processes of this machine."""
    with FakeCluster(bookmark_seconds=0.5) as made:
        yield made


@pytest.fixture
def task(cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A deferred launch whose job runs and would not end by itself."""
    connect(monkeypatch, cluster, tmp_path)
    line: Line = settle_in(monkeypatch, tmp_path, cluster_policy(tmp_path))
    line.to_signed_launch(configuration={"steps": 4000, "seconds": 0.02})
    made = Task(line)
    assert isinstance(made.start(), LaunchTrigger)
    cluster.wait(lambda: cluster.started)
    return made


def clean_up(state: str | None) -> dict[str, Any]:
    """The daily task in an Airflow where every DAG run is in ``state``; None: it knows none."""

    def count(*, dag_id: str, run_ids: list[str], states: list[str] | None = None) -> int:
        assert (dag_id, len(run_ids)) == ("line", 1)
        return int(state is not None and (states is None or state in states))

    ti = SimpleNamespace(
        dag_id="retention_cleanup", run_id="r", task_id="unfollowed_jobs", map_index=None, try_number=1, max_tries=1,
        get_dr_count=count,
    )  # fmt: skip
    context: Any = {"ti": ti, "dag_run": SimpleNamespace(triggering_user_name=None)}
    return UnfollowedJobsOperator(task_id="unfollowed_jobs").execute(context)


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_job_that_is_followed_goes_on(cluster: FakeCluster, task: Task, state: str) -> None:
    """Its DAG run goes on: nothing is touched."""
    assert 0 == clean_up(state)["settled"]
    assert [] == task.ends()
    assert 1 == len(cluster.list("pods", NAMESPACE))


@pytest.mark.requirement("R024")
@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_job_whose_dag_run_is_over_is_ended(cluster: FakeCluster, task: Task, state: str) -> None:
    """Job and pod are gone, that is proved, the attempt has its end, and a second pass finds nothing."""
    assert [task.line.run_uid] == clean_up(state)["runs"]
    assert [(1, "interrupted")] == task.ends()
    assert [True] == [gone.verified_absent for gone in task.removed()]
    assert [] == [*cluster.list("jobs", NAMESPACE), *cluster.list("pods", NAMESPACE)]
    assert 0 == clean_up(state)["settled"]


def test_an_unknown_dag_run_may_be_another_airflows(
    cluster: FakeCluster, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left alone while its budget and a day last; afterwards it is ended."""
    assert 0 == clean_up(None)["settled"]
    [(_, declared)] = task.line.view().all(kinds.ConfigurationDeclared)
    long_ago = -timedelta(minutes=declared.budget.minutes)
    monkeypatch.setattr("pretrain_archive.services.launch_settle.GRACE", long_ago)
    assert 1 == clean_up(None)["settled"]
    assert [(1, "interrupted")] == task.ends()
    assert not cluster.list("pods", NAMESPACE)


def test_what_cannot_be_ended_is_named_and_tried_again(
    cluster: FakeCluster, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster does not answer: the task fails with the run's name, and its next try ends the job."""
    monkeypatch.setattr("pretrain_archive.compute.kubernetes.api.pause_of", lambda *_: 60.0)
    fault = cluster.fail("delete", "jobs", status=503, times=-1)
    with pytest.raises(AirflowException, match=f"1 jobs could not be ended: {task.line.run_uid}"):
        clean_up("failed")
    fault.times = 0
    assert 1 == clean_up("failed")["settled"]
    assert [(1, "interrupted")] == task.ends()
