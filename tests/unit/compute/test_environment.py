"""Declared and observed environments."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute.environment import (
    allocated_of,
    blocking_drift,
    compare_environments,
    declare_environment,
)
from pretrain_archive.compute.spec import PROBE, WRAPPER
from pretrain_archive.compute.wrapper import interpreter_of
from pretrain_archive.domain.errors import InputError
from pretrain_archive.ledger.canonical import digest_of

BASE: dict[str, Any] = {
    "python": {"version": "3.11.7", "implementation": "CPython"},
    "packages": {"torch": "2.13.0", "rich": "13.0"},
    "platform": {"system": "Linux", "machine": "x86_64", "release": "6.1", "libc": "glibc 2.36"},
    "cpu": {"model": "A", "count": 8, "usable": 8},
    "git": {"commit": "a" * 40, "dirty": False},
    "accelerators": [{"name": "H100", "driver": "550", "uuid": "u1", "memory_mib": "80000"}],
    "variables": {"LANG": "C"},
    "image": "train@sha256:1",
    "container": {"os": "Ubuntu 22.04", "id": "a"},
    "limits": {"cpus": 8, "memory_bytes": "unlimited"},
    "stack": {"driver": "550", "cuda": "12.4", "nccl": "2.21.5", "cann": None, "hccl": None},
    "topology": {
        "numa": [{"name": "node0", "cpus": "0-7"}],
        "links": {"GPU0": {"GPU1": "NV18"}},
        "infiniband": [{"name": "mlx5_0/1", "rate": "400 Gb/sec"}],
        "network": [{"name": "eth0", "speed_mbps": 25000}],
    },
    "libraries": {"libnccl": "2.21.5", "libz": "1"},
    "memory_bytes": 1,
    "node": "n1",
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The base environment with one field changed; ``...`` removes it."""
    document = copy.deepcopy(BASE)
    *parents, last = path.split(".")
    inner: Any = document
    for name in parents:
        inner = inner[int(name) if isinstance(inner, list) else name]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return document


@pytest.mark.requirement("R069", "R071", "R092")
@pytest.mark.parametrize(
    ("path", "value", "field", "grade"),
    [
        pytest.param("python.version", "3.12.1", "python.version", "blocking", id="another Python"),
        pytest.param("python.version", "3.11.9", "python.version", "warning", id="a patch of Python"),
        pytest.param("packages.torch", "2.12.0", "packages.torch", "blocking", id="another torch"),
        pytest.param("packages.torch", ..., "packages.torch", "blocking", id="torch gone"),
        pytest.param("packages.rich", "14.0", "packages.rich", "warning", id="another helper"),
        pytest.param("packages.new", "1", "packages.new", "info", id="one more helper"),
        pytest.param("packages.nvidia-nccl-cu12", "1", "packages.nvidia-nccl-cu12", "blocking", id="NCCL"),
        pytest.param("platform.machine", "aarch64", "platform.machine", "blocking", id="another machine"),
        pytest.param("platform.release", "6.2", "platform.release", "info", id="another kernel"),
        pytest.param("git.commit", "b" * 40, "git.commit", "blocking", id="another commit"),
        pytest.param("git.dirty", True, "git.dirty", "warning", id="edited code"),
        pytest.param("git", None, "git.commit", "warning", id="git unrecorded"),
        pytest.param("accelerators", [], "accelerators.count", "blocking", id="no accelerator"),
        pytest.param("accelerators.0.driver", "551", "accelerators.0.driver", "warning", id="another driver"),
        pytest.param("image", "train@sha256:2", "image", "blocking", id="another image"),
        pytest.param("variables.LANG", "de", "variables.LANG", "warning", id="a variable"),
        pytest.param("packages", None, "packages", "warning", id="packages unrecorded"),
        pytest.param("node", "n2", "node", "info", id="another node"),
        pytest.param("container.os", "Ubuntu 24.04", "container.os", "warning", id="another base image"),
        pytest.param("limits.cpus", 4, "limits.cpus", "info", id="fewer CPUs allowed"),
        pytest.param("stack.nccl", "2.20.5", "stack.nccl", "blocking", id="another NCCL"),
        pytest.param("stack.nccl", None, "stack.nccl", "warning", id="NCCL unrecorded now"),
        pytest.param("stack.cann", "8.0", "stack.cann", "info", id="CANN unrecorded before"),
        pytest.param("stack.driver", "560", "stack.driver", "warning", id="another driver of the machine"),
        pytest.param(
            "topology.links", {"GPU0": {"GPU1": "SYS"}}, "topology.links.GPU0", "warning", id="links"
        ),
        pytest.param("topology.infiniband", [], "topology.infiniband", "warning", id="no fabric"),
        pytest.param("topology.network", [], "topology.network", "info", id="other interfaces"),
        pytest.param(
            "libraries.libnccl", "2.20.5", "libraries.libnccl", "blocking", id="another NCCL loaded"
        ),
        pytest.param("git.diff_digest", "sha256:1", "git.diff_digest", "info", id="an edit, none before"),
        pytest.param("accelerators", None, "accelerators.count", "warning", id="accelerators unrecorded now"),
    ],
)
def test_a_difference_is_named_and_graded(path: str, value: Any, field: str, grade: str) -> None:
    """One change, and the field with its grade comes first."""
    found = compare_environments(BASE, changed(path, value))

    assert (field, grade) in [(d.field, d.grade) for d in found]
    assert found[0].grade == min((d.grade for d in found), key=("blocking", "warning", "info").index)


