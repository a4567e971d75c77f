"""What a policy or a cluster that is wrong leads to, from the task to the record: soon, in words, nothing is left."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.cluster_line import (
    IMAGE,
    NAMESPACE,
    Task,
    cluster_policy,
    connect,
    settle_in,
)

from pretrain_archive.domain import kinds


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A cluster whose pods would be real processes."""
    with FakeCluster(bookmark_seconds=0.5) as made:
        yield made


def nothing(_cluster: FakeCluster) -> None:
    """The policy alone is wrong."""


def zero(cluster: FakeCluster) -> None:
    """A quota of zero."""
    cluster.jobs.quota = (
        "exceeded quota: none, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=0, "
        "limited: requests.nvidia.com/gpu=0"
    )


def not_there(cluster: FakeCluster) -> None:
    """The image's registry does not know it."""
    told = f'failed to pull and unpack image "{IMAGE}": {IMAGE}: not found'
    cluster.pull(
        IMAGE, ("ErrImagePull", told), ("ImagePullBackOff", f'Back-off pulling image "{IMAGE}": {told}')
    )


SLOWLY = {"template": {"spec": {"nodeSelector": {"a": "b"}}}, "start_minutes": 0.02}
ACCOUNT = 'environment: .*serviceaccount "nobody" not found'
UNKNOWN = 'unknown field "spec.template.spec.tolerationz"'


def template(**spec: Any) -> dict[str, Any]:
    """A policy with a pod template."""
    return {"template": {"spec": spec}}


STARTED = [
    pytest.param({"service_account": "nobody"}, nothing, ACCOUNT, id="account"),
    pytest.param({}, not_there, "image: image .*not found", id="image"),
    pytest.param({}, zero, "quota: .*exceeded quota: none", id="quota zero"),
    pytest.param(SLOWLY, nothing, "topology: .*the limit is 0.02 min", id="no such node"),
]
"""What only the cluster can say, after the token was used: the attempt has an end with that reason."""
REFUSED = [
    pytest.param({"namespace": "nowhere"}, "namespace: there is no such namespace", id="namespace"),
    pytest.param(template(tolerationz=[]), UNKNOWN, id="misspelled"),
    pytest.param({"object_kind": "TrainJob"}, "compute.kubernetes.runtime", id="no runtime"),
    pytest.param(template(restartPolicy="Always"), "spec.restartPolicy", id="forbidden by us"),
    pytest.param(template(volumes="x"), "spec.volumes.* is a list", id="volumes"),
    pytest.param(template(containers=5), "spec.containers.* is a list", id="containers"),
    pytest.param(template(containers=[{"name": "train", "env": 5}]), r"env.* is a list", id="variables"),
    pytest.param(
        template(containers=[{"name": "train", "resources": {"limits": 5}}]),
        "limits.* is a table",
        id="limits",
    ),
    pytest.param({"cpu": "many"}, "compute.kubernetes.cpu", id="cpu"),
    pytest.param({"memory": "-1Gi"}, "compute.kubernetes.memory", id="memory"),
    pytest.param({"python": ""}, "compute.kubernetes.python", id="python"),
    pytest.param({"queue": "not a label!"}, "compute.kubernetes.queue", id="queue"),
]
"""What is refused before a token is used, by ourselves or by the cluster in a dry run."""


def signed(
    cluster: FakeCluster, folder: Path, monkeypatch: pytest.MonkeyPatch, policy: dict[str, Any]
) -> Task:
    """The launch task of a signed run."""
    connect(monkeypatch, cluster, folder)
    line = settle_in(monkeypatch, folder, cluster_policy(folder, **policy))
    line.to_signed_launch(configuration={"steps": 40})
    return Task(line)


@pytest.mark.case("L05")
@pytest.mark.parametrize(("policy", "spoil", "words"), STARTED)
def test_what_the_cluster_does_not_take(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: dict[str, Any],
    spoil: Callable[[FakeCluster], None], words: str,
) -> None:  # fmt: skip
    """The task fails within seconds of the cluster's own word, the attempt's end says why, and no job is left."""
    task = signed(cluster, tmp_path, monkeypatch, policy)
    spoil(cluster)
    begin = time.monotonic()
    with pytest.raises(AirflowFailException, match=words):  # for good: the same launch would end the same way
        task.follow(task.start())

    assert time.monotonic() - begin < 30
    assert [(1, "failed")] == task.ends()
    ended = task.line.view().latest(kinds.AttemptEnded)
    assert ended is not None
    assert re.search(words, ended.reason)
    assert not cluster.list("jobs", NAMESPACE)
    assert not cluster.started


@pytest.mark.case("L05")
@pytest.mark.parametrize(("policy", "words"), REFUSED)
def test_what_no_job_can_be_made_of(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: dict[str, Any], words: str
) -> None:
    """The field of the policy is named, no token is used, and the cluster is asked for no job."""
    task = signed(cluster, tmp_path, monkeypatch, policy)
    with pytest.raises(AirflowFailException, match=words):
        task.start()

    assert [] == list(task.line.view().all(kinds.LaunchIntended))
    assert [] == cluster.ever("jobs")


@pytest.mark.case("L05")
def test_an_account_that_may_create_nothing(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the account may not do is told before a token is used, too."""
    task = signed(cluster, tmp_path, monkeypatch, {})
    cluster.forbid("create", "jobs")
    with pytest.raises(AirflowFailException, match=r"create of Job is forbidden.*cannot create"):
        task.start()

    assert [] == list(task.line.view().all(kinds.LaunchIntended))
