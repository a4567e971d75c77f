"""The rest of a fake cluster's controllers: scheduler, garbage collector, pod clean-up and Kueue."""

from __future__ import annotations

from typing import Any

from tests.fakes.cluster_conditions import ENDED, condition_of, set_condition
from tests.fakes.cluster_store import ApiError, Object, Store

QUEUE = "kueue.x-k8s.io/queue-name"


def amount(text: Any) -> float:
    """A Kubernetes quantity as a number: 500m, 4, 16Gi."""
    units = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    for unit in sorted(units, key=len, reverse=True):
        if str(text).endswith(unit):
            return float(str(text)[: -len(unit)]) * units[unit]
    return float(text)


def requests_of(pod: Object) -> dict[str, float]:
    """What a pod asks of its node."""
    total: dict[str, float] = {"pods": 1}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        for name, value in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            total[name] = total.get(name, 0) + amount(value)
    return total


class Scheduler:
    """Puts pods on nodes that have room, first fit."""

    def __init__(self, store: Store, say: Any) -> None:
        self.store, self.say, self.on = store, say, True
        self.told: dict[str, str] = {}

    def step(self) -> None:
        """Place every pod that has no node."""
        if not self.on:
            return
        for pod in self.store.find("pods"):
            waits = pod["status"].get("phase") == "Pending" and not pod["spec"].get("nodeName")
            if (
                waits
                and "deletionTimestamp" not in pod["metadata"]
                and not pod["spec"].get("schedulingGates")
            ):
                self._place(pod)

    def _place(self, pod: Object) -> None:
        nodes = self.store.find("nodes")
        short: list[str] = []
        for node in nodes:
            lacks = self._lacks(node, pod)
            if lacks is None:
                self._bind(pod, node["metadata"]["name"])
                return
            short.append(lacks)
        counts = ", ".join(f"{short.count(text)} {text}" for text in dict.fromkeys(short))
        message = (
            f"0/{len(nodes)} nodes are available: {counts}."
            if nodes
            else "no nodes available to schedule pods"
        )
        now = self.store.clock()
        self._edit(
            pod, lambda old: set_condition(old, "PodScheduled", "False", now, "Unschedulable", message)
        )
        if self.told.get(pod["metadata"]["uid"]) != message:
            self.told[pod["metadata"]["uid"]] = message
            self.say(pod, "FailedScheduling", message, kind="Warning", source="default-scheduler")

    def _lacks(self, node: Object, pod: Object) -> str | None:
        ready = next((c for c in node["status"]["conditions"] if c["type"] == "Ready"), None)
        if ready is None or ready["status"] != "True":
            return "node(s) had untolerated taint {node.kubernetes.io/unreachable: }"
        wanted = pod["spec"].get("nodeSelector") or {}
        if any(node["metadata"].get("labels", {}).get(key) != value for key, value in wanted.items()):
            return "node(s) didn't match Pod's node affinity/selector"
        name = node["metadata"]["name"]
        used: dict[str, float] = {}
        for other in self.store.find("pods"):
            if other["spec"].get("nodeName") == name and other["status"].get("phase") not in ENDED:
                for key, value in requests_of(other).items():
                    used[key] = used.get(key, 0) + value
        for key, value in requests_of(pod).items():
            if used.get(key, 0) + value > amount(node["status"]["allocatable"].get(key, 0)):
                return f"Insufficient {key}"
        return None

    def _bind(self, pod: Object, node: str) -> None:
        now = self.store.clock()

        def edit(old: Object) -> None:
            old["spec"]["nodeName"] = node
            set_condition(old, "PodScheduled", "True", now)

        self._edit(pod, edit)
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self.say(pod, "Scheduled", f"Successfully assigned {name} to {node}", source="default-scheduler")

    def _edit(self, pod: Object, edit: Any) -> None:
        try:
            self.store.update("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], edit)
        except ApiError as error:
            if error.code != 404:
                raise


class Collector:
    """Deletes what belongs to an owner that is gone, lets owners go whose dependents are."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.known: set[str] = set()

    def step(self) -> None:
        """One round."""
        for space in self.store.find("namespaces"):
            name = space["metadata"]["name"]
            if ("serviceaccounts", name, "default") not in self.store.objects and name not in self.known:
                self.known.add(name)
                self.store.create("serviceaccounts", name, {"metadata": {"name": "default"}})
        with self.store.changed:
            objects = list(self.store.objects.items())
            uids = {found["metadata"]["uid"] for _, found in objects}
        for key, found in objects:
            meta = found["metadata"]
            owners = [owner["uid"] for owner in meta.get("ownerReferences", ())]
            if owners and not any(uid in uids for uid in owners) and "deletionTimestamp" not in meta:
                self._quietly(lambda key=key: self.store.delete(*key, policy="Background"))
            if "foregroundDeletion" in meta.get("finalizers", ()):
                self._foreground(key, meta["uid"], objects)
            if "orphan" in meta.get("finalizers", ()):
                self._orphan(key, meta["uid"], objects)
            ghost = key[0] == "pods" and "deletionTimestamp" in meta and not found["spec"].get("nodeName")
            if ghost and found["status"].get("phase") == "Pending":
                self._quietly(lambda key=key: self.store.update(*key, _failed))

    def _foreground(self, key: Any, uid: str, objects: list[Any]) -> None:
        left = [
            other
            for other, found in objects
            if any(o["uid"] == uid for o in found["metadata"].get("ownerReferences", ()))
        ]
        for other in left:
            if (
                "deletionTimestamp"
                not in self.store.objects.get(other, {"metadata": {"deletionTimestamp": 1}})["metadata"]
            ):
                self._quietly(lambda other=other: self.store.delete(*other, policy="Background"))
        if not left:
            self._quietly(lambda: self.store.update(*key, lambda old: _without(old, "foregroundDeletion")))

    def _orphan(self, key: Any, uid: str, objects: list[Any]) -> None:
        for other, found in objects:
            if any(o["uid"] == uid for o in found["metadata"].get("ownerReferences", ())):
                self._quietly(lambda other=other: self.store.update(*other, lambda old: _disown(old, uid)))
        self._quietly(lambda: self.store.update(*key, lambda old: _without(old, "orphan")))

    def _quietly(self, act: Any) -> None:
        try:
            act()
        except ApiError as error:
            if error.code not in (404, 409):
                raise


def _failed(pod: Object) -> None:
    pod["status"]["phase"] = "Failed"


def _without(found: Object, finalizer: str) -> None:
    found["metadata"]["finalizers"] = [f for f in found["metadata"]["finalizers"] if f != finalizer]


def _disown(found: Object, uid: str) -> None:
    meta = found["metadata"]
    meta["ownerReferences"] = [o for o in meta["ownerReferences"] if o["uid"] != uid]


class Kueue:
    """Admits suspended jobs of a queue, or lets them wait. ``mode`` is admit or hold; ``ahead`` stand before them."""

    def __init__(self, store: Store, say: Any) -> None:
        self.store, self.say = store, say
        self.mode, self.ahead = "admit", 0
        self.message = (
            "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor gpus, "
            "8 more needed"
        )

    def step(self) -> None:
        """Make a workload for every job of a queue; admit what may be admitted."""
        for job in self.store.find("jobs"):
            queue = (job["metadata"].get("labels") or {}).get(QUEUE)
            if (
                not queue
                or "deletionTimestamp" in job["metadata"]
                or condition_of(job, "Failed")
                or condition_of(job, "Complete")
            ):
                continue
            try:
                self._visit(job, queue)
            except ApiError as error:
                if error.code not in (404, 409):
                    raise

    def pending(self, namespace: str, queue: str) -> Object:
        """What waits in a queue, as the visibility API tells it."""
        waiting = [
            found
            for found in self.store.find("workloads", namespace)
            if found["spec"].get("queueName") == queue and not condition_of(found, "Admitted")
        ]
        return {"kind": "PendingWorkloadsSummary", "items": [
            {"metadata": {"name": found["metadata"]["name"]}, "priority": 0, "localQueueName": queue,
             "positionInClusterQueue": self.ahead + place, "positionInLocalQueue": place}
            for place, found in enumerate(waiting)
        ]}  # fmt: skip

    def name_of(self, job: Object) -> str:
        """The workload of a job."""
        return f"job-{job['metadata']['name'][:50]}-{job['metadata']['uid'][:5]}"

    def _visit(self, job: Object, queue: str) -> None:
        meta, name = job["metadata"], self.name_of(job)
        now = self.store.clock()
        if ("workloads", meta["namespace"], name) not in self.store.objects:
            owner = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": meta["name"],
                "uid": meta["uid"],
                "controller": True,
            }
            body = {
                "metadata": {
                    "name": name, "labels": {"kueue.x-k8s.io/job-uid": meta["uid"]}, "ownerReferences": [owner],
                },
                "spec": {"queueName": queue, "podSets": [{"name": "main", "count": job["spec"]["parallelism"]}]},
                "status": {},
            }  # fmt: skip
            self.store.create("workloads", meta["namespace"], body)
            if not job["spec"].get("suspend"):  # a webhook of Kueue: what is not admitted does not run
                self.store.update(
                    "jobs", meta["namespace"], meta["name"], lambda old: _suspend(old, value=True)
                )
        workload = self.store.get("workloads", meta["namespace"], name)
        if not job["spec"].get("suspend"):
            return
        if self.mode == "admit":
            self._set(
                workload, now, ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue gpus"),
                ("Admitted", "True", "Admitted", "The workload is admitted"), ("Evicted", "False", "Admitted", ""),
            )  # fmt: skip
            self.store.update("jobs", meta["namespace"], meta["name"], lambda old: _suspend(old, value=False))
        else:
            self._set(workload, now, ("QuotaReserved", "False", "Pending", self.message))

    def evict(self, job: Object, reason: str, message: str) -> None:
        """Take a job's admission back: it is suspended and waits again."""
        self.mode = "hold"
        meta = job["metadata"]
        workload = self.store.get("workloads", meta["namespace"], self.name_of(job))
        now = self.store.clock()
        self._set(
            workload, now, ("Evicted", "True", reason, message),
            ("Admitted", "False", "NoReservation", "The workload has no reservation"),
            ("QuotaReserved", "False", "Pending", message), ("Requeued", "True", reason, message),
        )  # fmt: skip
        self.store.update("jobs", meta["namespace"], meta["name"], lambda old: _suspend(old, value=True))

    def _set(self, workload: Object, now: float, *conditions: tuple[str, str, str, str]) -> None:
        def edit(old: Object) -> None:
            for kind, status, reason, message in conditions:
                set_condition(old, kind, status, now, reason, message)

        meta = workload["metadata"]
        self.store.update("workloads", meta["namespace"], meta["name"], edit)


def _suspend(job: Object, *, value: bool) -> None:
    job["spec"]["suspend"] = value
