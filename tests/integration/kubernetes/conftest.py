"""A run in a real ledger, a job specification to vary, and a cluster that speaks HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster
from tests.integration.kubernetes.playground import Run

from pretrain_archive.compute.kubernetes.api_open import open_kubeconfig
from pretrain_archive.ledger.factory import open_ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    """A fresh ledger on SQLite."""
    return open_ledger(
        f"sqlite:///{tmp_path / 'ledger.db'}", signing_key=None, anchors=(), create=True, auto_seal=False
    )


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    """A cluster whose kubelets run the commands of pods as processes, unless the module says otherwise (CLUSTER)."""
    with FakeCluster(**getattr(request.module, "CLUSTER", {})) as made:
        yield made


@pytest.fixture
def by_hand() -> Iterator[FakeCluster]:
    """A cluster whose pods the test plays."""
    with FakeCluster(kubelet="hand") as made:
        yield made


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path, ledger: Any) -> Run:
    """A run against the cluster that the test asks for."""
    name = "by_hand" if "by_hand" in request.fixturenames else "cluster"
    fake: FakeCluster = request.getfixturevalue(name)
    api = open_kubeconfig(fake.kubeconfig(tmp_path / "kubeconfig"), patience=5.0)
    return Run(ledger=ledger, root=tmp_path, api=api)
