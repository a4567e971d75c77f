"""What a pod holds and runs: the wrapper, accelerators, variables, volumes; and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.compute.kubernetes.built import build, environment, main, pod_spec
from tests.unit.compute.kubernetes.objects import IMAGE, TOKEN, cluster, spec

from pretrain_archive.compute.kubernetes.manifest import build_files, build_objects
from pretrain_archive.compute.spec import build_process
from pretrain_archive.domain.errors import InputError


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


@pytest.mark.requirement("R080")
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
