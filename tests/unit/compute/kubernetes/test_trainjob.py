"""The same launch as a Kubeflow TrainJob, and what that API cannot say."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.compute.kubernetes.objects import IMAGE, TOKEN, cluster, spec

from pretrain_archive.compute.kubernetes.manifest import JobObjects, build_objects
from pretrain_archive.domain.errors import InputError

GPUS = {"accelerator": "nvidia", "accelerators": 16}
TEMPLATE = {
    "spec": {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
    }
}


def build(**on: Any) -> JobObjects:
    """A TrainJob of two nodes with these settings of the cluster."""
    changes = on.pop("launch", GPUS)
    values = {"object_kind": "TrainJob", "runtime": "torch-distributed", "accelerators_per_node": 8} | on
    return build_objects(spec(**changes), cluster(**values), token_digest=TOKEN)


def test_a_train_job_is_held_back():
    """It starts suspended, refers to the policy's runtime, and needs no service: the runtime makes one."""
    objects = build()
    job = objects.job

    assert ("trainer.kubeflow.org/v1alpha1", "TrainJob") == (job["apiVersion"], job["kind"])
    assert job["spec"]["suspend"] is True
    assert {
        "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch-distributed"
    } == job["spec"]["runtimeRef"]  # fmt: skip
    assert objects.service is None
    assert {"spec": {"suspend": False}} == objects.release_patch
    assert {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}} == build(queue="q").release_patch


def test_the_trainer_runs_the_wrapper():
    """Nodes, processes, image, command and resources stand where the runtime reads them."""
    trainer = build().job["spec"]["trainer"]

    assert (2, 8, IMAGE) == tuple(trainer[name] for name in ("numNodes", "numProcPerNode", "image"))
    assert {"nvidia.com/gpu": "8"} == trainer["resourcesPerNode"]["limits"]
    assert ["--worker-from", "JOB_COMPLETION_INDEX"] == trainer["command"][-5:-3]


def test_the_runtime_sets_the_rendezvous():
    """A runtime refuses a job that sets torchrun's own variables; those of the contract are there."""
    names = {item["name"] for item in build().job["spec"]["trainer"]["env"]}

    assert not [name for name in names if name.startswith(("PET_", "MASTER_"))]
    assert {"PRETRAIN_ARCHIVE_RUN_UID", "PRETRAIN_ARCHIVE_EVENTS"} <= names


def test_a_single_node_counts_its_members_too():
    """The runtime's job is indexed whatever its size."""
    command = build(launch={}).job["spec"]["trainer"]["command"]

    assert "--worker-from" in command


def test_pods_are_patched_by_the_newer_field():
    """``runtimePatches`` carry labels, volumes, mounts and the template; the deadline stands on the job."""
    objects = build(template=TEMPLATE)
    [patch] = objects.job["spec"]["runtimePatches"]
    [step] = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = step["template"]["spec"]["template"]

    assert ("node", "pretrain-archive/launch") == (step["name"], patch["manager"])
    assert objects.labels.items() <= pod["metadata"]["labels"].items()
    assert {"pool": "gpu"} == pod["spec"]["nodeSelector"]
    assert ["archive", "shared-memory"] == [volume["name"] for volume in pod["spec"]["volumes"]]
    [container] = pod["spec"]["containers"]
    assert {"name", "volumeMounts"} == set(container)
    assert objects.job["spec"]["activeDeadlineSeconds"] > 0


def test_pods_are_patched_by_the_older_field():
    """``podTemplateOverrides`` carry the same; a deadline is none of that API."""
    job = build(template=TEMPLATE, train_job_patches="podTemplateOverrides").job
    [override] = job["spec"]["podTemplateOverrides"]

    assert [{"name": "node"}] == override["targetJobs"]
    assert {"pool": "gpu"} == override["spec"]["nodeSelector"]
    assert {"activeDeadlineSeconds", "runtimePatches"}.isdisjoint(job["spec"])


@pytest.mark.parametrize(
    ("on", "named"),
    [
        pytest.param({"runtime": None}, "compute.kubernetes.runtime", id="no runtime"),
        pytest.param({"priority_class": "low"}, "template.spec.priorityClassName", id="priority class"),
        pytest.param(
            {"template": {"spec": {"hostNetwork": True}}}, "template.spec.hostNetwork", id="host network"
        ),
        pytest.param(
            {"template": {"spec": {"containers": [{"name": "train", "lifecycle": {}}]}}},
            "template.spec.containers[train].lifecycle",
            id="hooks",
        ),
        pytest.param(
            {
                "template": {"spec": {"securityContext": {"runAsUser": 1}}},
                "train_job_patches": "podTemplateOverrides",
            },
            "template.spec.securityContext",
            id="security context with the older field",
        ),
        pytest.param(
            {
                "launch": {"scope": "exploration", "deadline_seconds": 60.0},
                "train_job_patches": "podTemplateOverrides",
            },
            "compute.kubernetes.train_job_patches",
            id="an exploration without a deadline",
        ),
    ],
)
def test_what_the_api_cannot_say_is_refused(on: dict[str, Any], named: str):
    """Nothing is dropped in silence: the field is named, with where else it can be set."""
    with pytest.raises(InputError) as caught:
        build(**on)

    assert named in str(caught.value)
    assert caught.value.hint
