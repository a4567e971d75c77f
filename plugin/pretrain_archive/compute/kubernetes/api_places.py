"""Where a cluster keeps the objects that are asked for, and everything that is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Place:
    """Where objects of a kind live: API group (empty is the core), version, plural."""

    group: str
    version: str
    plural: str

    def path(self, namespace: str, name: str = "", sub: str = "") -> str:
        """The path of a collection or an object."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root, "namespaces", quote(namespace, safe=""), self.plural]
        return "/".join([*parts, *(quote(part, safe="") for part in (name, sub) if part)])


PLACES = {
    "Job": Place("batch", "v1", "jobs"),
    "TrainJob": Place("trainer.kubeflow.org", "v1alpha1", "trainjobs"),
    "Pod": Place("", "v1", "pods"),
    "Service": Place("", "v1", "services"),
    "Event": Place("", "v1", "events"),
    "Workload": Place("kueue.x-k8s.io", "v1beta1", "workloads"),
}
QUEUES = Place("visibility.kueue.x-k8s.io", "v1beta1", "localqueues")
"""Where Kueue tells the order of what waits (its visibility API, which a cluster may lack)."""
CALLS = (
    ("batch", "jobs", ("create", "get", "list", "watch", "patch", "delete")),
    ("trainer.kubeflow.org", "trainjobs", ("create", "get", "list", "watch", "patch", "delete")),
    ("", "services", ("create", "get", "delete")),
    ("", "pods", ("get", "list", "watch", "delete")),
    ("", "pods/log", ("get",)),
    ("", "events", ("list", "watch")),
    ("kueue.x-k8s.io", "workloads", ("list", "watch")),
    ("visibility.kueue.x-k8s.io", "localqueues/pendingworkloads", ("get",)),
)
"""Everything that is asked of a cluster: group, resource, verbs. The rows of custom resources only where they are
used. A role for the service account of the connection is written from it."""
