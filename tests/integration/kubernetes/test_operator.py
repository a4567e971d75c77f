"""The launch task on a cluster: deferred, visited, ended, adopted, and never two jobs for one token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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
    assert task.news[-1] == "ended"
    assert [(1, "completed")] == task.ends()
    assert task.jobs() == cluster.ever("jobs")
    assert len(cluster.started) == 1
    assert [True] == [gone.verified_absent for gone in task.removed()]
    assert not cluster.list("pods", NAMESPACE)
    assert any("waiting" in line for line in line.said) or line.view().latest(kinds.AttemptStarted)
