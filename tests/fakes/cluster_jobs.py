"""The Job controller of a fake cluster: pods by index, suspension, deadlines, failure policies, conditions, TTL.

Follows https://kubernetes.io/docs/concepts/workloads/controllers/job/ for Kubernetes 1.34: a pod that is deleted
counts as failed, a job that fails or succeeds first says FailureTarget or SuccessCriteriaMet and is Failed or
Complete only when none of its pods is left running.
"""

from __future__ import annotations

import copy
import secrets
from typing import Any

from tests.fakes.cluster_conditions import ENDED, condition_of, seconds_of, set_condition
from tests.fakes.cluster_store import ApiError, Object, Store, stamp

INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"
TRACKING = "batch.kubernetes.io/job-tracking"


class Jobs:
    """Brings every job and its pods one step nearer to what the job's specification says."""

    def __init__(self, store: Store, say: Any) -> None:
        self.store, self.say = store, say
        self.quota: str = ""
        self.refused: dict[str, str] = {}

    def step(self) -> None:
        """Look at every job once."""
        for job in self.store.find("jobs"):
            try:
                if "deletionTimestamp" not in job["metadata"]:
                    self._sync(job)
            except ApiError as error:  # changed or gone meanwhile: the next step sees it
                if error.code not in (404, 409):
                    raise
        for pod in self.store.find("pods"):
            self._release(pod)

    # -- one job -------------------------------------------------------------------------------------

    def _sync(self, job: Object) -> None:
        now = self.store.clock()
        if condition_of(job, "Complete") or condition_of(job, "Failed"):
            self._expire(job, now)
            return
        before = copy.deepcopy(job["status"])
        pods = self._pods_of(job)
        self._account(job, pods)
        active = [p for p in pods if p["status"].get("phase") not in ENDED]
        staying = [p for p in active if "deletionTimestamp" not in p["metadata"]]
        self._judge(job, now)
        ending = condition_of(job, "FailureTarget") or condition_of(job, "SuccessCriteriaMet")
        if ending or job["spec"].get("suspend"):
            for pod in staying:
                self._delete(pod, counted=bool(ending))
            if ending and not active:
                self._finish(job, ending, now)
        if not ending:
            self._suspend_or_start(job, now)
            if not job["spec"].get("suspend"):
                self._fill(job, pods)
        status = job["status"]
        status |= {"active": len(staying), "ready": sum(bool(condition_of(p, "Ready")) for p in staying)}
        status["terminating"] = len(active) - len(staying)
        if status != before:
            self._write(job)

    def _write(self, job: Object) -> None:
        def edit(old: Object) -> Object:
            old["status"] = job["status"]
            old["metadata"]["resourceVersion"] = job["metadata"]["resourceVersion"]
            return old

        meta = job["metadata"]
        self.store.update("jobs", meta["namespace"], meta["name"], edit)

    def _pods_of(self, job: Object) -> list[Object]:
        uid = job["metadata"]["uid"]
        return [
            pod for pod in self.store.find("pods", job["metadata"]["namespace"])
            if any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences", ()))
        ]  # fmt: skip

    def _account(self, job: Object, pods: list[Object]) -> None:
        """Count pods that ended, once: what was counted is in uncountedTerminatedPods' stead on the job."""
        status = job["status"]
        counted = status.setdefault("uncountedTerminatedPods", {}).setdefault("seen", [])
        for pod in pods:
            uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
            if uid in counted or phase not in ENDED or TRACKING not in pod["metadata"].get("finalizers", ()):
                continue
            action, why = "Succeed", ""
            if phase == "Failed":
                action, why = self._policy(job, pod)
            counted.append(uid)
            if action == "Succeed":
                status["succeeded"] = status.get("succeeded", 0) + 1
                done = status.setdefault("_indexes", [])
                done.append(_index(pod))
                status["completedIndexes"] = ",".join(
                    str(i) for i in sorted(i for i in done if i is not None)
                )
            elif action == "FailJob":
                self._fail(job, "PodFailurePolicy", why)
            elif action == "Count":
                status["failed"] = status.get("failed", 0) + 1

    def _policy(self, job: Object, pod: Object) -> tuple[str, str]:
        """What the failure policy does about a failed pod, and the message in the controller's words."""
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for number, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules", ())):
            tail = f"matching {rule['action']} rule at index {number}"
            codes = rule.get("onExitCodes")
            for status in pod["status"].get("containerStatuses", ()):
                if codes and _code_fits(codes, status):
                    code = status["state"]["terminated"]["exitCode"]
                    said = f"Container {status['name']} for pod {name} failed with exit code {code} {tail}"
                    return str(rule["action"]), said
            present = [(c["type"], c["status"]) for c in pod["status"].get("conditions", ())]
            for wanted in rule.get("onPodConditions") or ():
                if (wanted["type"], wanted.get("status", "True")) in present:
                    return str(rule["action"]), f"Pod {name} has condition {wanted['type']} {tail}"
        return "Count", ""

    def _judge(self, job: Object, now: float) -> None:
        spec, status = job["spec"], job["status"]
        if condition_of(job, "FailureTarget") or condition_of(job, "SuccessCriteriaMet"):
            return
        if status.get("failed", 0) > spec["backoffLimit"]:
            self._fail(job, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif len(set(status.get("_indexes", ()))) >= spec["completions"] or (
            spec["completionMode"] == "NonIndexed" and status.get("succeeded", 0) >= spec["completions"]
        ):
            set_condition(
                job,
                "SuccessCriteriaMet",
                "True",
                now,
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            )
        limit, start = spec.get("activeDeadlineSeconds"), status.get("startTime")
        open_yet = not (condition_of(job, "FailureTarget") or condition_of(job, "SuccessCriteriaMet"))
        if open_yet and limit and start and now - seconds_of(start) >= limit:
            self._fail(job, "DeadlineExceeded", "Job was active longer than specified deadline")

    def _fail(self, job: Object, reason: str, message: str) -> None:
        set_condition(job, "FailureTarget", "True", self.store.clock(), reason, message)

    def _finish(self, job: Object, ending: dict[str, Any], now: float) -> None:
        kind = "Failed" if ending["type"] == "FailureTarget" else "Complete"
        set_condition(job, kind, "True", now, ending["reason"], ending["message"])
        if kind == "Complete":
            job["status"]["completionTime"] = stamp(now)
        self.say(job, ending["reason"] if kind == "Failed" else "Completed", ending["message"] or "Job completed",
                 kind="Warning" if kind == "Failed" else "Normal")  # fmt: skip

    def _suspend_or_start(self, job: Object, now: float) -> None:
        status = job["status"]
        if job["spec"].get("suspend"):
            if not condition_of(job, "Suspended"):
                set_condition(job, "Suspended", "True", now, "JobSuspended", "Job suspended")
                status.pop("startTime", None)
                self.say(job, "Suspended", "Job suspended")
        elif "startTime" not in status:
            status["startTime"] = stamp(now)
            if condition_of(job, "Suspended"):
                set_condition(job, "Suspended", "False", now, "JobResumed", "Job resumed")
                self.say(job, "Resumed", "Job resumed")

    # -- pods ----------------------------------------------------------------------------------------

    def _fill(self, job: Object, pods: list[Object]) -> None:
        spec = job["spec"]
        done = set(job["status"].get("_indexes", ()))
        busy = [p for p in pods if p["status"].get("phase") not in ENDED]
        held = {_index(pod) for pod in busy}
        if spec["completionMode"] == "Indexed":
            free = [i for i in range(spec["completions"]) if i not in done and i not in held]
        else:
            free = [None] * max(0, spec["completions"] - job["status"].get("succeeded", 0) - len(busy))
        for index in free[: max(0, spec["parallelism"] - len(busy))]:
            problem = self._refusal(job)
            if problem:
                if self.refused.get(job["metadata"]["uid"]) != problem:
                    self.refused[job["metadata"]["uid"]] = problem
                    self.say(job, "FailedCreate", f"Error creating: {problem}", kind="Warning")
                return
            self._create(job, index)

    def _refusal(self, job: Object) -> str:
        meta, pod = job["metadata"], job["spec"]["template"]["spec"]
        account = pod.get("serviceAccountName") or "default"
        if ("serviceaccounts", meta["namespace"], account) not in self.store.objects:
            return (
                f'pods "{meta["name"]}-" is forbidden: error looking up service account '
                f'{meta["namespace"]}/{account}: serviceaccount "{account}" not found'
            )
        if self.quota:
            return f'pods "{meta["name"]}-" is forbidden: {self.quota}'
        return ""

    def _create(self, job: Object, index: int | None) -> None:
        meta, template = job["metadata"], copy.deepcopy(job["spec"]["template"])
        base = meta["name"] if index is None else f"{meta['name']}-{index}"
        labels = {
            **(template.get("metadata", {}).get("labels") or {}), JOB_NAME: meta["name"], "job-name": meta["name"],
            "batch.kubernetes.io/controller-uid": meta["uid"],
        }  # fmt: skip
        annotations = dict(template.get("metadata", {}).get("annotations") or {})
        spec = template["spec"]
        if index is not None:
            labels[INDEX] = annotations[INDEX] = str(index)
            spec.setdefault("hostname", base)
            for container in (*spec["containers"], *spec.get("initContainers", ())):
                container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
        owner = {
            "apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True,
            "blockOwnerDeletion": True,
        }  # fmt: skip
        pod = {
            "metadata": {
                "name": f"{base}-{secrets.token_hex(3)[:5]}", "labels": labels, "annotations": annotations,
                "ownerReferences": [owner], "finalizers": [TRACKING],
            },
            "spec": spec, "status": {"phase": "Pending"},
        }  # fmt: skip
        self.store.create("pods", meta["namespace"], pod)
        self.say(job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")  # type: ignore[index]

    def _delete(self, pod: Object, *, counted: bool) -> None:
        """Delete a pod; one that a suspension ends is let go first, so that it never counts as failed."""
        if not counted:
            self.store.update(
                "pods", pod["metadata"]["namespace"], pod["metadata"]["name"], _without_tracking
            )
        self.store.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])

    def _release(self, pod: Object) -> None:
        """Take the tracking finalizer off a pod that was counted, or whose job is gone."""
        meta = pod["metadata"]
        if TRACKING not in meta.get("finalizers", ()):
            return
        owner = next((o for o in meta.get("ownerReferences", ()) if o.get("kind") == "Job"), None)
        job = self.store.objects.get(("jobs", meta["namespace"], owner["name"])) if owner else None
        gone = (
            job is None
            or (owner and job["metadata"]["uid"] != owner["uid"])
            or "deletionTimestamp" in job["metadata"]
        )
        seen = () if job is None else job["status"].get("uncountedTerminatedPods", {}).get("seen", ())
        if gone or meta["uid"] in seen:
            self.store.update("pods", meta["namespace"], meta["name"], _without_tracking)

    def _expire(self, job: Object, now: float) -> None:
        limit = job["spec"].get("ttlSecondsAfterFinished")
        ending = condition_of(job, "Complete") or condition_of(job, "Failed")
        if limit is not None and ending and now - seconds_of(ending["lastTransitionTime"]) >= limit:
            meta = job["metadata"]
            self.store.delete("jobs", meta["namespace"], meta["name"], policy="Background")


def _without_tracking(pod: Object) -> None:
    pod["metadata"]["finalizers"] = [f for f in pod["metadata"].get("finalizers", ()) if f != TRACKING]


def _index(pod: Object) -> int | None:
    text = pod["metadata"].get("labels", {}).get(INDEX)
    return int(text) if text is not None else None


def _code_fits(rule: dict[str, Any], status: dict[str, Any]) -> bool:
    ended = status.get("state", {}).get("terminated")
    if not ended or rule.get("containerName", status["name"]) != status["name"]:
        return False
    code = ended.get("exitCode", 0)
    return code != 0 and (code in rule["values"]) == (rule["operator"] == "In")
