"""What a fake Kubernetes API server remembers: objects, their versions, and what happened to them in order.

Semantics follow the API conventions (https://kubernetes.io/docs/reference/using-api/api-concepts/): one counter of
resource versions, optimistic locking, graceful deletion, finalizers and propagation policies.
"""

from __future__ import annotations

import copy
import secrets
import threading
import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.cluster_patch import matches_fields, matches_labels

Object = dict[str, Any]
Key = tuple[str, str, str]

KINDS = {
    "pods": ("", "v1", "Pod"),
    "services": ("", "v1", "Service"),
    "events": ("", "v1", "Event"),
    "namespaces": ("", "v1", "Namespace"),
    "nodes": ("", "v1", "Node"),
    "configmaps": ("", "v1", "ConfigMap"),
    "secrets": ("", "v1", "Secret"),
    "serviceaccounts": ("", "v1", "ServiceAccount"),
    "persistentvolumeclaims": ("", "v1", "PersistentVolumeClaim"),
    "resourcequotas": ("", "v1", "ResourceQuota"),
    "jobs": ("batch", "v1", "Job"),
    "workloads": ("kueue.x-k8s.io", "v1beta1", "Workload"),
    "localqueues": ("kueue.x-k8s.io", "v1beta1", "LocalQueue"),
    "trainjobs": ("trainer.kubeflow.org", "v1alpha1", "TrainJob"),
    "priorityclasses": ("scheduling.k8s.io", "v1", "PriorityClass"),
}
CLUSTER_WIDE = frozenset({"namespaces", "nodes", "priorityclasses"})
ORPHANING = frozenset({"jobs"})
"""Where a deletion that names no policy leaves the dependents: the API server's old default for batch/v1 Jobs."""


class ApiError(Exception):
    """An answer of the API server that is not a success; ``body`` is its ``Status`` object."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.body = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "details": details, "code": code,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One step of the history: ``old`` is the object as it was, so that a selector sees it leave."""

    version: int
    type: str
    resource: str
    object: Object
    old: Object | None


