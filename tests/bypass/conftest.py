"""Grounds for the attacks: stages are made once per target, every try gets a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bypass.ground import Ground, Stages, cached_probe, policy_of
from tests.bypass.kubernetes.ground import ClusterGround, announce, open_api
from tests.fakes.cluster import FakeCluster

MakeGround = Callable[[str], Ground]


@pytest.fixture(scope="session")
def local_stages(tmp_path_factory: pytest.TempPathFactory) -> Stages:
    """The stages of a run on this machine."""
    return Stages(tmp_path_factory.mktemp("stages"), policy_of("local"))


@pytest.fixture
def local_ground(
    local_stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeGround]:
    """Makes the ground of one try."""
    made: list[Ground] = []
    cached_probe(monkeypatch)

    def make(stage: str) -> Ground:
        line = local_stages.at(stage, tmp_path / "ground")
        made.append(Ground(line=line, monkeypatch=monkeypatch, other=local_stages.uids["other"]))
        return made[-1]

    yield make
    for ground in made:
        ground.line.ledger.close()
    local_stages.restore()
    shutil.rmtree(tmp_path / "ground", ignore_errors=True)


@pytest.fixture(scope="session")
def shared_volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What workers and pods both see."""
    folder = tmp_path_factory.mktemp("volume").resolve()
    announce(folder)
    return folder


@pytest.fixture(scope="session")
def kubernetes_stages(shared_volume: Path) -> Stages:
    """The stages of a run on a cluster."""
    return Stages(shared_volume / "stages", policy_of("kubernetes"))


@pytest.fixture(scope="session")
def bypass_cluster(shared_volume: Path) -> Iterator[tuple[FakeCluster, Any]]:
    """One cluster for all tries, and its client."""
    with FakeCluster() as cluster:
        yield cluster, open_api(cluster, shared_volume)


@pytest.fixture
def kubernetes_ground(
    kubernetes_stages: Stages,
    bypass_cluster: tuple[FakeCluster, Any],
    shared_volume: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[MakeGround]:
    """Makes the ground of one try on the cluster."""
    made: list[Ground] = []
    cached_probe(monkeypatch)
    folder = shared_volume / "ground"

    def make(stage: str) -> Ground:
        line = kubernetes_stages.at(stage, folder)
        made.append(ClusterGround.on(
            *bypass_cluster, line=line, monkeypatch=monkeypatch, other=kubernetes_stages.uids["other"]
        ))  # fmt: skip
        return made[-1]

    yield make
    for ground in made:
        ground.line.ledger.close()
    kubernetes_stages.restore()
    shutil.rmtree(folder, ignore_errors=True)
