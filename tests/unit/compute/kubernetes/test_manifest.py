"""The objects of a launch: what they say, and that a cluster's own models take them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from tests.unit.compute.kubernetes.built import GPUS, build, environment, main, pod_spec
from tests.unit.compute.kubernetes.objects import RUN, TOKEN, cluster, spec

from pretrain_archive.compute.kubernetes.manifest import build_objects, freed


class Response:
    """What the client's deserialisation reads."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.data = json.dumps(body)


def round_trip(body: dict[str, Any], model: str) -> dict[str, Any]:
    """The object through the official client's model and back: unknown fields and wrong types do not survive."""
    from kubernetes import client

    api = client.ApiClient()
    found: dict[str, Any] = api.sanitize_for_serialization(api.deserialize(Response(body), model))
    return found


CASES = [
    pytest.param({}, {}, id="one member on CPU"),
    pytest.param({"accelerators_per_node": 8}, GPUS, id="two nodes of eight"),
    pytest.param({"queue": "research", "workload_priority": "high"}, {"nodes": 3}, id="three nodes in a queue"),
    pytest.param(
        {
            "service_account": "trainer", "priority_class": "low", "cpu": "8", "memory": "64Gi",
            "shared_memory": "16Gi",
            "template": {
                "metadata": {"labels": {"team": "nlp"}},
                "spec": {
                    "nodeSelector": {"pool": "gpu"},
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "initContainers": [{"name": "warm", "image": "warm:1", "command": ["true"]}],
                    "containers": [{"name": "train", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}],
                },
            },
        },
        GPUS | {"nodes": 2},
        id="everything",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("on", "changes"), CASES)
def test_the_client_s_models_take_the_objects(on: dict[str, Any], changes: dict[str, Any]):
    """The official models read the job and the service, and give back every field as it was."""
    objects = build(on=on, **changes)

    assert objects.job == round_trip(objects.job, "V1Job")
    if objects.service is not None:
        assert objects.service == round_trip(objects.service, "V1Service")


@pytest.mark.parametrize(("on", "changes"), CASES)
def test_a_job_starts_nothing_by_itself(on: dict[str, Any], changes: dict[str, Any]):
    """It is held back, in no queue, and never tries twice."""
    job = build(on=on, **changes).job

    assert job["spec"]["suspend"] is True
    assert not [name for name in job["metadata"]["labels"] if name.endswith("queue-name")]
    assert 0 == job["spec"]["backoffLimit"]
    assert "Never" == job["spec"]["template"]["spec"]["restartPolicy"]


def test_building_is_pure():
    """The same launch gives the same objects, and neither policy nor specification is changed."""
    launch, policy = spec(), cluster(template=CASES[3].values[0]["template"])
    before = policy.model_dump()
    first = build_objects(launch, policy, token_digest=TOKEN)
    first.job["spec"]["template"]["spec"]["nodeSelector"]["pool"] = "other"

    assert before == policy.model_dump()
    assert "gpu" == pod_spec(build_objects(launch, policy, token_digest=TOKEN))["nodeSelector"]["pool"]


def test_release_without_a_queue_lets_the_job_go():
    """One patch lifts the suspension."""
    assert {"spec": {"suspend": False}} == build().release_patch


def test_release_with_a_queue_names_it():
    """Kueue lifts the suspension: the patch only puts the job into its queue."""
    objects = build(on={"queue": "research", "workload_priority": "high"})

    assert {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "research"}}} == objects.release_patch
    assert "high" == objects.job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]


def test_labels_and_annotations_name_the_launch():
    """Job, pods and service are found by run, attempt and token; the full values stand beside."""
    objects = build(nodes=2)
    labels = {
        "pretrain-archive/run": RUN,
        "pretrain-archive/attempt": "1",
        "pretrain-archive/token": "5" * 40,
    }

    assert labels == objects.labels
    for metadata in (objects.job["metadata"], objects.job["spec"]["template"]["metadata"]):
        assert labels.items() <= metadata["labels"].items()
        assert TOKEN == metadata["annotations"]["pretrain-archive/token"]
    assert objects.service is not None
    assert labels == objects.service["spec"]["selector"]
    assert (
        f"pretrain-archive/attempt=1,pretrain-archive/run={RUN},pretrain-archive/token={'5' * 40}"
        == objects.selector
    )


def test_one_member_is_a_plain_job():
    """Without peers there is no index, no service and no rendezvous."""
    objects = build()

    assert "NonIndexed" == objects.job["spec"]["completionMode"]
    assert objects.service is None
    assert ["--worker", "0"] == main(objects)["command"][-5:-3]
    assert not [name for name in environment(objects) if name.startswith(("PET_", "MASTER_"))]


