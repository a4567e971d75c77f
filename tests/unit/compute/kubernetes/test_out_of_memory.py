"""A child that the kernel killed for want of memory is told, although the program itself ends with 1."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.compute.kubernetes.objects import at, pod, terminated

from pretrain_archive.compute.kubernetes.exits import member_of
from pretrain_archive.compute.spec import WRAPPER
from pretrain_archive.compute.wrapper import oom_kills

GROUPS = Path("/sys/fs/cgroup/memory")
LIMIT = 100_000_000
LAUNCHER = """
import subprocess, sys
code = subprocess.run([sys.executable, "-c", "x = b'a' * 400_000_000; print(len(x))"]).returncode
sys.exit(1 if code else 0)
"""


@pytest.mark.parametrize(
    ("groups", "file", "text", "expected"),
    [
        pytest.param("0::/\n", "memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n", 3, id="v2"),
        pytest.param("0::/kube/pod1\n", "kube/pod1/memory.events", "oom_kill 2\n", 2, id="v2, whole tree"),
        pytest.param(
            "9:name=systemd:/\n4:memory:/kube\n0::/\n",
            "memory/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
            1,
            id="v1",
        ),
        pytest.param("0::/\n", "memory.events", "low 0\n", None, id="no such count"),
        pytest.param("0::/\n", "memory.events", "oom_kill many\n", None, id="no number"),
        pytest.param("broken\n", "memory.events", "oom_kill 1\n", None, id="unreadable"),
        pytest.param("", "memory.events", "oom_kill 1\n", None, id="no groups"),
    ],
)
def test_where_the_kernel_counts(tmp_path: Path, groups: str, file: str, text: str, expected: int | None):
    """Both versions of cgroup are read; what is not said is unrecorded."""
    (tmp_path / "own").write_text(groups)
    target = tmp_path / "root" / file
    target.parent.mkdir(parents=True)
    target.write_text(text)

    assert expected == oom_kills(str(tmp_path / "own"), str(tmp_path / "root"))


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A memory group with little memory; skipped where none can be made."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.split(":", 2)[2] for line in lines if line.split(":")[1] == "memory"), None)
    group = GROUPS / (own or "/").lstrip("/") / f"pretrain-archive-{time.monotonic_ns()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory group can be made here: {error}")
    try:
        if not (group / "memory.limit_in_bytes").exists():
            pytest.skip("this machine's groups are of the other version")
        (group / "memory.limit_in_bytes").write_text(str(LIMIT))
        yield group
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


@pytest.mark.case("L03")
def test_a_child_out_of_memory(tmp_path: Path, small_group: Path):
    """The kernel kills the biggest process; its launcher ends with 1; the class is out of memory."""
    status = tmp_path / "status.jsonl"
    command = [sys.executable, str(WRAPPER), "--status", str(status), "--", sys.executable, "-c", LAUNCHER]
    inside = f'echo $$ > {small_group}/cgroup.procs && exec "$@"'
    done = subprocess.run(["sh", "-c", inside, "sh", *command], capture_output=True, timeout=120, check=False)
    ended = json.loads(status.read_text().splitlines()[-1])

    assert (1, 1) == (done.returncode, ended["exit_code"])
    assert 1 == ended["oom_kills"]
    failed = pod(phase="Failed", state=terminated(1))
    assert "oom" == member_of(failed, attempt=1, at=at(100), ended=ended).exit_class
    assert (
        "user_error" == member_of(failed, attempt=1, at=at(100), ended={**ended, "oom_kills": 0}).exit_class
    )
