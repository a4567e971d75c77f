"""What a test does to the nodes and pods of a fake cluster: by hand, or as accidents that befall them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.fakes.cluster_conditions import set_condition
from tests.fakes.cluster_kubelet import Kubelet
from tests.fakes.cluster_store import ApiError, Object, Store, stamp

CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}


class Hands:
    """Mixed into the cluster: its store and kubelets are used, and its events written."""

    store: Store
    kubelet: Kubelet
    say: Callable[..., None]

    # -- what happens to nodes and pods ------------------------------------------------------------------

    def add_node(
        self, name: str, capacity: dict[str, str] | None = None, labels: dict[str, str] | None = None
    ) -> None:
        """A node that is ready."""
        have = {**CAPACITY, **(capacity or {})}
        self.store.create("nodes", "", {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {"allocatable": have, "capacity": have, "conditions": [{"type": "Ready", "status": "True"}]},
        })  # fmt: skip

    def pull(self, image: str, *answers: tuple[str, str]) -> None:
        """What pulling an image says, one answer a look, the last one for ever; ``("", "")`` is success."""
        self.kubelet.pulls[image] = list(answers)

    def set_pod(
        self, name: str, *, phase: str | None = None, node: str | None = None, waiting: tuple[str, str] | None = None,
        exit_code: int | None = None, reason: str = "", message: str = "", pod_reason: str = "", restarts: int = 0,
        conditions: Sequence[tuple[str, str, str, str]] = (), namespace: str | None = None,
    ) -> Object:  # fmt: skip
        """Play the kubelet: phase and node, why the container waits, or how it ended; conditions of the pod.

        A condition is ``(type, status, reason, message)``.
        """
        pod = self._pod(name, namespace)
        now = self.store.clock()

        def edit(old: Object) -> None:
            status = old["status"]
            if node is not None:
                old["spec"]["nodeName"] = node
            if phase is not None:
                status["phase"] = phase
                status.setdefault("startTime", stamp(now))
            if pod_reason:
                status |= {"reason": pod_reason, "message": message}
            state: dict[str, Any] | None = None
            if waiting is not None:
                state = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
            elif exit_code is not None:
                began = _began(status) or stamp(now)
                default = "Completed" if exit_code == 0 else "Error"
                state = {"terminated": {"exitCode": exit_code, "reason": reason or default, "message": message,
                                        "startedAt": began, "finishedAt": stamp(now)}}  # fmt: skip
            elif phase == "Running":
                state = {"running": {"startedAt": stamp(now)}}
            if state is not None:
                made = self.kubelet._container(old, state, ready="running" in state)
                status["containerStatuses"] = [made | {"restartCount": restarts}]
            for kind, value, why, text in conditions:
                set_condition(old, kind, value, now, why, text)

        return self.store.update("pods", pod["metadata"]["namespace"], name, edit)

    def oom(self, name: str) -> None:
        """The kernel kills the container: memory."""
        self.kubelet.kill_as(self._pod(name), "OOMKilled")

    def kill(self, name: str) -> None:
        """Somebody on the node kills the container (137 and no reason)."""
        self.kubelet.kill_as(self._pod(name), "Error")

    def preempt(self, name: str) -> None:
        """The scheduler takes the pod's place for a more important one."""
        self._disrupt(
            name,
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
        )
        self.say(
            self._pod(name),
            "Preempted",
            "Preempted by a pod on node",
            kind="Warning",
            source="default-scheduler",
        )
        self._take_away(name)

    def evict(self, name: str, message: str = "The node was low on resource: memory.") -> None:
        """The kubelet evicts the pod."""
        pod = self._pod(name)
        self._disrupt(name, "TerminationByKubelet", message)
        self.kubelet.kill_as(pod, "Error")
        self.kubelet.step()
        self.set_pod(name, phase="Failed", pod_reason="Evicted", message=message)
        self.say(pod, "Evicted", message, kind="Warning", source="kubelet")

    def evict_by_api(self, namespace: str, name: str) -> None:
        """The eviction API, as a node drain uses it."""
        self._disrupt(name, "EvictionByEvictionAPI", "Eviction API: evicting")
        self.store.delete("pods", namespace, name)

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Put a pod on a node, as a scheduler does."""
        self.set_pod(name, node=node, conditions=[("PodScheduled", "True", "", "")], namespace=namespace)

    def node_lost(self, node: str) -> None:
        """A node is gone with everything on it; its pods are failed by the pod garbage collector."""
        pods = self.kubelet.forget_node(node)

        def edit(old: Object) -> None:
            set_condition(
                old,
                "Ready",
                "Unknown",
                self.store.clock(),
                "NodeStatusUnknown",
                "Kubelet stopped posting node status.",
            )

        self.store.update("nodes", "", node, edit)
        for pod in pods:
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            self._disrupt(name, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
            self.say(pod, "NodeNotReady", "Node is not ready", kind="Warning", source="node-controller")
            self.say(
                pod,
                "TaintManagerEviction",
                f"Marking for deletion Pod {namespace}/{name}",
                source="taint-eviction-controller",
            )
            self.set_pod(
                name,
                phase="Failed",
                pod_reason="NodeLost",
                message=f"Node {node} which was running pod {name} is unresponsive",
            )
            self._quietly(lambda ns=namespace, n=name: self.store.delete("pods", ns, n, grace=0))

    def _take_away(self, name: str) -> None:
        pod = self._pod(name)
        if self.kubelet.mode == "hand":
            self.set_pod(name, phase="Failed", exit_code=137, reason="Error")
        self._quietly(lambda: self.store.delete("pods", pod["metadata"]["namespace"], name))

    def _disrupt(self, name: str, reason: str, message: str) -> None:
        self.set_pod(name, conditions=[("DisruptionTarget", "True", reason, message)])

    def _quietly(self, act: Callable[[], Any]) -> None:
        try:
            act()
        except ApiError as error:
            if error.code != 404:
                raise

    def _pod(self, name: str, namespace: str | None = None) -> Object:
        found = [p for p in self.store.find("pods", namespace or "") if p["metadata"]["name"] == name]
        if not found:
            raise AssertionError(f"there is no pod {name}")
        return found[0]


def _began(status: dict[str, Any]) -> str | None:
    for container in status.get("containerStatuses", ()):
        if running := container.get("state", {}).get("running"):
            return str(running["startedAt"])
    return None
