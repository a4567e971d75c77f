# ruff: noqa: UP006, UP031, UP035, UP045, B905, RUF005 (old images carry old Pythons)
# ruff: noqa: PTH100, PTH109, PTH112, PTH118, PTH119, PTH120, PTH123, PTH207, PTH208 (one light file: os.path)
"""Print what a worker is: one JSON document about its software, devices, topology, limits and code.

One file, standard library only, Python 3.8 or newer, carried beside the wrapper and run by the program's own
interpreter. Every question has its own time limit; what cannot be found in time, or at all, is None: unrecorded.
Nothing is loaded into this process to ask it for its version: a library's version comes from its file.

Never printed: a variable that is not on the list, an address of a network interface, a serial number.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import hashlib
import json
import mmap
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

STEP_SECONDS = 8.0  # what a question may take: nvidia-smi without persistence mode needs a few seconds
MOST_DIFF = 64 << 20
MOST_SCANNED = 512 << 20
UNLIMITED = "unlimited"
Facts = Dict[str, Any]


def run_text(argv: List[str], seconds: float = STEP_SECONDS) -> Optional[str]:
    """Standard output of a small command, or None if it is missing, fails or is too slow."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds,
            check=False, env=dict(os.environ, GIT_OPTIONAL_LOCKS="0", LC_ALL="C"),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def read(path: str, limit: int = 200_000) -> Optional[str]:
    """The begin of a small file, without the blanks around it; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return None


def number(text: Optional[str]) -> Optional[int]:
    """A whole number, None for anything else."""
    return int(text) if text is not None and re.match(r"-?\d{1,18}$", text) else None


# -- software ------------------------------------------------------------------------------------------


def packages() -> Dict[str, str]:
    """Installed distributions of this interpreter: normalised name → version.

    Names and versions stand in the names of the metadata folders (PEP 376, PEP 427); only where they do not are
    the files opened: an environment on a network file system has hundreds.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    found: Dict[str, str] = {}
    for folder in [entry for entry in sys.path if os.path.abspath(entry or ".") != here]:
        try:
            names = sorted(os.listdir(folder or "."))
        except OSError:  # a zip file, or not there
            continue
        for name in names:
            match = re.match(r"([^-]+)-([^-]+)\.dist-info$", name)
            told = (match[1], match[2]) if match else None
            if not told and name.endswith((".dist-info", ".egg-info")):
                told = _metadata(os.path.join(folder or ".", name))
            if told:  # the first on the path is the one that is imported
                found.setdefault(re.sub(r"[-_.]+", "-", told[0]).lower(), told[1])
    return dict(sorted(found.items()))


def _metadata(path: str) -> Optional[Tuple[str, str]]:
    """Name and version of a distribution whose folder does not say them."""
    for name in ("METADATA", "PKG-INFO", ""):
        text = read(os.path.join(path, name) if name else path, 20_000)
        named = re.search(r"^Name:\s*(\S+)", text or "", re.MULTILINE)
        version = re.search(r"^Version:\s*(\S+)", text or "", re.MULTILINE)
        if named and version:
            return named[1], version[1]
    return None


def stack(installed: Dict[str, str], root: str = "/") -> Facts:
    """Versions of driver, CUDA, cuDNN, cuBLAS, NCCL, or CANN and HCCL, from files alone."""

    def package(*names: str) -> Optional[str]:
        pattern = re.compile(r"(?:%s)(?:-cu\d+)?$" % "|".join(names))
        return next((version for name, version in installed.items() if pattern.match(name)), None)

    cuda = re.search(
        r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([\d.]+)"', read(root + "usr/local/cuda/version.json") or ""
    )
    torch = next((t for t in (read(os.path.join(p, "torch/version.py")) for p in sys.path) if t), "")
    torch_cuda = re.search(r"^cuda(?::[^=]*)?\s*=\s*['\"]([\d.]+)", torch, re.MULTILINE)
    hip = re.search(r"^hip(?::[^=]*)?\s*=\s*['\"]([\d.]+)", torch, re.MULTILINE)
    cann = cann_version(root)
    return {
        "driver": driver_version(root),
        "cuda": package("nvidia-cuda-runtime") or (cuda[1] if cuda else None),
        "torch_cuda": torch_cuda[1] if torch_cuda else None,
        "cudnn": package("nvidia-cudnn") or _system_library("libcudnn.so*", root),
        "cublas": package("nvidia-cublas") or _system_library("libcublas.so*", root),
        "nccl": package("nvidia-nccl") or _system_library("libnccl.so*", root),
        "rocm": hip[1] if hip else read(root + "opt/rocm/.info/version", 100),
        "cann": cann,
        "hccl": cann,  # HCCL is a part of CANN and has its version
    }


