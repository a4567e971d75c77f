"""The Kubeflow trainer of a fake cluster, as far as a launch sees it: one Indexed Job of the TrainJob's nodes.

The trainer really makes a JobSet, which makes that job; the conditions of the TrainJob follow it.
"""

from __future__ import annotations

import copy
from typing import Any

from tests.fakes.cluster_conditions import condition_of, set_condition
from tests.fakes.cluster_rules import admit
from tests.fakes.cluster_store import ApiError, Object, Store


class TrainJobs:
    """Makes, suspends and follows the job of each TrainJob."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def step(self) -> None:
        """Look at every TrainJob once."""
        for found in self.store.find("trainjobs"):
            try:
                if "deletionTimestamp" not in found["metadata"]:
                    self._sync(found)
            except ApiError as error:
                if error.code not in (404, 409):
                    raise

    def _sync(self, found: Object) -> None:
        meta, held = found["metadata"], bool(found["spec"].get("suspend"))
        space, name = meta["namespace"], f"{meta['name']}-node-0"
        job = self.store.objects.get(("jobs", space, name))
        if job is None:
            if condition_of(found, "Complete") or condition_of(found, "Failed"):
                return
            job = self.store.create("jobs", space, admit("jobs", _job(found, name)))
        if bool(job["spec"].get("suspend")) != held:
            self.store.update("jobs", space, name, lambda old: _suspend(old, held=held))
        now = self.store.clock()
        before = copy.deepcopy(found["status"])
        reason = "Suspended" if held else "Resumed"
        set_condition(
            found, "Suspended", "True" if held else "False", now, reason, f"TrainJob is {reason.lower()}"
        )
        for kind in ("Complete", "Failed"):
            if ended := condition_of(job, kind):
                set_condition(found, kind, "True", now, ended["reason"], ended["message"])
        if found["status"] != before:
            status = found["status"]
            self.store.update("trainjobs", space, meta["name"], lambda old: {**old, "status": status})


def _job(found: Object, name: str) -> Object:
    spec, meta = found["spec"], found["metadata"]
    trainer, pod = spec["trainer"], _patch_of(spec)
    container: Object = {
        "name": "node", "image": trainer["image"], "command": trainer["command"], "env": trainer.get("env", []),
        "resources": trainer.get("resourcesPerNode", {}),
    }  # fmt: skip
    owner = {
        "kind": "TrainJob",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "apiVersion": "v1",
    }
    return {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {
            "suspend": bool(spec.get("suspend")), "completionMode": "Indexed", "backoffLimit": 0,
            "parallelism": trainer["numNodes"], "completions": trainer["numNodes"],
            "template": {
                "metadata": {"labels": dict(pod.get("metadata", {}).get("labels") or {})},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container]},
            },
        },
    }  # fmt: skip


def _patch_of(spec: Object) -> dict[str, Any]:
    """What the TrainJob asks of its pods, by the older or the newer field."""
    if overrides := spec.get("podTemplateOverrides"):
        return dict(overrides[0])
    patch = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    return dict(patch["template"]["spec"]["template"])


def _suspend(job: Object, *, held: bool) -> None:
    job["spec"]["suspend"] = held
