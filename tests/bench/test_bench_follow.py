"""One triggerer follows 500 running jobs: a handful of connections, and next to no requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.fakes.cluster import FakeCluster
from tests.support.follow_many import NAMESPACE, name_of

from pretrain_archive.compute.kubernetes.names import ATTEMPT_LABEL, RUN_LABEL

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

JOBS = 500
STEADY_SECONDS = 12.0
CHANGES = 200
"""Changes of pods in the steady time, shared out over the jobs."""

MOST_CONNECTIONS = 8
REQUESTS_TIMES = 20
"""How many times as many requests the peer must make."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one way of following took."""

    noticed: int
    last_seconds: float
    connections: int
    requests_per_minute: float
    cpu_share: float
    peak_mib: float


def populate(cluster: FakeCluster) -> None:
    """Jobs with a running pod each."""
    for number in range(JOBS):
        labels = {RUN_LABEL: f"run{number:04d}", ATTEMPT_LABEL: "1"}
        containers = [{"name": "main", "image": "trainer", "command": ["true"]}]
        template = {
            "metadata": {"labels": labels},
            "spec": {"restartPolicy": "Never", "containers": containers},
        }
        job = {"metadata": {"name": name_of(number), "labels": labels}, "spec": {"template": template}}
        pod = {
            "metadata": {"name": f"{name_of(number)}-x", "labels": labels},
            "spec": {"containers": containers},
        }
        cluster.create("jobs", {"apiVersion": "batch/v1", "kind": "Job", **job}, NAMESPACE)
        cluster.create("pods", {"apiVersion": "v1", "kind": "Pod", **pod}, NAMESPACE)
        cluster.patch("jobs", name_of(number), {"status": {"active": 1, "ready": 1}}, NAMESPACE)
        run(cluster, number, restarts=0)


def run(cluster: FakeCluster, number: int, *, restarts: int) -> None:
    """A pod of a job runs, or shows that it changed."""
    status = {
        "phase": "Running",
        "containerStatuses": [
            {"name": "main", "restartCount": restarts, "ready": True, "state": {"running": {}}}
        ],
    }
    patch = {"status": status, "spec": {"nodeName": f"node-{number % 2}"}}
    cluster.patch("pods", f"{name_of(number)}-x", patch, NAMESPACE)


def measure(cluster: FakeCluster, mode: str, folder: Path) -> Found:
    """Follow all jobs in a process of its own: a steady time, then the end of all."""
    config = {"kube_config_path": str(cluster.kubeconfig(folder / "kubeconfig"))}
    environment = os.environ | {
        "AIRFLOW_CONN_MANY": json.dumps({"conn_type": "kubernetes", "extra": config}),
        "AIRFLOW_HOME": str(folder / "airflow"), "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.follow_many", mode, str(JOBS)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    )  # fmt: skip
    try:
        while (line := _line(process)) != "ready":
            assert process.poll() is None, line
        before, asked, begin = _ask(process), len(cluster.requests), time.monotonic()
        for change in range(CHANGES):
            run(cluster, change * 7 % JOBS, restarts=1 + change // JOBS)
            time.sleep(STEADY_SECONDS / CHANGES)
        seconds = time.monotonic() - begin
        after, requests = _ask(process), len(cluster.requests) - asked
        connections = len(
            [c for c in psutil.Process(process.pid).net_connections() if c.status == "ESTABLISHED"]
        )
        noticed, last = _end_all(cluster, process)
        peak = _ask(process)["peak"]
    finally:
        process.kill()
        process.wait(10)
    return Found(
        noticed=noticed, last_seconds=last, connections=connections, requests_per_minute=requests / seconds * 60,
        cpu_share=(after["cpu"] - before["cpu"]) / seconds, peak_mib=peak / 2**20,
    )  # fmt: skip


def _end_all(cluster: FakeCluster, process: subprocess.Popen[str]) -> tuple[int, float]:
    """End every job; how many ends were noticed, and how long after the last one all were."""
    for number in range(JOBS):
        condition = {"type": "Complete", "status": "True", "reason": "CompletionsReached"}
        cluster.patch(
            "jobs", name_of(number), {"status": {"conditions": [condition], "active": 0}}, NAMESPACE
        )
    begin = time.monotonic()
    while (noticed := int(_ask(process)["ended"])) < JOBS and time.monotonic() - begin < 60:
        time.sleep(0.1)
    return noticed, time.monotonic() - begin


def _ask(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return dict(json.loads(_line(process)))


def _line(process: subprocess.Popen[str]) -> str:
    """The next line of the protocol; what a library prints is passed over."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready" or line.startswith("{"):
            return line.strip()
    raise AssertionError("the process ended")


@pytest.mark.requirement("R024")
def test_one_triggerer_follows_500_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All ends are noticed over a fixed number of connections, with a fraction of the requests of one poll per job."""
    found: dict[str, Found] = {}
    for mode in ("shared", "poll"):
        folder = tmp_path / mode
        folder.mkdir()
        with FakeCluster(kubelet="hand", controllers=False) as cluster:
            populate(cluster)
            found[mode] = measure(cluster, mode, folder)
    rows = [
        f"{'':20}{'noticed':>9}{'last after':>12}{'connections':>13}{'requests/min':>14}{'CPU':>8}{'peak':>11}"
    ]
    for mode, title in (("shared", "one watch for all"), ("poll", "one poll per job")):
        f = found[mode]
        rows.append(
            f"{title:20}{f.noticed:>9}{f.last_seconds:>10.1f} s{f.connections:>13}"
            f"{f.requests_per_minute:>14.1f}{f.cpu_share:>8.1%}{f.peak_mib:>7.0f} MiB"
        )
    with capsys.disabled():
        sys.stdout.write(f"\n{JOBS} running jobs, followed by one process\n" + "\n".join(rows) + "\n")
    shared, peer = found["shared"], found["poll"]
    assert shared.noticed == JOBS
    assert shared.connections <= MOST_CONNECTIONS
    assert shared.requests_per_minute * REQUESTS_TIMES <= peer.requests_per_minute
    assert shared.cpu_share <= peer.cpu_share
    assert shared.peak_mib <= 1.5 * peer.peak_mib