def driver_version(root: str = "/") -> Optional[str]:
    """The kernel driver of the accelerators as its own files name it."""
    text = read(root + "proc/driver/nvidia/version", 2000) or ""
    match = re.search(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s", text)
    if match:
        return match[1]
    ascend = re.search(
        r"^Version\s*=\s*(\S+)", read(root + "usr/local/Ascend/driver/version.info") or "", re.MULTILINE
    )
    return ascend[1] if ascend else read(root + "sys/module/amdgpu/version", 100)


def cann_version(root: str = "/") -> Optional[str]:
    """The version of the Ascend toolkit that is in use."""
    base = root + "usr/local/Ascend/ascend-toolkit/latest/"
    for path in (base + "version.cfg", *sorted(glob.glob(base + "*/ascend_toolkit_install.info"))):
        text = read(path) or ""
        match = re.search(r"^(?:toolkit_installed_version|version)\s*=\s*\[?([^\s\]:]+)", text, re.MULTILINE)
        if match:
            return match[1]
    return None


def _system_library(pattern: str, root: str) -> Optional[str]:
    """The version in the name of a library of the system, None if there is none."""
    for folder in ("usr/lib/*-linux-gnu", "usr/lib64", "usr/local/cuda/lib64"):
        for path in sorted(glob.glob(os.path.join(root, folder, pattern))):
            match = re.search(r"\.so\.(\d+\.\d[\d.]*)$", os.path.realpath(path))
            if match:
                return match[1]
    return None


STRINGS = {
    "libnccl": rb"NCCL version (\d+\.\d+\.\d+[^\s\0]{0,20})",
    "librccl": rb"RCCL version (\d+\.\d+\.\d+[^\s\0]{0,20})",
    "libc": rb"GNU C Library [^\n\0]{0,80} version (\d+\.\d+)",
    "libmpi": rb"Open MPI v(\d+\.\d+\.\d+)",
}
"""What a library says of itself in its constants: its file's name often has the first number only."""


def library_version(path: str) -> Optional[str]:
    """The version of a shared library from its file's name, the package it is from, or its constants."""
    real = os.path.realpath(path)
    base = os.path.basename(real)
    named = re.search(r"\.so\.(\d+\.\d[\d.]*)$", base) or re.match(r".+-(\d+\.\d[\d.]*)\.so$", base)
    if named:
        return named[1]
    owner = re.match(r"(.+/(?:site|dist)-packages)/nvidia/([^/]+)/", real)
    for info in glob.glob("%s/nvidia_%s_*.dist-info" % (owner[1], owner[2])) if owner else ():
        return os.path.basename(info)[: -len(".dist-info")].partition("-")[2]
    toolkit = re.search(r"/ascend-toolkit/(\d[^/]+)/", real)
    if toolkit:
        return toolkit[1]
    pattern = STRINGS.get(re.split(r"[.-]", base)[0])
    return scan(real, pattern) if pattern else None


def scan(path: str, pattern: bytes) -> Optional[str]:
    """The first match of ``pattern`` in a file."""
    try:
        with open(path, "rb") as file:
            size = min(os.fstat(file.fileno()).st_size, MOST_SCANNED)
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as block:
                match = re.search(pattern, block)
                return match[1].decode("ascii", "replace") if match else None
    except (OSError, ValueError):
        return None


# -- devices -------------------------------------------------------------------------------------------


def nvidia_devices() -> Optional[List[Facts]]:
    """Accelerators that nvidia-smi names; None if it fails: a broken driver is not a machine without any."""
    keys = ("index", "uuid", "name", "driver", "memory_mib", "bus")
    query = "--query-gpu=index,uuid,name,driver_version,memory.total,pci.bus_id"
    text = run_text(["nvidia-smi", query, "--format=csv,noheader,nounits"])
    if text is None:
        return None
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if 5 <= len(cells) <= 6:
            known = {
                k: (v if v not in {"[N/A]", "N/A", "[Not Supported]"} else None) for k, v in zip(keys, cells)
            }
            found.append(dict(known, vendor="nvidia"))
    return found


def npu_devices() -> Optional[List[Facts]]:
    """Accelerators that npu-smi names: the mapping of chips, with what the table of ``npu-smi info`` adds."""
    text = run_text(["npu-smi", "info", "-m"])
    if text is None:
        return None
    table = npu_table(run_text(["npu-smi", "info"]) or "")
    found = []
    for line in text.splitlines():
        match = re.match(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S.*?)\s*$", line)
        if match:
            device = {
                "vendor": "ascend",
                "index": match[3],
                "uuid": match[1] + "/" + match[2],
                "name": match[4],
            }
            found.append(dict(device, **table.get((match[1], match[2]), {})))
    return found


def npu_table(text: str) -> Dict[Tuple[str, str], Facts]:
    """Driver, bus id and memory by NPU and chip, from the two lines a chip that ``npu-smi info`` prints."""
    version = re.search(r"Version:\s*(\S+)", text)
    found: Dict[Tuple[str, str], Facts] = {}
    npu = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3:
            continue
        bus = re.match(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d$", cells[1])
        first = re.match(r"(\d+)\b", cells[0])
        if first and bus:
            sizes = re.findall(r"/\s*(\d+)", cells[2])
            found[npu, first[1]] = {
                "driver": version[1] if version else None, "bus": cells[1], "memory_mib": sizes[-1] if sizes else None,
            }  # fmt: skip
        elif first:
            npu = first[1]
    return found


def links(text: str) -> Dict[str, Dict[str, str]]:
    """How devices reach each other, from the table of ``nvidia-smi topo -m`` or ``npu-smi info -t topo``.

    Device → {other device: link, ``cpus``: CPU affinity, ``numa``: NUMA node}.
    """
    rows = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in text.splitlines()]
    head: List[str] = []
    found: Dict[str, Dict[str, str]] = {}
    names = {"CPU Affinity": "cpus", "NUMA Affinity": "numa"}
    for row in rows:
        cells = [cell.strip() for cell in re.split(r"\t|\s{2,}", row)]
        devices = [cell for cell in cells if re.match(r"(?:GPU|NPU|NIC|mlx\w+_)\d+$", cell)]
        if not head and devices and cells[0] == "":
            head = [cell for cell in cells[1:] if cell]
        elif head and devices and cells[0] == devices[0]:
            values = [cell for cell in cells[1:] if cell]
            pairs = {names.get(name, name): value for name, value in zip(head, values)}
            pairs.pop(cells[0], None)
            found[cells[0]] = {k: v for k, v in pairs.items() if k in names.values() or re.search(r"\d$", k)}
        elif head and not row.strip() and found:
            break
    return found


def topology(root: str = "/") -> Facts:
    """NUMA nodes, InfiniBand or RoCE ports, and network interfaces (no addresses); device links are added later."""
    nodes = []
    for path in sorted(glob.glob(root + "sys/devices/system/node/node[0-9]*"), key=_natural):
        total = re.search(r"MemTotal:\s*(\d+) kB", read(path + "/meminfo") or "")
        name = os.path.basename(path)
        memory = int(total[1]) * 1024 if total else None
        nodes.append({"name": name, "cpus": read(path + "/cpulist"), "memory_bytes": memory})
    ports = []
    for path in sorted(glob.glob(root + "sys/class/infiniband/*/ports/*"), key=_natural):
        device = os.path.dirname(os.path.dirname(path))
        ports.append({
            "name": "%s/%s" % (os.path.basename(device), os.path.basename(path)),
            "link": read(path + "/link_layer"),
            "state": (read(path + "/state") or "").partition(": ")[2] or None,
            "rate": read(path + "/rate"),
            "firmware": read(device + "/fw_ver"),
        })  # fmt: skip
    interfaces = []
    for path in sorted(glob.glob(root + "sys/class/net/*"), key=_natural):
        if os.path.basename(path) != "lo" and os.path.isdir(path):
            speed = number(read(path + "/speed"))
            interfaces.append({
                "name": os.path.basename(path), "state": read(path + "/operstate"), "mtu": number(read(path + "/mtu")),
                "speed_mbps": speed if speed is not None and speed >= 0 else None,
            })  # fmt: skip
    return {"numa": nodes or None, "infiniband": ports, "network": interfaces, "links": None}


def _natural(text: str) -> List[Any]:
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d+)", text)]


