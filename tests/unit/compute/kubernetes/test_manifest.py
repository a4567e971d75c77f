"""The objects of a launch: what they say, that a cluster's own models take them, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.unit.compute.kubernetes.objects import IMAGE, RUN, TOKEN, cluster, spec

from pretrain_archive.compute.kubernetes.manifest import JobObjects, build_files, build_objects, freed
from pretrain_archive.compute.spec import build_process
from pretrain_archive.domain.errors import InputError


def build(*, on: dict[str, Any] | None = None, **changes: Any) -> JobObjects:
    """The objects of a launch with these changes, on a cluster with those."""
    return build_objects(spec(**changes), cluster(**(on or {})), token_digest=TOKEN)


def pod_spec(objects: JobObjects) -> dict[str, Any]:
    """The pod's specification."""
    found: dict[str, Any] = objects.job["spec"]["template"]["spec"]
    return found


def main(objects: JobObjects) -> dict[str, Any]:
    """The one container."""
    [found] = pod_spec(objects)["containers"]
    return dict(found)


def environment(objects: JobObjects) -> dict[str, Any]:
    """The container's variables by name."""
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in main(objects)["env"]}


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


GPUS = {"accelerator": "nvidia", "accelerators": 16}
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


@pytest.mark.requirement("R080")
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


def test_the_container_runs_the_wrapper_from_the_shared_folder():
    """The call is the local target's, from a copy that any image finds, and the program comes last, unchanged."""
    launch = spec(
        command=("torchrun", "--nnodes", "$(X)", "--", "train.py"), resume_from=Path("/shared/checkpoints/7")
    )
    command = main(build(command=launch.command, resume_from=launch.resume_from))["command"]
    local = build_process(launch, inherited={}, python="python3").argv

    assert ["python3", "-u", "/shared/runs/attempt-1/wrapper.py"] == command[:3]
    assert list(launch.command) == command[command.index("--") + 1 :]
    assert "resume" == command[command.index("--moment") + 1]
    assert "/shared/runs/attempt-1/log.txt" == command[command.index("--log") + 1]
    rules = json.loads(command[command.index("--stop") + 1])
    assert (True, 300) == (rules["nan"], rules["no_progress_seconds"])
    assert set(local[: local.index("--")]) - {local[2], "2.5"} <= set(command)


def test_files_that_a_pod_needs():
    """Configuration, wrapper and what it carries are laid into the attempt's folder."""
    files = build_files(spec())

    assert {"wrapper.py", "probe.py", "config.json"} == {path.name for path in files}
    assert {Path("/shared/runs/attempt-1")} == {path.parent for path in files}
    assert {"steps": 3} == json.loads(files[Path("/shared/runs/attempt-1/config.json")])


