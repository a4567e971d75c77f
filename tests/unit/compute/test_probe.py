"""What the probe reads from tools, files and libraries. Texts are written after the tools' own formats."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute import probe
from pretrain_archive.compute.spec import CARRIED, PROBE

NVIDIA_CSV = """\
0, GPU-5f1e2d3c-0000-4a4a-8b8b-000000000001, NVIDIA H100 80GB HBM3, 550.54.15, 81559, 00000000:18:00.0
1, GPU-5f1e2d3c-0000-4a4a-8b8b-000000000002, NVIDIA H100 80GB HBM3, 550.54.15, [N/A], 00000000:2A:00.0
"""

NVIDIA_TOPO = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\tSYS\t0-47,96-143\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\tPIX\t48-95,144-191\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tPIX\tSYS\t X \t\t\t\t\n"
    "\n"
    "Legend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"
)

NPU_MAP = """\
	NPU ID                         Chip ID                        Chip Logic ID                  Chip Name
	0                              0                              0                              Ascend 910B3
	0                              1                              -                              Mcu
	1                              0                              1                              Ascend 910B3
	1                              1                              -                              Mcu
"""

NPU_INFO = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 91.3        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3375 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | OK            | 88.0        35                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3360 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
"""

NPU_TOPO = """\
\t   NPU0\t   NPU1\t   CPU Affinity
NPU0\t   X  \t   HCCS\t   144-167
NPU1\t   HCCS\t   X  \t   0-23

Legend:

  X    = Self
  HCCS = Connection traversing HCCS.
"""

NVIDIA_MODULE = {
    "closed": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:\n",
    "open": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (dvs-builder)\n",
}