# -- machine -------------------------------------------------------------------------------------------


def cpu_model() -> Optional[str]:
    """The CPU's name as the kernel gives it."""
    text = read("/proc/cpuinfo")
    if text is None:
        named = (run_text(["sysctl", "-n", "machdep.cpu.brand_string"]) or "").strip()
        return named or platform.processor() or None
    match = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def limits(root: str = "/") -> Facts:
    """CPUs and memory that the control group allows: a number, ``unlimited``, or None where it cannot be told.

    https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max, memory.max) and the files of version 1.
    """
    text = read(root + "proc/self/cgroup")
    if text is None:
        return {"cpus": None, "memory_bytes": None}
    paths = {}
    for line in text.splitlines():
        _, names, path = (line.split(":", 2) + ["", ""])[:3]
        paths.update(dict.fromkeys(names.split(","), path))  # version 2 has no names: ""
    cpus: List[float] = []
    memory: List[int] = []
    seen = False
    for kind, base in (("", ""), ("cpu", "cpu"), ("memory", "memory")):
        for folder in _upwards(root + "sys/fs/cgroup/" + base, paths.get(kind)):
            quota, period = (
                number(read(folder + "/cpu.cfs_quota_us")),
                number(read(folder + "/cpu.cfs_period_us")),
            )
            words = (read(folder + "/cpu.max") or "").split()
            if len(words) == 2:
                quota, period = number(words[0]), number(words[1])
            if quota and period and quota > 0:
                cpus.append(quota / period)
            size = number(read(folder + "/memory.max")) or number(read(folder + "/memory.limit_in_bytes"))
            if size and size < 1 << 60:  # version 1 writes a number near 2^63 for no limit
                memory.append(size)
            seen = seen or os.path.isdir(folder)
    free = UNLIMITED if seen else None
    return {"cpus": min(cpus) if cpus else free, "memory_bytes": min(memory) if memory else free}


