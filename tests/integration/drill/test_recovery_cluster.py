"""The same drill on a cluster: the real launch over HTTP, real torchrun in the pods of two nodes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.cluster import FakeCluster
from tests.support.main_line import Line

from pretrain_archive.compute.kubernetes.api_open import open_kubeconfig
from pretrain_archive.domain import kinds
from pretrain_archive.domain.policy import LoadedPolicy, parse_policy
from pretrain_archive.services import drilling
from pretrain_archive.services.launch_bench import Bench

ROOT = Path(__file__).parents[3]
IMAGE = "registry.test/train@sha256:" + "a" * 64


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A cluster whose kubelets run the commands of pods as processes."""
    with FakeCluster() as made:
        yield made


def cluster_policy(folder: Path) -> LoadedPolicy:
    """The policy of drills, launching on the fake cluster; worker and pods see ``folder``."""
    text = (ROOT / "dags" / "policies" / "drill.toml").read_text()
    text = text.replace(
        "max_accelerators = 0\naccelerator_minutes = 10", "max_accelerators = 2\naccelerator_minutes = 20"
    )
    section = (
        f'\n[compute]\ntarget = "kubernetes"\n[compute.kubernetes]\nimage = "{IMAGE}"\nnamespace = "training"\n'
        f'claim = "archive"\nmount_path = "{folder}"\npython = "{sys.executable}"\ngrace_seconds = 2\n'
    )
    return parse_policy((text + section).encode(), name="drill.toml")


@pytest.mark.requirement("R194", "R234", "R235")
def test_a_cluster_recovers(tmp_path: Path, cluster: FakeCluster) -> None:
    """A pod with its workers is deleted: the job ends, nothing is left, four workers load and go on."""
    program = tmp_path / "trainer"
    shutil.copytree(ROOT / "docker" / "trainer", program, ignore=shutil.ignore_patterns("__pycache__"))
    line = Line(folder=tmp_path, policy=cluster_policy(tmp_path))
    api = open_kubeconfig(cluster.kubeconfig(tmp_path / "kubeconfig"), patience=5.0)
    bench = Bench(
        store=line.store, policies=lambda _: line.policy, runs_folder=line.runs_folder, clusters=lambda _: api
    )

    plan = drilling.Plan(inject="worker_exit", program=program, at_step=15, steps=50)
    line.run_uid, filed = drilling.drill(line.ledger, line.caller("drill"), bench, plan)

    assert ("kubernetes", True) == (filed.target, filed.passed), (filed, line.said[-30:])
    assert dict.fromkeys(drilling.NAMES, "verified") == {c["name"]: c["verdict"] for c in filed.checks}
    done = line.view().latest(kinds.AttemptReconciled)
    assert done is not None
    assert (4, 4) == (done.members_loaded, done.members_expected)
    assert ([], []) == (list(cluster.list("jobs")), list(cluster.list("pods")))


def test_a_fault_that_no_interface_brings_about_is_unrecorded(tmp_path: Path) -> None:
    """A cluster's API freezes nobody: nothing is launched and the drill has not passed."""
    program = tmp_path / "trainer"
    shutil.copytree(ROOT / "docker" / "trainer", program, ignore=shutil.ignore_patterns("__pycache__"))
    line = Line(folder=tmp_path, policy=cluster_policy(tmp_path))
    bench = Bench(store=line.store, policies=lambda _: line.policy, runs_folder=line.runs_folder)
    plan = drilling.Plan(inject="worker_frozen", program=program)
    line.run_uid, filed = drilling.drill(line.ledger, line.caller("drill"), bench, plan)

    assert (False, {"unrecorded"}) == (filed.passed, {check["verdict"] for check in filed.checks})
    assert "cannot be injected through a cluster's API" in filed.detail
    assert 0 == line.view().attempts