def test_what_only_an_image_declares_breaks_nothing() -> None:
    """Everything that nobody declared is info at most; the image itself still blocks."""
    found = compare_environments({"image": "train@sha256:1"}, {**BASE, "image": "train@sha256:2"})

    assert ("image", "blocking") == (found[0].field, found[0].grade)
    assert {"info"} == {difference.grade for difference in found[1:]}
    assert ("image",) == blocking_drift(found)
    assert ("image",) == blocking_drift([difference.to_dict() for difference in found])


def test_an_earlier_release_did_not_look_at_everything() -> None:
    """A declaration without the newer groups does not differ in them."""
    old = {
        name: value
        for name, value in BASE.items()
        if name not in {"container", "limits", "stack", "topology"}
    }

    assert [] == compare_environments(old, BASE)


def test_every_difference_has_a_reason() -> None:
    """A person reads why it matters."""
    other = {
        "node": "n2",
        "python": {"version": "2.7"},
        "packages": {"torch": "1", "x": "1"},
        "variables": {"A": "1"},
    }
    found = compare_environments(BASE, other)

    assert 15 < len(found)
    assert all(difference.reason for difference in found)
    assert all(difference.to_dict()["reason"] for difference in found)


@pytest.mark.requirement("R073")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, (1, ["u1"], 8, 1), id="all of the machine"),
        pytest.param({"limits": {"cpus": 2.5, "memory_bytes": 1}}, (1, ["u1"], 2.5, 1), id="a part of it"),
        pytest.param(
            {"limits": {"cpus": 64, "memory_bytes": 9}}, (1, ["u1"], 8, 1), id="a limit above the machine"
        ),
        pytest.param({"accelerators": None}, (None, None, 8, 1), id="accelerators unrecorded"),
        pytest.param({"cpu": None, "limits": None}, (1, ["u1"], None, 1), id="CPU unrecorded"),
    ],
)
def test_what_was_allocated(changes: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """Devices, CPUs and memory that the worker really has; nothing is guessed."""
    assert expected == tuple(allocated_of({**BASE, **changes}).values())


def test_the_declared_environment_lasts(tmp_path: Path) -> None:
    """Its digest is compared at the launch: what another process of the same machine has otherwise stays out."""
    declared = declare_environment(sys.executable, (), tmp_path).environment

    assert {"os"} == set(declared["container"])
    assert {"numa", "links"} == set(declared["topology"])
    assert "limits" not in declared
    assert declared["stack"].keys() >= {"driver", "cuda", "nccl", "cann", "hccl"}


def test_equal_environments_do_not_differ() -> None:
    """Loaded libraries are facts of a moment, not of the environment."""
    assert [] == compare_environments(BASE, {**BASE, "libraries": {"libc": "6"}})


def test_only_allowed_variables_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets next to an allowed variable never show; a password in an allowed one is masked."""
    monkeypatch.setenv("TEAM", "https://u:hunter2@host/x")
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    declared = declare_environment(sys.executable, ("TEAM", "ABSENT"), tmp_path)

    assert {"TEAM": "https://***@host/x"} == declared.environment["variables"]
    assert "hunter2" not in declared.model_dump_json()
    assert digest_of(declared.environment) == declared.environment_digest
    assert declared.environment["packages"]["pydantic"]


def test_a_command_without_python_leaves_it_unrecorded(tmp_path: Path) -> None:
    """Nothing is guessed from the worker's own interpreter."""
    declared = declare_environment(["sh", "-c", "true"], (), tmp_path)

    assert (None, None) == (declared.environment["python"], declared.environment["packages"])
    assert declared.environment["cpu"]["count"]


def test_the_git_state_of_the_code_is_seen(tmp_path: Path) -> None:
    """Commit and edited files of the program's folder."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t"]
    (tmp_path / "train.py").write_text("a")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    clean = declare_environment(["sh"], (), tmp_path).environment["git"]
    (tmp_path / "train.py").write_text("b")
    dirty = declare_environment(["sh"], (), tmp_path).environment["git"]

    assert (40, False) == (len(clean["commit"]), clean["dirty"])
    assert (clean["commit"], True) == (dirty["commit"], dirty["dirty"])


def test_an_interpreter_that_fails_is_an_input_error(tmp_path: Path) -> None:
    """A Python that cannot run is named, with what to check."""
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)

    with pytest.raises(InputError, match="environment cannot be read"):
        declare_environment(str(fake), (), tmp_path)


def test_accelerators_are_read_from_their_tools(tmp_path: Path) -> None:
    """What nvidia-smi and npu-smi print becomes devices."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, GPU-1, H100, 550.54, 81559'\n")
    npu = tmp_path / "npu-smi"
    npu.write_text(
        "#!/bin/sh\nprintf 'NPU ID  Chip ID  Chip Logic ID  Chip Name\\n 0  0  0  Ascend 910B\\n 0  1  -  Mcu\\n'\n"
    )
    for file in (smi, npu):
        file.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, str(PROBE), "--host"], env=environment, capture_output=True, check=True
    )
    found = json.loads(done.stdout)["accelerators"]

    assert [("nvidia", "H100"), ("ascend", "Ascend 910B")] == [(d["vendor"], d["name"]) for d in found]


def test_the_interpreter_of_a_command(tmp_path: Path) -> None:
    """A Python itself, a script that names one, or none."""
    script = tmp_path / "torchrun"
    script.write_text(f"#!{sys.executable}\n")
    shell = tmp_path / "run.sh"
    shell.write_text("#!/bin/sh\n")
    for file in (script, shell):
        file.chmod(0o755)

    assert sys.executable == interpreter_of([sys.executable, "x.py"])
    assert sys.executable == interpreter_of([str(script)])
    assert interpreter_of([str(shell)]) is None
    assert interpreter_of(["no-such-program"]) is None


def test_the_wrapper_is_one_file_of_the_standard_library(tmp_path: Path) -> None:
    """Copied alone and run without site packages it still starts a program and reports its end."""
    alone = tmp_path / "w.py"
    alone.write_bytes(WRAPPER.read_bytes())
    status = tmp_path / "status"
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(alone), "--status", str(status), "--", "sh", "-c", "exit 7"],
        check=False,
    )
    last = json.loads(status.read_text().splitlines()[-1])

    assert 7 == done.returncode
    assert ("ended", "exited", 7) == (last["status"], last["reason"], last["exit_code"])