def _upwards(base: str, path: Optional[str]) -> List[str]:
    """A control group and those above it; in a container the path is often not there, but the top is."""
    if path is None:
        return []
    pieces = [piece for piece in path.split("/") if piece and piece != ".."]
    return [os.path.join(base, *pieces[:count]) for count in range(len(pieces), -1, -1)]


def container(root: str = "/") -> Facts:
    """The image's operating system, and the container's id if it can be told."""
    told = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', read(root + "etc/os-release") or "", re.MULTILINE))
    places = "%s\n%s" % (read(root + "proc/self/cgroup") or "", read(root + "proc/self/mountinfo") or "")
    match = re.search(
        r"(?:/containers/|/docker[-/]|cri-containerd-|crio-|libpod-|/kubepods\S*/)([0-9a-f]{64})", places
    )
    return {"os": told.get("PRETTY_NAME") or told.get("ID"), "id": match[1] if match else None}


def git_facts(folder: str) -> Optional[Facts]:
    """Commit, whether tracked files differ from it, digest of the folder's difference; None without git."""
    git = ["git", "-c", "core.fsmonitor=false", "-C", folder]
    commit = run_text([*git, "rev-parse", "HEAD"])
    if not commit:
        return None
    changed = run_text([*git, "status", "--porcelain", "--untracked-files=no"])
    dirty = None if changed is None else bool(changed.strip())
    digest = (
        _diff_digest([*git, "diff", "--binary", "--no-color", "--no-ext-diff", "HEAD", "--", "."])
        if dirty
        else None
    )
    return {"commit": commit.strip(), "dirty": dirty, "diff_digest": digest}


def _diff_digest(argv: List[str]) -> Optional[str]:
    """SHA-256 of what a command prints; None if it fails or prints without end."""
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    timer = threading.Timer(STEP_SECONDS, process.kill)
    timer.start()
    digest, size = hashlib.sha256(), 0
    with process:
        assert process.stdout is not None
        for block in iter(lambda: process.stdout.read(1 << 20), b""):  # type: ignore[union-attr]
            digest.update(block)
            size += len(block)
            if size > MOST_DIFF:
                process.kill()
    timer.cancel()
    return "sha256:" + digest.hexdigest() if process.returncode == 0 else None


def masked(value: str) -> str:
    """A variable's value without the password of a URL in it."""
    return re.sub(r"://[^/@\s]+@", "://***@", value)