def test_the_wrapper_starts_from_its_files_alone(tmp_path: Path):
    """The files in an empty folder are enough: no package is imported, and a member writes its own status file."""
    import subprocess
    import sys

    launch = spec(
        work_folder=tmp_path,
        checkpoint_folder=tmp_path,
        data_manifest=None,
        nodes=2,
        command=(sys.executable, "-c", "print('hi')"),
    )
    objects = build_objects(
        launch, cluster(mount_path=str(tmp_path), python=sys.executable), token_digest=TOKEN
    )
    for path, content in build_files(launch).items():
        path.write_bytes(content)
    container = main(objects)
    variables = {item["name"]: item["value"] for item in container["env"] if "value" in item}
    python, unbuffered, *rest = container["command"]
    done = subprocess.run(
        [python, "-I", "-S", unbuffered, *rest],
        env=variables | {"JOB_COMPLETION_INDEX": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert 0 == done.returncode, done.stderr
    kinds = [json.loads(line)["status"] for line in (tmp_path / "status-1.jsonl").read_text().splitlines()]
    assert "ended" == kinds[-1]
    assert "hi\n" == (tmp_path / "log-1.txt").read_text()


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


@pytest.mark.parametrize(
    ("accelerator", "resource"),
    [
        pytest.param("nvidia", "nvidia.com/gpu", id="NVIDIA"),
        pytest.param("amd", "amd.com/gpu", id="AMD"),
        pytest.param("Ascend", "huawei.com/Ascend910", id="Ascend"),
        pytest.param("example.com/fpga", "example.com/fpga", id="any resource"),
    ],
)
def test_accelerators_are_asked_for_by_node(accelerator: str, resource: str):
    """Limits and requests are equal: accelerators are never shared out beyond what is there."""
    objects = build(
        on={"accelerators_per_node": 4, "memory": "1Gi", "cpu": "2"}, accelerator=accelerator, accelerators=8
    )

    assert {
        "requests": {"cpu": "2", "memory": "1Gi", resource: "4"},
        "limits": {"memory": "1Gi", resource: "4"},
    } == main(objects)["resources"]
    assert (2, 8, resource) == tuple(objects.requested[n] for n in ("nodes", "accelerators", "accelerator"))


@pytest.mark.parametrize(
    ("total", "nodes", "each", "found"),
    [
        pytest.param(4, 1, 8, (1, 4), id="less than a node"),
        pytest.param(8, 1, 8, (1, 8), id="a node"),
        pytest.param(24, 1, 8, (3, 8), id="nodes follow"),
        pytest.param(24, 3, 8, (3, 8), id="nodes agree"),
        pytest.param(12, 3, 0, (3, 4), id="nodes alone"),
        pytest.param(0, 3, 8, (3, 0), id="nodes without accelerators"),
    ],
)
def test_accelerators_are_shared_evenly(total: int, nodes: int, each: int, found: tuple[int, int]):
    """Nodes and accelerators on each follow from budget and policy."""
    requested = build(
        on={"accelerators_per_node": each}, accelerator="nvidia", accelerators=total, nodes=nodes
    ).requested

    assert found == (requested["nodes"], requested["accelerators_per_node"])


@pytest.mark.parametrize(
    ("on", "changes", "named"),
    [
        pytest.param({"accelerators_per_node": 8}, {"accelerators": 12, "accelerator": "nvidia"},
                     "accelerators: is no multiple of the 8", id="uneven"),
        pytest.param({}, {"accelerators": 7, "nodes": 2, "accelerator": "nvidia"},
                     "accelerators: cannot be shared evenly by 2", id="uneven nodes"),
        pytest.param({"accelerators_per_node": 8}, {"accelerators": 16, "nodes": 3, "accelerator": "nvidia"},
                     "nodes: 16 accelerators at 8 a node are 2 nodes", id="nodes disagree"),
        pytest.param({}, {"accelerators": 1}, "accelerator: names no resource", id="accelerators of none"),
        pytest.param({}, {"accelerators": 1, "accelerator": "H100"}, "accelerator: is not a resource name",
                     id="a model's name"),
        pytest.param({"image": "trainer:latest"}, {}, "image: is not pinned by digest", id="tag"),
        pytest.param({"image": IMAGE[:-1]}, {}, "image: is not pinned by digest", id="short digest"),
        pytest.param({"image": " "}, {}, "image: is empty", id="no image"),
        pytest.param({"mount_path": "shared"}, {}, "mount_path: is no absolute path", id="relative mount"),
        pytest.param({"claim": None}, {}, "work_folder: lies on no volume", id="no volume"),
        pytest.param({}, {"checkpoint_folder": Path("/local/checkpoints")}, "checkpoint_folder: lies on no volume",
                     id="checkpoints elsewhere"),
        pytest.param({}, {"data_manifest": Path("/sharedness/m.jsonl")}, "data_manifest: lies on no volume",
                     id="a folder with a similar name"),
        pytest.param({}, {"variables": {"HF_TOKEN": "hf_secret"}}, "variables: may not be written into a manifest",
                     id="a variable that is not allowed"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(on: dict[str, Any], changes: dict[str, Any], named: str):
    """Field, value and remedy are named before anything is asked of a cluster."""
    with pytest.raises(InputError) as caught:
        build(on=on, **changes)

    assert named in str(caught.value)
    assert caught.value.hint


def test_an_exploration_may_run_an_image_by_its_tag():
    """Trying things out needs no digest; the record names what was pulled."""
    assert "trainer:latest" == main(build(on={"image": "trainer:latest"}, scope="exploration"))["image"]


def test_only_allowed_variables_are_written(monkeypatch: pytest.MonkeyPatch):
    """Nothing of the worker's own environment gets into a manifest."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "worker-secret")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    objects = build(variables={"OPEN": "yes"}, allowed_variables=("OPEN",))

    assert "worker-secret" not in json.dumps(objects.to_dict())
    names = {name for name in environment(objects) if not name.startswith("PRETRAIN_ARCHIVE_")}
    assert {"OPEN"} == names


def test_a_pod_gets_no_credentials_of_the_cluster():
    """No token is mounted, unless the template wants one."""
    assert pod_spec(build())["automountServiceAccountToken"] is False
    wanted = {"template": {"spec": {"automountServiceAccountToken": True}}}
    assert pod_spec(build(on=wanted))["automountServiceAccountToken"] is True


def test_a_template_may_bring_the_volume():
    """Without a claim the shared folder may come from the template's own volume."""
    template = {"spec": {
        "volumes": [{"name": "nfs", "nfs": {"server": "files", "path": "/export"}}],
        "containers": [{"name": "train", "volumeMounts": [{"name": "nfs", "mountPath": "/shared"}]}],
    }}  # fmt: skip
    objects = build(on={"claim": None, "template": template})

    assert {"name": "nfs", "mountPath": "/shared"} in main(objects)["volumeMounts"]


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