def test_several_members_find_each_other():
    """Pod 0 has a stable name before it is ready, and torchrun's own variables carry it."""
    objects = build(on={"accelerators_per_node": 8}, **GPUS)
    found, job = environment(objects), objects.job["spec"]
    first = f"{objects.name}-0.{objects.name}"

    assert ("Indexed", 2, 2) == (job["completionMode"], job["completions"], job["parallelism"])
    assert objects.name == pod_spec(objects)["subdomain"]
    assert objects.service is not None
    assert objects.service["spec"]["clusterIP"] == "None"
    assert objects.service["spec"]["publishNotReadyAddresses"] is True
    assert (first, "29500", "2", "8") == tuple(
        found[f"PET_{name}"] for name in ("MASTER_ADDR", "MASTER_PORT", "NNODES", "NPROC_PER_NODE")
    )
    assert (
        "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        == (found["PET_NODE_RANK"]["fieldRef"]["fieldPath"])
    )
    assert ["--worker-from", "JOB_COMPLETION_INDEX"] == main(objects)["command"][-5:-3]


def test_torchrun_reads_the_variables(monkeypatch: pytest.MonkeyPatch):
    """The names are those that torchrun itself reads."""
    run = pytest.importorskip("torch.distributed.run")
    for name, value in environment(build(on={"accelerators_per_node": 8}, **GPUS)).items():
        if name.startswith("PET_"):
            monkeypatch.setenv(name, "1" if name == "PET_NODE_RANK" else value)

    options = run.get_args_parser().parse_args(["train.py"])

    assert ("2", "8", 1, 29500) == (
        options.nnodes,
        options.nproc_per_node,
        options.node_rank,
        options.master_port,
    )
    assert options.master_addr.endswith(build(on={"accelerators_per_node": 8}, **GPUS).name)


def test_deadline_is_a_backstop_behind_limit_and_waiting():
    """The job's clock starts when it is let go: the limit, what it may wait, and a margin."""
    assert 50 * 60 + 10 * 60 + 60 == build(on={"start_minutes": 10}).job["spec"]["activeDeadlineSeconds"]
    assert (
        20 * 60 + 10 * 60 + 60
        == (build(on={"start_minutes": 10}, minutes=20).job["spec"]["activeDeadlineSeconds"])
    )


def test_the_deadline_of_an_exploration_has_no_margin():
    """Its ceiling holds whoever watches, waiting included."""
    objects = build(scope="exploration", deadline_seconds=90.5)

    assert 90 == objects.job["spec"]["activeDeadlineSeconds"]
    assert "exploration" == objects.labels["pretrain-archive/scope"]


def test_what_happens_to_a_disrupted_pod():
    """A preempted member ends the job, is never replaced beside its own end, and no exit code decides."""
    job = build().job["spec"]

    assert "Failed" == job["podReplacementPolicy"]
    assert [
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ] == job["podFailurePolicy"]["rules"]


def test_end_and_time_to_live():
    """A program gets its grace, the wrapper some seconds more; a finished job stays as long as the policy says."""
    objects = build(on={"grace_seconds": 90.5, "keep_hours": 2})

    assert 101 == pod_spec(objects)["terminationGracePeriodSeconds"]
    assert "90.5" == main(objects)["command"][main(objects)["command"].index("--grace") + 1]
    assert 7200 == objects.job["spec"]["ttlSecondsAfterFinished"]


def test_seconds_are_whole_and_positive():
    """A cluster takes whole positive seconds only, however odd the budget is."""
    found = build(minutes=0.001, spent_seconds=1e9, on={"start_minutes": 0.01}).job["spec"]

    assert found["activeDeadlineSeconds"] == math.ceil(60 + 0.6)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param({}, "", id="as it was asked for"),
        pytest.param(
            {"spec": {"suspend": False}}, "without its suspension", id="webhook lifts the suspension"
        ),
        pytest.param({"spec": {}}, "without its suspension", id="field dropped"),
        pytest.param(
            {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "default"}}},
            "queue default",
            id="default queue",
        ),
    ],
)
def test_a_job_that_the_cluster_set_free(change: dict[str, Any], found: str):
    """What a webhook made of a job is seen in the answer to its creation."""
    told = freed({**build(on={"queue": "research"}).job, **change})

    assert found in told
    assert bool(found) == bool(told)
