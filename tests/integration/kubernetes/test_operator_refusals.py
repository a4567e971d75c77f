"""What a launch on a cluster refuses, and how soon: nothing is started, no token is used, and the reason is named."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.cluster_line import (
    CONNECTION,
    Task,
    cluster_policy,
    connect,
    settle_in,
)
from tests.support.main_line import Line

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy import parse_policy

OTHER = "registry.example/trainer@sha256:" + "cd" * 32


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    """A cluster on which nothing may ever start here."""
    with FakeCluster(kubelet="hand") as made:
        yield made
        assert [] == made.ever("jobs")


def signed(cluster: FakeCluster, folder: Path, monkeypatch: pytest.MonkeyPatch, **policy: Any) -> Task:
    """The launch task of a signed run."""
    connect(monkeypatch, cluster, folder)
    mount = policy.pop("mount", folder)
    line = settle_in(monkeypatch, folder, cluster_policy(mount, **policy))
    line.to_signed_launch()
    return Task(line)


def refused(task: Task, words: str, *, seconds: float = 20.0) -> None:
    """The try fails for good, soon, with these words; nothing was launched."""
    begin = time.monotonic()
    with pytest.raises(AirflowFailException, match=words):
        task.start()
    assert time.monotonic() - begin < seconds
    assert [] == list(task.line.view().all(kinds.LaunchIntended))
    failed = task.line.view().latest(kinds.RunFailed)
    assert failed is not None
    assert failed.task_id == "gpu_launch"


def unknown(monkeypatch: pytest.MonkeyPatch, _cluster: FakeCluster, _folder: Path) -> None:
    """There is no such connection."""
    monkeypatch.delenv(f"AIRFLOW_CONN_{CONNECTION.upper()}")


def no_file(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, folder: Path) -> None:
    """The kubeconfig that the connection names is not there."""
    connect(monkeypatch, cluster, folder, kube_config_path=str(folder / "none"))


def garbled(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, folder: Path) -> None:
    """The kubeconfig is none."""
    (folder / "garbled").write_text("{\x00 not yaml: [")
    connect(monkeypatch, cluster, folder, kube_config_path=str(folder / "garbled"))


def nobody(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, folder: Path) -> None:
    """Nobody listens at the address."""
    config = json.loads(cluster.kubeconfig(folder / "gone").read_text())
    config["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    (folder / "gone").write_text(json.dumps(config))
    connect(monkeypatch, cluster, folder, kube_config_path=str(folder / "gone"))


def forbidden(_monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, _folder: Path) -> None:
    """The service account may not read jobs."""
    cluster.fail("list", "jobs", times=1, status=403, message='User "archive" cannot list resource "jobs"')


@pytest.mark.case("L05")
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(unknown, f"compute.kubernetes.connection.*{CONNECTION}", id="no such connection"),
        pytest.param(no_file, "compute.kubernetes.connection", id="no kubeconfig"),
        pytest.param(garbled, "compute.kubernetes.connection", id="garbled kubeconfig"),
        pytest.param(nobody, "cannot be reached", id="nobody listens"),
        pytest.param(forbidden, "cannot list resource", id="forbidden"),
    ],
)
def test_connection_that_is_wrong(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[pytest.MonkeyPatch, FakeCluster, Path], None], words: str,
) -> None:  # fmt: skip
    """Within seconds, in words, before any data is read or any token is used."""
    task = signed(cluster, tmp_path, monkeypatch)
    spoil(monkeypatch, cluster, tmp_path)
    refused(task, words)
    assert not (task.line.runs_folder / task.line.run_uid / "data").exists()


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        pytest.param("elsewhere", "the work folder .* is not below", id="work folder"),
        pytest.param("work", "the data is out of the pods' reach", id="data"),
    ],
)
def test_places_that_pods_do_not_see(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mount: str, words: str
) -> None:
    """Evidence and data travel over the shared volume only."""
    refused(signed(cluster, tmp_path, monkeypatch, mount=tmp_path / mount), words)


def test_image_that_changed_after_the_signature(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another digest in the policy launches nothing, also where drift is only a warning."""
    task = signed(cluster, tmp_path, monkeypatch)
    policy = tmp_path / "policies" / "line.toml"
    text = cluster_policy(tmp_path, image=OTHER)
    policy.write_text(text)
    refused(task, "the image changed after it was signed: .*abab.* is now .*cdcd")
    task.line.policy = parse_policy(text.encode(), name="line.toml")


def test_image_by_tag_opens_no_run(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag can be moved: it is refused where it is asked for first."""
    connect(monkeypatch, cluster, tmp_path)
    line = settle_in(monkeypatch, tmp_path, cluster_policy(tmp_path, image="registry.example/trainer:latest"))
    with pytest.raises(InputError, match="is not pinned by digest"):
        line.open()


def test_operator_argument_only_confirms(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator that says ``local`` under a policy for a cluster is refused, and the other way round."""
    task = signed(cluster, tmp_path, monkeypatch)
    task.options = {"target": "local"}
    refused(task, "the policy of project line launches on 'kubernetes'")


def test_program_in_the_image_is_signed_by_its_digest(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that no worker sees is bound by the image's digest; the declared environment claims no more."""
    connect(monkeypatch, cluster, tmp_path)
    line: Line = settle_in(monkeypatch, tmp_path, cluster_policy(tmp_path))
    line.open(train_command=["{python}", "-m", "trainer.main"])
    config, environment = (
        line.view().latest(m) for m in (kinds.ConfigurationDeclared, kinds.EnvironmentDeclared)
    )
    assert config is not None
    assert environment is not None
    assert {"image:": "sha256:" + "ab" * 32} == config.code_files
    assert environment.image == environment.environment["image"]
    assert "packages" not in environment.environment