def put(root: Path, **files: str) -> str:
    """A tree of small files; ``__`` stands for a slash. Returns the root as the probe takes it."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return f"{root}/"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tools that stands first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def tool(folder: Path, name: str, cases: dict[str, str], *, otherwise: str = "exit 9") -> None:
    """An executable that prints a text for the arguments that contain a word."""
    body = []
    for number, (word, text) in enumerate(cases.items()):
        (folder / f"{name}.{number}").write_text(text)
        body.append(f'case "$*" in *"{word}"*) cat "{folder / name}.{number}"; exit 0;; esac')
    (folder / name).write_text("#!/bin/sh\n" + "\n".join([*body, otherwise]) + "\n")
    (folder / name).chmod(0o755)


def run_probe(*options: str) -> dict[str, Any]:
    """The probe as the wrapper starts it."""
    done = subprocess.run([sys.executable, str(PROBE), *options], capture_output=True, check=True, timeout=60)
    return dict(json.loads(done.stdout))


@pytest.mark.requirement("R069", "R073", "R077")
def test_a_machine_with_nvidia_devices(tools: Path, tmp_path: Path) -> None:
    """Devices with uuid, driver and bus, links between them, and nothing where the tool says N/A."""
    tool(tools, "nvidia-smi", {"--query-gpu": NVIDIA_CSV, "topo -m": NVIDIA_TOPO})
    found = run_probe("--folder", str(tmp_path))

    first, second = found["accelerators"]
    assert ("nvidia", "NVIDIA H100 80GB HBM3", "550.54.15", "81559") == (
        first["vendor"], first["name"], first["driver"], first["memory_mib"],
    )  # fmt: skip
    assert ("00000000:2A:00.0", None) == (second["bus"], second["memory_mib"])
    assert {"GPU1": "NV18", "NIC0": "PIX", "NIC1": "SYS", "cpus": "0-47,96-143", "numa": "0"} == (
        found["topology"]["links"]["GPU0"]
    )
    assert {"GPU0": "SYS", "GPU1": "PIX", "NIC0": "SYS"} == found["topology"]["links"]["NIC1"]
    assert "550.54.15" == found["stack"]["driver"]


@pytest.mark.requirement("R069", "R073", "R077")
def test_a_machine_with_ascend_devices(tools: Path, tmp_path: Path) -> None:
    """Chips that compute (their controllers do not), with driver, bus, memory, and links."""
    tool(tools, "npu-smi", {"info -m": NPU_MAP, "info -t topo": NPU_TOPO, "info": NPU_INFO})
    found = run_probe("--folder", str(tmp_path))

    keys = ("vendor", "index", "uuid", "name", "driver", "bus", "memory_mib")
    assert [
        ("ascend", "0", "0/0", "Ascend 910B3", "24.1.rc2", "0000:C1:00.0", "65536"),
        ("ascend", "1", "1/0", "Ascend 910B3", "24.1.rc2", "0000:01:00.0", "65536"),
    ] == [tuple(device[key] for key in keys) for device in found["accelerators"]]
    assert {"NPU1": "HCCS", "cpus": "144-167"} == found["topology"]["links"]["NPU0"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", {}, id="nothing"),
        pytest.param("Failed to initialize NVML: Driver/library version mismatch\n", {}, id="an error"),
        pytest.param("\tGPU0\nGPU0\t X \n", {"GPU0": {}}, id="one device"),
        pytest.param("GPU0\tGPU1\n\x00\xff\n\t\t\n", {}, id="garbage"),
    ],
)
def test_a_table_of_links(text: str, expected: dict[str, Any]) -> None:
    """A table that is short, absent or something else."""
    assert expected == probe.links(text)


def test_a_tool_that_fails_leaves_its_answer_unrecorded(tools: Path, tmp_path: Path) -> None:
    """A driver that is broken is not a machine without accelerators."""
    tool(tools, "nvidia-smi", {})
    found = run_probe("--folder", str(tmp_path))

    assert found["accelerators"] is None
    assert found["topology"]["links"] is None
    assert found["cpu"]["count"]


def test_the_probe_says_what_it_knows_when_nobody_waits(tools: Path, tmp_path: Path) -> None:
    """SIGTERM ends the waiting for a tool that hangs; the other answers are printed, and it leaves with 0."""
    tool(tools, "nvidia-smi", {}, otherwise="sleep 30")
    process = subprocess.Popen(
        [sys.executable, str(PROBE), "--folder", str(tmp_path)], stdout=subprocess.PIPE
    )
    time.sleep(1.5)  # its answers need some milliseconds; one never comes
    begin = time.monotonic()
    process.terminate()
    out, _ = process.communicate(timeout=20)

    assert time.monotonic() - begin < 2
    found = json.loads(out)
    assert (0, None) == (process.returncode, found["accelerators"])
    assert found["packages"]


@pytest.mark.parametrize(("kind", "version"), [("closed", "550.54.15"), ("open", "560.35.03")])
def test_the_nvidia_driver_from_the_kernel(tmp_path: Path, kind: str, version: str) -> None:
    """Both flavours of the module write their version."""
    root = put(tmp_path, proc__driver__nvidia__version=NVIDIA_MODULE[kind])

    assert version == probe.driver_version(root)


def test_the_ascend_stack_from_its_files(tmp_path: Path) -> None:
    """Driver and toolkit say their versions in files of their own."""
    root = put(
        tmp_path,
        usr__local__Ascend__driver__version_DOT_info="Version=24.1.rc2\nascendhal_version=7.35.23\n",
        usr__local__Ascend__x="",
    )
    folder = tmp_path / "usr/local/Ascend/ascend-toolkit/latest/aarch64-linux"
    folder.mkdir(parents=True)
    (folder / "ascend_toolkit_install.info").write_text("package_name=Ascend-cann-toolkit\nversion=8.0.RC2\n")
    found = probe.stack({}, root)

    assert ("24.1.rc2", "8.0.RC2", "8.0.RC2") == (found["driver"], found["cann"], found["hccl"])
    assert (None, None) == (found["cuda"], found["nccl"])


def test_the_cuda_stack_from_packages_and_files(tmp_path: Path) -> None:
    """Packages of the interpreter come first, then files of the system."""
    root = put(
        tmp_path, usr__local__cuda__version_DOT_json='{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}'
    )
    library = tmp_path / "usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5"
    library.parent.mkdir(parents=True)
    library.touch()
    (library.parent / "libnccl.so.2").symlink_to(library)
    bare = probe.stack({}, root)
    found = probe.stack(
        {"nvidia-nccl-cu12": "2.20.5", "nvidia-cudnn-cu12": "9.1.0.70", "nvidia-cublas": "13.0"}, root
    )

    assert ("12.4.1", "2.21.5", None) == (bare["cuda"], bare["nccl"], bare["cudnn"])
    assert ("2.20.5", "9.1.0.70", "13.0") == (found["nccl"], found["cudnn"], found["cublas"])


@pytest.mark.requirement("R069")
@pytest.mark.parametrize(
    ("path", "content", "version"),
    [
        pytest.param("lib/libnccl.so.2.21.5", b"", "2.21.5", id="in the file's name"),
        pytest.param("lib/libc-2.31.so", b"", "2.31", id="before the suffix"),
        pytest.param("lib/libnccl.so.2", b"\0NCCL version 2.19.3+cuda12.2\0", "2.19.3+cuda12.2", id="NCCL's constant"),
        pytest.param("lib/libmpi.so.40", b"xx\0Open MPI v4.1.4, package\0", "4.1.4", id="MPI's constant"),
        pytest.param(
            "lib/libc.so.6", b"GNU C Library (GLIBC 2.36-9) stable release version 2.36.", "2.36", id="libc"
        ),
        pytest.param("site-packages/nvidia/nccl/lib/libnccl.so.2", b"", "2.27.5", id="from its package"),
        pytest.param("ascend-toolkit/8.0.RC2/lib64/libhccl.so", b"", "8.0.RC2", id="from its toolkit"),
        pytest.param("lib/libcublas.so.12", b"nothing", None, id="not to be told"),
    ],
)  # fmt: skip
def test_the_version_of_a_library(tmp_path: Path, path: str, content: bytes, version: str | None) -> None:
    """From name, package, toolkit or constants; the library is never loaded."""
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    (tmp_path / "site-packages/nvidia_nccl_cu12-2.27.5.dist-info").mkdir(parents=True)

    assert version == probe.library_version(str(file))


def test_a_library_that_is_gone_has_no_version(tmp_path: Path) -> None:
    """A deleted file or a pipe is nothing to wait for."""
    assert probe.library_version(str(tmp_path / "libnccl.so.2")) is None


@pytest.mark.requirement("R073")
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            {
                "proc__self__cgroup": "0::/kubepods/pod1\n",
                "sys__fs__cgroup__kubepods__pod1__cpu_DOT_max": "250000 100000\n",
                "sys__fs__cgroup__kubepods__pod1__memory_DOT_max": "max\n",
                "sys__fs__cgroup__kubepods__memory_DOT_max": "1024",
            }, (2.5, 1024), id="version 2, the narrower of two",
        ),
        pytest.param({"proc__self__cgroup": "0::/\n", "sys__fs__cgroup__cpu_DOT_max": "max 100000\n"},
                     ("unlimited", "unlimited"), id="version 2, no limit"),
        pytest.param(
            {
                "proc__self__cgroup": "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n",
                "sys__fs__cgroup__cpu__cpu_DOT_cfs_quota_us": "400000",
                "sys__fs__cgroup__cpu__cpu_DOT_cfs_period_us": "100000",
                "sys__fs__cgroup__memory__memory_DOT_limit_in_bytes": "8589934592",
            }, (4.0, 8589934592), id="version 1, seen from inside",
        ),
        pytest.param({"proc__self__cgroup": "4:memory:/\n", "sys__fs__cgroup__memory__memory_DOT_limit_in_bytes":
                      "9223372036854771712"}, ("unlimited", "unlimited"), id="version 1, no limit"),
        pytest.param({}, (None, None), id="not to be told"),
    ],
)  # fmt: skip
def test_the_limits_of_a_control_group(
    tmp_path: Path, files: dict[str, str], expected: tuple[Any, Any]
) -> None:
    """What a container was given; no limit is not the same as unrecorded."""
    found = probe.limits(put(tmp_path, **files))

    assert expected == (found["cpus"], found["memory_bytes"])


@pytest.mark.requirement("R077")
def test_the_topology_of_a_machine(tmp_path: Path) -> None:
    """NUMA nodes, ports of the fabric, interfaces with speed; loopback and addresses stay out."""
    root = put(
        tmp_path,
        sys__devices__system__node__node0__cpulist="0-47\n",
        sys__devices__system__node__node0__meminfo="Node 0 MemTotal:       1056 kB\n",
        sys__devices__system__node__node10__cpulist="48-95\n",
        sys__class__infiniband__mlx5_0__ports__1__link_layer="InfiniBand\n",
        sys__class__infiniband__mlx5_0__ports__1__state="4: ACTIVE\n",
        sys__class__infiniband__mlx5_0__ports__1__rate="400 Gb/sec (4X NDR)\n",
        sys__class__infiniband__mlx5_0__fw_ver="28.39.1002\n",
        sys__class__net__eth0__speed="25000\n",
        sys__class__net__eth0__mtu="9000\n",
        sys__class__net__eth0__operstate="up\n",
        sys__class__net__eth0__address="02:42:ac:11:00:02\n",
        sys__class__net__eth1__speed="-1\n",
        sys__class__net__lo__mtu="65536\n",
    )
    found = probe.topology(root)

    assert [("node0", "0-47", 1081344), ("node10", "48-95", None)] == [
        (node["name"], node["cpus"], node["memory_bytes"]) for node in found["numa"]
    ]
    assert [
        {
            "name": "mlx5_0/1", "link": "InfiniBand", "state": "ACTIVE", "rate": "400 Gb/sec (4X NDR)",
            "firmware": "28.39.1002",
        }
    ] == found["infiniband"]  # fmt: skip
    assert [("eth0", 25000, 9000), ("eth1", None, None)] == [
        (net["name"], net["speed_mbps"], net["mtu"]) for net in found["network"]
    ]
    assert "02:42" not in json.dumps(found)


@pytest.mark.parametrize(
    ("cgroup", "mounts"),
    [
        pytest.param("0::/system.slice/docker-{id}.scope", "", id="docker"),
        pytest.param("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope", "", id="containerd"),
        pytest.param("12:cpu:/kubepods/besteffort/pod-1/{id}", "", id="kubelet, version 1"),
        pytest.param(
            "0::/", "612 600 /var/lib/docker/containers/{id}/hostname /etc/hostname rw", id="by a mount"
        ),
    ],
)
def test_image_and_container(tmp_path: Path, cgroup: str, mounts: str) -> None:
    """The image's system, and the container's id however the machine writes it."""
    number = "ab" * 32
    root = put(
        tmp_path,
        **{"etc__os-release": 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nID=ubuntu\n'},
        proc__self__cgroup=cgroup.format(id=number),
        proc__self__mountinfo=mounts.format(id=number),
    )

    assert {"os": "Ubuntu 22.04.4 LTS", "id": number} == probe.container(root)


def test_packages_are_those_that_python_itself_finds() -> None:
    """Names and versions from the names of folders are what importlib.metadata reads from the files."""
    expected: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", str(distribution.metadata["Name"])).lower()
        expected.setdefault(name, distribution.version)
    found = run_probe()["packages"]

    assert expected == found


def test_packages_with_odd_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Local versions, old formats, and what shadows another."""
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    (tmp_path / "first/torch-2.4.0+cu124.dist-info").mkdir()
    (tmp_path / "second/torch-1.0.dist-info").mkdir()
    (tmp_path / "first/Flash_Attn-2.6.3.dist-info").mkdir()
    old = tmp_path / "first/legacy-0.1-py3.8.egg-info"
    old.write_text("Metadata-Version: 1.0\nName: legacy\nVersion: 0.1\n")
    (tmp_path / "first/broken.dist-info").mkdir()
    monkeypatch.setattr(
        sys, "path", [str(tmp_path / "first"), str(tmp_path / "second"), "/no/such", __file__]
    )

    assert {"flash-attn": "2.6.3", "legacy": "0.1", "torch": "2.4.0+cu124"} == probe.packages()


@pytest.mark.requirement("R067", "R072")
def test_an_edit_of_the_code_has_a_digest(tmp_path: Path) -> None:
    """Two edits differ, the same edit is the same; without an edit there is none."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t"]
    (tmp_path / "train.py").write_text("a")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    digests = []
    for text in ("a", "b", "c", "b"):
        (tmp_path / "train.py").write_text(text)
        digests.append((probe.git_facts(str(tmp_path)) or {})["diff_digest"])

    assert digests[0] is None
    assert digests[1] == digests[3] != digests[2]
    assert digests[1].startswith("sha256:")


@pytest.mark.parametrize("path", CARRIED, ids=lambda path: path.name)
def test_what_is_carried_runs_on_old_pythons(path: Path) -> None:
    """Syntax of Python 3.8, and nothing but the standard library is imported."""
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert names <= set(sys.stdlib_module_names)
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