def machine(allowed: List[str]) -> Facts:
    """What costs nothing to ask: platform, CPU, memory, limits, image, allow-listed variables."""
    try:
        memory: Optional[int] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory = None
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "platform": {
            "system": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "libc": " ".join(platform.libc_ver()).strip() or None,
        },
        "node": platform.node(),
        "cpu": {"model": cpu_model(), "count": os.cpu_count(), "usable": usable},
        "memory_bytes": memory,
        "limits": limits(),
        "container": container(),
        "image": os.environ.get("PRETRAIN_ARCHIVE_IMAGE") or None,
        "variables": {name: masked(os.environ[name]) for name in sorted(allowed) if name in os.environ},
    }


# -- all of it -----------------------------------------------------------------------------------------


class EnoughError(Exception):
    """Nobody waits any longer (SIGTERM): what is known by now is the answer."""


def enough(_number: int, _frame: Any) -> None:
    """The handler of SIGTERM."""
    raise EnoughError


def together(questions: Dict[str, Callable[[], Any]], seconds: float) -> Facts:
    """Ask all questions at once; one that fails or is not answered in ``seconds`` is None."""
    answers: Facts = dict.fromkeys(questions)

    def ask(name: str) -> None:
        with contextlib.suppress(Exception):  # whatever it is: it costs one answer, never the job
            answers[name] = questions[name]()

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in questions]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    with contextlib.suppress(EnoughError):
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
    return dict(answers)


def tool(name: str, question: Callable[[], Any]) -> Callable[[], Any]:
    """A question to a tool of the machine; None at once where it is not installed."""
    return question if shutil.which(name) else lambda: None


def observe(
    folder: str,
    allowed: List[str],
    *,
    seconds: float,
    host_only: bool = False,
    libraries: Tuple[str, ...] = (),
) -> Facts:
    """The environment of this process; with ``host_only`` Python and packages stay unrecorded."""
    questions: Dict[str, Callable[[], Any]] = {
        "nvidia": tool("nvidia-smi", nvidia_devices),
        "npu": tool("npu-smi", npu_devices),
        "nvidia_links": tool("nvidia-smi", lambda: links(run_text(["nvidia-smi", "topo", "-m"]) or "")),
        "npu_links": tool("npu-smi", lambda: links(run_text(["npu-smi", "info", "-t", "topo"]) or "")),
        "git": tool("git", lambda: git_facts(folder)),
        "topology": topology,
        "machine": lambda: machine(allowed),
        "packages": packages,
        "libraries": lambda: {path: library_version(path) for path in libraries},
    }
    told = together(questions, seconds)
    installed = None if host_only else told["packages"]
    facts: Facts = {"python": None, "packages": installed}
    if not host_only:
        facts["python"] = {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
        }
    facts.update(told["machine"] or {})
    devices = [*(told["nvidia"] or ()), *(told["npu"] or ())]
    asked = told["nvidia"] is not None or told["npu"] is not None
    installed_tool = shutil.which("nvidia-smi") or shutil.which("npu-smi")
    facts["accelerators"] = devices if asked or not installed_tool else None
    facts["git"] = told["git"]
    facts["topology"] = told["topology"]
    if facts["topology"]:
        facts["topology"]["links"] = dict(told["nvidia_links"] or {}, **(told["npu_links"] or {})) or None
    facts["stack"] = stack(installed or {})
    if devices and not facts["stack"]["driver"]:
        facts["stack"]["driver"] = devices[0].get("driver")
    if libraries:
        facts["library_versions"] = {
            path: version for path, version in (told["libraries"] or {}).items() if version
        }
    return facts


def main(argv: List[str]) -> int:
    """Print the environment; see the module docstring."""
    split: Callable[[str], List[str]] = lambda text: [name for name in text.split(",") if name]  # noqa: E731
    parser = argparse.ArgumentParser(prog="probe.py", description="print what this worker is")
    parser.add_argument("--folder", default=os.getcwd(), help="folder of the program's code")
    parser.add_argument("--allow", type=split, default=[], help="variables to print, separated by commas")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="when to give up what is not known by then"
    )
    parser.add_argument(
        "--host", action="store_true", help="leave out Python and packages: this is another one"
    )
    parser.add_argument(
        "--library", action="append", default=[], help="a loaded library to tell the version of"
    )
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, enough)
    facts = observe(
        options.folder, options.allow, seconds=options.seconds, host_only=options.host,
        libraries=tuple(options.library[:64]),
    )  # fmt: skip
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.write(json.dumps(facts))
    sys.stdout.flush()
    os._exit(0)  # a question that hangs must not keep this process


if __name__ == "__main__":
    main(sys.argv[1:])
