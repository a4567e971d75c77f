"""What only a cluster can be tricked with: its objects, made again, edited, released, or pointed elsewhere."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.bypass.attacks.replay import derived, used
from tests.bypass.kubernetes.ground import IMAGE, NAMESPACE, ClusterGround

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.kinds import JobCreated
from pretrain_archive.services import launch_inputs
from pretrain_archive.services.launch_bench import cluster_of
from pretrain_archive.services.launch_spec import data_folder, prove_data, spec_of

pytestmark = [pytest.mark.requirement("R125", "R223"), pytest.mark.timeout(120)]


def ended(ground: ClusterGround) -> dict[str, Any]:
    """A launch that ran to its end; its job is gone, and its manifest stands in the ledger."""
    ground.launch()
    created = ground.line.view().latest(JobCreated)
    assert created is not None
    ground.before = set(ground.signs())
    return copy.deepcopy(created.manifest)


def settled(ground: ClusterGround) -> None:
    """Let every controller see what was done."""
    head = ground.cluster.store.version
    with contextlib.suppress(TimeoutError, AssertionError):
        ground.cluster.wait(lambda: ground.cluster.store.version > head + 50, seconds=0.4)


def _apply(manifest: dict[str, Any], ground: ClusterGround) -> None:
    manifest = {key: value for key, value in manifest.items() if key != "status"}
    manifest["metadata"].pop("uid", None)
    manifest["metadata"].pop("resourceVersion", None)
    ground.cluster.create("jobs", manifest, NAMESPACE)


Change = Callable[[dict[str, Any]], object]


def _name(text: str) -> Change:
    return lambda manifest: manifest["metadata"].update(name=text)


def _spec(**values: Any) -> Change:
    return lambda manifest: manifest["spec"].update(values)


def _labels(**values: str) -> Change:
    return lambda manifest: manifest["metadata"].setdefault("labels", {}).update(values)


RECREATED: list[Any] = [
    pytest.param(lambda _: None, 1, id="as it stands in the ledger"),
    pytest.param(lambda _: None, 2, id="twice"),
    pytest.param(_name("again"), 1, id="under another name"),
    pytest.param(_name("again-2"), 3, id="under other names, three times"),
    pytest.param(_spec(backoffLimit=6), 1, id="with a backoff"),
    pytest.param(_spec(ttlSecondsAfterFinished=0), 1, id="with a TTL of nothing"),
    pytest.param(_spec(ttlSecondsAfterFinished=None), 1, id="without a TTL"),
    pytest.param(_spec(activeDeadlineSeconds=999_999), 1, id="with a long deadline"),
    pytest.param(_spec(parallelism=4, completions=4), 1, id="with four workers"),
    pytest.param(_spec(completionMode="NonIndexed"), 1, id="not indexed"),
    pytest.param(_labels(**{"pretrain-archive/attempt": "2"}), 1, id="as attempt two"),
    pytest.param(_labels(**{"pretrain-archive/token": "0" * 16}), 1, id="with another token's label"),
    pytest.param(_labels(**{"pretrain-archive/run": "run_other"}), 1, id="with another run's label"),
]


@pytest.mark.parametrize(("change", "times"), RECREATED)
def test_recreated_job_starts_no_pod(kubernetes_ground: Any, change: Change, times: int) -> None:
    """A controller or a person applies the recorded manifest again: it is suspended and starts nothing."""
    ground: ClusterGround = kubernetes_ground("signed")
    manifest = ended(ground)
    change(manifest)
    for _ in range(times):
        with contextlib.suppress(Exception):
            _apply(copy.deepcopy(manifest), ground)
    settled(ground)
    assert [] == ground.started()
    with contextlib.suppress(Exception):  # a TTL may have taken it
        ground.cluster.delete("jobs", manifest["metadata"]["name"], NAMESPACE)


def _policy(old: str, new: str) -> Callable[[ClusterGround], object]:
    def act(ground: ClusterGround) -> None:
        text = ground.policy_text()
        assert old in text
        ground.set_policy(text.replace(old, new, 1))
        ground.refused("changed since the run was opened")

    return act


SECTION: list[Any] = [
    pytest.param(_policy(IMAGE, "registry.example/trainer:latest"), id="image by a tag"),
    pytest.param(_policy(IMAGE, IMAGE.replace("ab" * 32, "cd" * 32)), id="image by another digest"),
    pytest.param(
        _policy(IMAGE, IMAGE.replace("registry.example", "registry.evil")), id="image of another registry"
    ),
    pytest.param(_policy(IMAGE, ""), id="no image"),
    pytest.param(_policy(f'namespace = "{NAMESPACE}"', 'namespace = "default"'), id="another namespace"),
    pytest.param(_policy('claim = "shared"', 'claim = "other"'), id="another volume"),
    pytest.param(
        _policy('claim = "shared"', 'claim = "shared"\nservice_account = "admin"'), id="a service account"
    ),
    pytest.param(_policy('claim = "shared"', 'claim = "shared"\nqueue = "fast"'), id="a queue"),
    pytest.param(_policy('claim = "shared"', 'claim = "shared"\npriority_class = "high"'), id="a priority"),
    pytest.param(_policy('target = "kubernetes"', 'target = "local"'), id="another target"),
    pytest.param(
        _policy('claim = "shared"', 'claim = "shared"\nconnection = "elsewhere"'), id="another cluster"
    ),
    pytest.param(
        _policy('claim = "shared"', 'claim = "shared"\nobject_kind = "TrainJob"'), id="another kind of job"
    ),
]


@pytest.mark.parametrize("act", SECTION)
def test_changed_section_starts_no_pod(
    kubernetes_ground: Any, act: Callable[[ClusterGround], object]
) -> None:
    """What the policy says of cluster and image was signed: a changed file launches nothing."""
    ground = kubernetes_ground("signed")
    act(ground)
    assert [] == ground.started()


def test_token_makes_one_job(kubernetes_ground: Any) -> None:
    """The door is opened with the same intent again and again: one job, whatever happens between."""
    ground: ClusterGround = kubernetes_ground("signed")
    bench = ground.bench()
    manifest = prove_data(ground.line.view(), bench, ground.caller())
    intent = used(ground, derived(ground))
    view = ground.line.view()
    config = launch_inputs.config_of(view)
    spec = spec_of(
        view, attempt=1, code=launch_inputs.code_of(config.command, cluster_of(ground.line.policy.policy)),
        manifest=manifest, runs_folder=ground.line.runs_folder, resume=None,
    )  # fmt: skip
    assert data_folder(bench, view.run_uid).exists()
    jobs = len(ground.cluster.ever("jobs"))
    job = ground.job_of(spec, intent)
    job.create()
    for _ in range(20):
        with contextlib.suppress(ArchiveError):
            ground.job_of(spec, intent).create()
    done = job.run()
    assert "completed" == done.state, (spec.work_folder / "log.txt").read_text()
    with pytest.raises(ArchiveError):
        ground.job_of(spec, intent).create()
    assert 1 == len(ground.cluster.ever("jobs")) - jobs