def stamp(moment: float) -> str:
    """Seconds since the epoch as Kubernetes writes them."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


@dataclass
class Store:
    """Objects by resource, namespace and name; every method is atomic. What it returns are copies."""

    clock: Callable[[], float] = time.time
    version: int = 1
    forgotten: int = 0
    objects: dict[Key, Object] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    born: list[tuple[str, str, str]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=lambda: threading.Condition(threading.RLock()))

    # -- reading -------------------------------------------------------------------------------------

    def get(self, resource: str, namespace: str, name: str) -> Object:
        """The object, or 404."""
        with self.changed:
            found = self.objects.get((resource, namespace, name))
            if found is None:
                raise not_found(resource, name)
            return copy.deepcopy(found)

    def find(self, resource: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        """Objects that both selectors match, by name; an empty namespace means all."""
        with self.changed:
            return [
                copy.deepcopy(found)
                for (kind, space, _), found in sorted(self.objects.items())
                if kind == resource and namespace in ("", space)
                and matches_labels(found, labels) and matches_fields(found, fields)
            ]  # fmt: skip

    def since(self, version: int, resource: str) -> tuple[list[Change], int]:
        """What happened to a resource after ``version``, and until which version; 410 where that is forgotten."""
        with self.changed:
            if version < self.forgotten:
                raise ApiError(410, "Expired", f"too old resource version: {version} ({self.forgotten})")
            begin = bisect_right(self.history, version, key=lambda change: change.version)
            return [c for c in self.history[begin:] if c.resource == resource], self.version

    # -- writing -------------------------------------------------------------------------------------

    def create(self, resource: str, namespace: str, body: Mapping[str, Any]) -> Object:
        """Store a new object; 409 if the name is taken, 404 if the namespace is not there."""
        with self.changed:
            made = copy.deepcopy(dict(body))
            meta = made.setdefault("metadata", {})
            if "name" not in meta:
                meta["name"] = meta.get("generateName", "") + secrets.token_hex(3)[:5]
            if namespace and resource not in CLUSTER_WIDE:
                self.require_namespace(resource, namespace)
                meta["namespace"] = namespace
            key = (resource, namespace, meta["name"])
            if key in self.objects:
                raise ApiError(
                    409, "AlreadyExists", f'{plural(resource)} "{meta["name"]}" already exists',
                    name=meta["name"], kind=resource,
                )  # fmt: skip
            group, api_version, kind = KINDS.get(resource, ("", "v1", resource))
            made.setdefault("apiVersion", f"{group}/{api_version}" if group else api_version)
            made.setdefault("kind", kind)
            meta |= {"uid": str(uuid.uuid4()), "generation": 1, "creationTimestamp": stamp(self.clock())}
            meta.pop("resourceVersion", None)
            self.born.append(key)
            return self._put("ADDED", key, made, None)

    def require_namespace(self, resource: str, namespace: str) -> None:
        """404 if the namespace of a new object is not there."""
        with self.changed:
            known = ("namespaces", "", namespace) in self.objects
            if namespace and resource not in CLUSTER_WIDE and not known:
                raise not_found("namespaces", namespace)

    def update(
        self, resource: str, namespace: str, name: str, edit: Callable[[Object], Object | None]
    ) -> Object:
        """Change an object by ``edit`` (in place, or by what it returns); equal content changes nothing.

        409 if the edited object names another resource version than the stored one.
        """
        with self.changed:
            key = (resource, namespace, name)
            before = self.objects.get(key)
            if before is None:
                raise not_found(resource, name)
            draft = copy.deepcopy(before)
            after = edit(draft) or draft
            wanted = after["metadata"].get("resourceVersion")
            if wanted is not None and wanted != before["metadata"]["resourceVersion"]:
                raise ApiError(
                    409, "Conflict",
                    f'Operation cannot be fulfilled on {plural(resource)} "{name}": the object has been modified; '
                    "please apply your changes to the latest version and try again", name=name, kind=resource,
                )  # fmt: skip
            if after == before:
                return copy.deepcopy(before)
            if after.get("spec") != before.get("spec"):
                after["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
            meta = after["metadata"]
            if (
                "deletionTimestamp" in meta
                and not meta.get("finalizers")
                and not meta.get("deletionGracePeriodSeconds")
            ):
                return self._remove(key, after)
            return self._put("MODIFIED", key, after, before)

    def delete(
        self, resource: str, namespace: str, name: str, *, policy: str | None = None, grace: int | None = None,
        uid: str | None = None,
    ) -> Object:  # fmt: skip
        """Delete: pods with their grace time, others at once or, in the foreground, after their dependents."""
        with self.changed:
            key = (resource, namespace, name)
            found = self.objects.get(key)
            if found is None:
                raise not_found(resource, name)
            if uid is not None and uid != found["metadata"]["uid"]:
                raise ApiError(
                    409, "Conflict",
                    f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found['metadata']['uid']}",
                )  # fmt: skip
            after = copy.deepcopy(found)
            meta, finalizers = after["metadata"], set(found["metadata"].get("finalizers", ()))
            policy = policy or ("Orphan" if resource in ORPHANING else "Background")
            finalizers |= {"foregroundDeletion"} if policy == "Foreground" else set()
            finalizers |= {"orphan"} if policy == "Orphan" else set()
            seconds = _grace(after, grace) if resource == "pods" else 0
            meta.setdefault("deletionTimestamp", stamp(self.clock() + seconds))
            if seconds < meta.get("deletionGracePeriodSeconds", 1 << 30):
                meta["deletionGracePeriodSeconds"] = seconds
            if finalizers:
                meta["finalizers"] = sorted(finalizers)
            if finalizers or seconds:
                return self._put("MODIFIED", key, after, found) if after != found else after
            return self._remove(key, after)

    def forget(self) -> None:
        """Compact: older resource versions are gone for every watch and list."""
        with self.changed:
            self.version += 1
            self.forgotten = self.version
            self.history.clear()

    def _put(self, kind: str, key: Key, after: Object, before: Object | None) -> Object:
        self.version += 1
        after["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = after
        self.history.append(Change(self.version, kind, key[0], copy.deepcopy(after), before))
        self.changed.notify_all()
        return copy.deepcopy(after)

    def _remove(self, key: Key, after: Object) -> Object:
        self.version += 1
        before = self.objects.pop(key)
        after["metadata"]["resourceVersion"] = str(self.version)
        self.history.append(Change(self.version, "DELETED", key[0], copy.deepcopy(after), before))
        self.changed.notify_all()
        return copy.deepcopy(after)


def _grace(pod: Object, wanted: int | None) -> int:
    """A pod that never was on a node, or has ended, goes at once."""
    if not pod.get("spec", {}).get("nodeName") or pod.get("status", {}).get("phase") in (
        "Succeeded",
        "Failed",
    ):
        return 0
    default = pod["spec"].get("terminationGracePeriodSeconds", 30)
    return int(default if wanted is None else wanted)


def plural(resource: str) -> str:
    """A resource as messages name it."""
    group = KINDS.get(resource, ("", "", ""))[0]
    return f"{resource}.{group}" if group else resource


def not_found(resource: str, name: str) -> ApiError:
    """404 in the API server's words."""
    return ApiError(404, "NotFound", f'{plural(resource)} "{name}" not found', name=name, kind=resource)
