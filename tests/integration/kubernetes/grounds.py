"""Where a test that plays the nodes itself runs: the fake cluster, or a real one without kubelets.

With ``PRETRAIN_ARCHIVE_TEST_KUBECONFIG`` set the same tests run against that cluster: API server, controller manager
and nothing else are needed. Every ground works in a namespace of its own and takes it away at the end.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from tests.fakes.cluster import FakeCluster

from pretrain_archive.compute.kubernetes.api import ClusterApi, KubernetesApi
from pretrain_archive.compute.kubernetes.api_open import open_kubeconfig

VARIABLE = "PRETRAIN_ARCHIVE_TEST_KUBECONFIG"
Object = dict[str, Any]
Condition = tuple[str, str, str, str]


class Playground(Protocol):
    """A cluster whose pods the test plays."""

    namespace: str
    api: ClusterApi

    def pods(self, job: str) -> Sequence[Object]:
        """The pods of a job, by name."""

    def play(
        self, pod: str, *, node: str | None = None, phase: str | None = None, waiting: tuple[str, str] | None = None,
        exit_code: int | None = None, reason: str = "", message: str = "", pod_reason: str = "", restarts: int = 0,
        conditions: Sequence[Condition] = (),
    ) -> None:  # fmt: skip
        """Play scheduler and kubelet; see :meth:`tests.fakes.cluster.FakeCluster.set_pod`."""


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until ``condition`` is true and return its value; fail after ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not so after {seconds} s: {condition}")


class FakeGround:
    """The fake cluster with pods that are placed and run by hand."""

    namespace = "training"

    def __init__(self, cluster: FakeCluster, folder: Path) -> None:
        self.cluster = cluster
        self.api: ClusterApi = open_kubeconfig(cluster.kubeconfig(folder / "ground.kubeconfig"), patience=5.0)

    def pods(self, job: str) -> Sequence[Object]:
        """See :class:`Playground`."""
        return self.cluster.pods_of(job)

    def play(self, pod: str, **state: Any) -> None:
        """See :class:`Playground`."""
        self.cluster.set_pod(pod, **state)


class RealGround:
    """A cluster without kubelets: the test binds pods and writes their status; a thread confirms deletions."""

    def __init__(self, kubeconfig: Path) -> None:
        from kubernetes import client, config

        self.namespace = f"pretrain-archive-{uuid.uuid4().hex[:8]}"
        self.node = f"{self.namespace}-node"
        raw = config.new_client_from_config(str(kubeconfig))
        self.core = client.CoreV1Api(raw)
        self.api: ClusterApi = KubernetesApi(raw, patience=10.0)
        self.core.create_namespace({"metadata": {"name": self.namespace}})
        self.core.create_node({"metadata": {"name": self.node}, "spec": {"unschedulable": True}})
        until(self._account, 60)
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self._confirm_deletions, daemon=True)
        self.thread.start()

    def _account(self) -> bool:
        names = [
            found.metadata.name for found in self.core.list_namespaced_service_account(self.namespace).items
        ]
        return "default" in names

    def pods(self, job: str) -> Sequence[Object]:
        """See :class:`Playground`."""
        found = self.api.list("Pod", self.namespace, labels=f"batch.kubernetes.io/job-name={job}")
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def play(
        self, pod: str, *, node: str | None = None, phase: str | None = None, waiting: tuple[str, str] | None = None,
        exit_code: int | None = None, reason: str = "", message: str = "", pod_reason: str = "", restarts: int = 0,
        conditions: Sequence[Condition] = (),
    ) -> None:  # fmt: skip
        """See :class:`Playground`. Every node is the one that the ground has made."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found = self.api.read("Pod", self.namespace, pod)
        assert found is not None
        if node is not None and not found["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
            self.core.create_namespaced_pod_binding(
                pod, self.namespace, {"metadata": {"name": pod}, "target": target}, _preload_content=False
            )
        state: Object | None = None
        if waiting is not None:
            state = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
        elif exit_code is not None:
            default = "Completed" if exit_code == 0 else "Error"
            state = {"terminated": {"exitCode": exit_code, "reason": reason or default, "message": message,
                                    "startedAt": now, "finishedAt": now}}  # fmt: skip
        elif phase == "Running":
            state = {"running": {"startedAt": now}}
        container = found["spec"]["containers"][0]
        status: Object = {"conditions": [
            {"type": kind, "status": value, "reason": why, "message": text, "lastTransitionTime": now}
            for kind, value, why, text in conditions
        ]}  # fmt: skip
        status |= {"phase": phase, "startTime": now} if phase else {}
        status |= {"reason": pod_reason, "message": message} if pod_reason else {}
        if state is not None:
            image = container["image"]
            status["containerStatuses"] = [{
                "name": container["name"], "image": image, "imageID": image if "waiting" not in state else "",
                "ready": "running" in state, "restartCount": restarts, "state": state,
            }]  # fmt: skip
        self.core.patch_namespaced_pod_status(pod, self.namespace, {"status": status})

    def _confirm_deletions(self) -> None:
        """The kubelet's last word: a pod that is being deleted ended, and may go."""
        from kubernetes.client import ApiException

        while not self.closed.wait(0.1):
            with suppress(ApiException):
                for pod in self.core.list_namespaced_pod(self.namespace).items:
                    if pod.metadata.deletion_timestamp is None:
                        continue
                    if pod.status.phase not in ("Succeeded", "Failed"):
                        self.play(pod.metadata.name, phase="Failed", exit_code=143)
                    self.core.delete_namespaced_pod(pod.metadata.name, self.namespace, grace_period_seconds=0)

    def close(self) -> None:
        """Take everything away."""
        for job in self.api.list("Job", self.namespace):
            self.api.delete("Job", self.namespace, job["metadata"]["name"])
        with suppress(AssertionError):
            until(lambda: not self.api.list("Pod", self.namespace), 20)
        self.closed.set()
        self.thread.join(10)
        self.core.delete_namespace(self.namespace)
        self.core.delete_node(self.node)


@contextmanager
def open_ground(folder: Path, kind: str) -> Iterator[Playground]:
    """The real cluster where the environment names one, else the fake: its own way, or as a real one is played."""
    named = os.environ.get(VARIABLE)
    if named:
        with closing(RealGround(Path(named))) as real:
            yield real
        return
    with FakeCluster(kubelet="hand" if kind == "fake" else "none") as cluster:
        cluster.scheduler.on = False
        if kind == "fake":
            yield FakeGround(cluster, folder)
            return
        with closing(RealGround(cluster.kubeconfig(folder / "plane.kubeconfig"))) as real:
            yield real
