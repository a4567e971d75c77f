"""A Kubernetes cluster in this process that speaks real HTTP: API server, controllers, scheduler, Kueue, kubelets.

``FakeCluster()`` runs the commands of pods as real processes; ``FakeCluster(kubelet="hand")`` leaves the pods to the
test (:meth:`FakeCluster.set_pod` and its kin); ``kubelet="none"`` is a control plane alone. Everything that can go
wrong can be planted (:meth:`FakeCluster.fail`),
every request is kept (:attr:`FakeCluster.requests`), and what ever existed is known (:meth:`FakeCluster.ever`).
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.fakes.cluster_faults import Fault, Faults, Request
from tests.fakes.cluster_hands import Hands
from tests.fakes.cluster_jobs import JOB_NAME, Jobs
from tests.fakes.cluster_kubeconfig import write_kubeconfig
from tests.fakes.cluster_kubelet import Kubelet
from tests.fakes.cluster_nodes import Collector, Kueue, Scheduler
from tests.fakes.cluster_patch import merge
from tests.fakes.cluster_rules import admit
from tests.fakes.cluster_server import ApiServer
from tests.fakes.cluster_store import ApiError, Object, Store, stamp
from tests.fakes.cluster_trainjobs import TrainJobs

__all__ = ["ApiError", "FakeCluster", "Object", "Request"]


class FakeCluster(Hands):
    """See the module. ``namespaces`` and ``nodes`` exist from the start; ``token`` is asked of every request."""

    def __init__(
        self, *, kubelet: str = "run", controllers: bool = True, namespaces: Sequence[str] = ("default", "training"),
        nodes: Sequence[str] = ("node-0", "node-1"), token: str = "", tls: ssl.SSLContext | None = None,
        bookmark_seconds: float = 5.0,
    ) -> None:  # fmt: skip
        self.offset = 0.0
        self.store = Store(clock=lambda: time.time() + self.offset)
        self.faults, self.requests = Faults(), list[Request]()
        self.token, self.bookmark_seconds = token, bookmark_seconds
        self.missing: set[str] = set()
        self.closed = threading.Event()
        self.errors: list[BaseException] = []
        self.trainjobs = TrainJobs(self.store)
        self.jobs, self.kueue = Jobs(self.store, self.say), Kueue(self.store, self.say)
        self.scheduler, self.collector = Scheduler(self.store, self.say), Collector(self.store)
        self.kubelet = Kubelet(self.store, self.say, mode=kubelet, cluster_id=uuid.uuid4().hex[:12])
        for name in namespaces:
            self.store.create("namespaces", "", {"metadata": {"name": name}})
            self.create("serviceaccounts", {"metadata": {"name": "default"}}, name)
        for name in nodes:
            self.add_node(name)
        self.server = ApiServer(self, tls=tls)
        self.url = self.server.url
        self._threads = [threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)]
        if controllers:
            self._threads.append(threading.Thread(target=self._control, daemon=True))
        for thread in self._threads:
            thread.start()

    # -- life ----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self.errors:
            raise self.errors[0]

    def close(self) -> list[int]:
        """Stop serving and end every process; returns the processes that were still there."""
        self.closed.set()
        with self.store.changed:
            self.store.changed.notify_all()
        self.server.shutdown()
        for thread in self._threads:
            thread.join(10)
        self.server.server_close()
        return self.kubelet.close()

    def _control(self) -> None:
        seen, processes = -1, 0.0
        while not self.closed.is_set():
            try:
                head = self.store.version
                for part in (
                    self.kueue,
                    self.trainjobs,
                    self.jobs,
                    self.scheduler,
                    self.kubelet,
                    self.collector,
                ):
                    part.step()
                seen, processes = head, time.monotonic() + 0.05
            except Exception as error:  # noqa: BLE001 (shown by the test that uses the cluster)
                self.errors.append(error)
                seen = self.store.version
            with self.store.changed:
                while (
                    self.store.version == seen and time.monotonic() < processes and not self.closed.is_set()
                ):
                    self.store.changed.wait(0.05)

    def kubeconfig(self, path: Path, *, namespace: str = "default", **changes: Any) -> Path:
        """Write a kubeconfig that leads here and return its path; ``changes`` make it wrong on purpose."""
        return write_kubeconfig(path, server=self.url, token=self.token, namespace=namespace, **changes)

    # -- objects, past the HTTP side -------------------------------------------------------------------

    def create(self, resource: str, body: Object, namespace: str = "default") -> Object:
        """Create as a user would, without HTTP."""
        return self.store.create(resource, namespace, admit(resource, body))

    def get(self, resource: str, name: str, namespace: str = "default") -> Object | None:
        """An object, None if there is none."""
        try:
            return self.store.get(resource, namespace, name)
        except ApiError:
            return None

    def list(self, resource: str, namespace: str = "", *, labels: str = "") -> Sequence[Object]:
        """All objects of a resource."""
        return self.store.find(resource, namespace, labels=labels)

    def patch(self, resource: str, name: str, patch: Object, namespace: str = "default") -> Object:
        """Merge a patch into an object, its status included."""
        return self.store.update(resource, namespace, name, lambda old: dict(merge(old, patch)))

    def delete(
        self, resource: str, name: str, namespace: str = "default", *, policy: str | None = None
    ) -> None:
        """Delete as a user would."""
        self.store.delete(resource, namespace, name, policy=policy)

    def pods_of(self, job: str) -> Sequence[Object]:
        """The pods of a job, in the order of their index."""
        return self.store.find("pods", labels=f"{JOB_NAME}={job}")

    def ever(self, resource: str) -> list[str]:
        """Names of everything of a resource that ever existed, in order."""
        return [name for kind, _, name in self.store.born if kind == resource]

    def asked(self, verb: str, resource: str) -> list[Request]:
        """The requests of a kind that came in over HTTP."""
        return [r for r in list(self.requests) if (r.verb, r.resource) == (verb, resource)]

    @property
    def started(self) -> list[str]:
        """Names of the pods whose command was started as a process, in order."""
        return list(self.kubelet.started)

    def wait(self, condition: Callable[[], Any], seconds: float = 20) -> Any:
        """Wait until ``condition`` is true and return its value; fail after ``seconds``."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.errors:
                raise self.errors[0]
            if value := condition():
                return value
            with self.store.changed:
                self.store.changed.wait(0.02)
        raise AssertionError(f"not so after {seconds} s: {condition}")

    # -- what goes wrong with the API ------------------------------------------------------------------

    def fail(self, verb: str, resource: str, **fault: Any) -> Fault:
        """Let the next requests of a kind fail; see :class:`Fault`. ``times=-1`` is for ever, ``*`` is any.

        The verb ``watching`` with ``drop=True`` cuts a watch that is running.
        """
        return self.faults.plant(Fault(verb=verb, resource=resource, **fault))

    def forbid(self, verb: str, resource: str) -> Fault:
        """Refuse a kind of request for good, as a role without that right does."""
        message = (
            f'{resource} is forbidden: User "archive" cannot {verb} resource "{resource}" in the namespace'
        )
        return self.fail(verb, resource, times=-1, status=403, message=message)

    def forget(self) -> None:
        """Compact the history: who watches from an older version gets 410 Gone."""
        self.store.forget()

    def advance(self, seconds: float) -> None:
        """Move the cluster's clock forward."""
        self.offset += seconds
        with self.store.changed:
            self.store.changed.notify_all()

    def say(
        self,
        about: Object,
        reason: str,
        message: str,
        *,
        kind: str = "Normal",
        source: str = "job-controller",
    ) -> None:
        """Write an event about an object."""
        meta = about["metadata"]
        now = stamp(self.store.clock())
        body = {
            "metadata": {"name": f"{meta['name'][:200]}.{uuid.uuid4().hex[:16]}"}, "type": kind, "reason": reason,
            "message": message, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
            "involvedObject": {
                "kind": about.get("kind", "Pod"), "name": meta["name"], "uid": meta.get("uid"),
                "namespace": meta.get("namespace"), "apiVersion": about.get("apiVersion", "v1"),
            },
            "source": {"component": source},
        }  # fmt: skip
        try:
            self.store.create("events", meta.get("namespace", "default"), body)
        except ApiError as error:  # the namespace went with the object
            if error.code != 404:
                raise

    def pending(self, namespace: str, queue: str) -> Object:
        """What waits in a queue of Kueue; 404 where the visibility API is ``missing``."""
        if "visibility.kueue.x-k8s.io" in self.missing:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return self.kueue.pending(namespace, queue)

    def log_of(self, pod: Object) -> bytes:
        """What the container of a pod wrote."""
        path = self.kubelet.folder / f"{pod['metadata']['name']}.log"
        return path.read_bytes() if path.exists() else json.dumps({}).encode()[:0]
