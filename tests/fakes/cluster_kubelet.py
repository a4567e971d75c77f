"""The kubelets of a fake cluster: a container is a real process of this machine, or is played by hand.

A process is found again by a variable in its environment, so that nothing of a pod is left when its pod is ended.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.cluster_conditions import ENDED, set_condition
from tests.fakes.cluster_processes import MARK, expanded, field_of, local_names, marked, send_signal
from tests.fakes.cluster_store import ApiError, Object, Store, stamp


@dataclass
class Container:
    """The one process of a pod that runs."""

    process: subprocess.Popen[bytes]
    began: float
    log: Path
    kill_at: float | None = None
    reason: str = ""


@dataclass
class Kubelet:
    """Starts, watches and ends what is placed on a node.

    ``mode`` is run, hand, or none: then a client plays the kubelet too.
    """

    store: Store
    say: Any
    mode: str = "run"
    cluster_id: str = ""
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="fake-kubelet-")))
    pulls: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    running: dict[str, Container] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def step(self) -> None:
        """Look at every pod that has a node once."""
        if self.mode == "none":
            return
        for pod in self.store.find("pods"):
            if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in self.lost:
                try:
                    with self.lock:
                        self._visit(pod)
                except ApiError as error:
                    if error.code not in (404, 409):
                        raise
        present = {found["metadata"]["uid"] for found in self.store.find("pods")}
        for uid in [uid for uid in self.running if uid not in present]:
            self._kill(uid)
            del self.running[uid]

    # -- one pod -------------------------------------------------------------------------------------

    def _visit(self, pod: Object) -> None:
        uid, ending = pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]
        if uid in self.running:
            self._watch(pod, self.running[uid], ending=ending)
        elif ending:
            self._let_go(pod)
        elif pod["status"].get("phase") == "Pending" and self.mode == "run":
            self._start(pod)

    def _start(self, pod: Object) -> None:
        container = pod["spec"]["containers"][0]
        waiting = self.pulls.get(container["image"])
        if waiting:
            reason, message = waiting[0] if len(waiting) == 1 else waiting.pop(0)
            if reason:
                self._waits(pod, reason, message)
                return
        words = [*container.get("command", ()), *container.get("args", ())]
        environment = self._environment(pod, container)
        words = [local_names(pod, expanded(word, environment)) for word in words]
        log = self.folder / f"{pod['metadata']['name']}.log"
        uid = pod["metadata"]["uid"]
        try:
            with log.open("ab") as out:
                process = subprocess.Popen(
                    words, cwd=container.get("workingDir") or self.folder, env=environment, stdin=subprocess.DEVNULL,
                    stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            self._ended(pod, 128, "StartError", message=f"failed to start container: {error}")
            return
        self.started.append(pod["metadata"]["name"])
        self.running[uid] = Container(process=process, began=self.store.clock(), log=log)
        self.report(pod, running=True)

    def _environment(self, pod: Object, container: Object) -> dict[str, str]:
        path = os.environ.get("PATH", "/usr/bin:/bin")
        made = {"PATH": path, "HOME": str(self.folder), MARK: f"{self.cluster_id}/{pod['metadata']['uid']}"}
        for variable in container.get("env", ()):
            value = variable.get("value", "")
            if source := (variable.get("valueFrom") or {}).get("fieldRef"):
                value = field_of(pod, source["fieldPath"])
            made[variable["name"]] = local_names(pod, expanded(value, made))
        return made

    def _watch(self, pod: Object, container: Container, *, ending: bool) -> None:
        uid = pod["metadata"]["uid"]
        code = container.process.poll()
        if code is None and ending:
            grace = pod["metadata"].get("deletionGracePeriodSeconds", 30)
            if container.kill_at is None:
                container.kill_at = time.monotonic() + grace
                send_signal(container.process.pid, signal.SIGTERM)
            elif time.monotonic() >= container.kill_at:
                self._kill(uid)
        elif code is not None:
            self._kill(uid)  # what the first process left behind goes with its container
            del self.running[uid]
            shown = 128 - code if code < 0 else code
            reason = container.reason or ("Completed" if shown == 0 else "Error")
            self._ended(
                pod, shown, reason, began=container.began, message=_last_words(pod, container.log, shown)
            )
            if ending:
                self._let_go(self.store.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def _let_go(self, pod: Object) -> None:
        """The last step of a deletion: the kubelet confirms that nothing runs."""
        meta = pod["metadata"]
        if pod["status"].get("phase") not in ENDED:
            self._ended(pod, 137, "Error") if self.mode == "run" else self._edit(pod, _set_phase("Failed"))
        self.store.delete("pods", meta["namespace"], meta["name"], grace=0)

    # -- status --------------------------------------------------------------------------------------

    def report(self, pod: Object, *, running: bool) -> None:
        """Write that the container runs."""
        now = self.store.clock()

        def edit(old: Object) -> None:
            old["status"] |= {
                "phase": "Running",
                "podIP": "127.0.0.1",
                "hostIP": "127.0.0.1",
                "startTime": stamp(now),
            }
            old["status"]["containerStatuses"] = [
                self._container(old, {"running": {"startedAt": stamp(now)}})
            ]
            for kind in ("Initialized", "ContainersReady", "Ready"):
                set_condition(old, kind, "True" if running else "False", now)

        self._edit(pod, edit)

    def _waits(self, pod: Object, reason: str, message: str) -> None:
        def edit(old: Object) -> None:
            old["status"]["containerStatuses"] = [
                self._container(old, {"waiting": {"reason": reason, "message": message}}, ready=False)
            ]

        self._edit(pod, edit)
        image = pod["spec"]["containers"][0]["image"]
        self.say(
            pod, "Failed", f'Failed to pull image "{image}": {message}', kind="Warning", source="kubelet"
        )

    def _ended(
        self, pod: Object, code: int, reason: str, *, began: float | None = None, message: str = ""
    ) -> None:
        now = self.store.clock()
        ended = {
            "exitCode": code, "reason": reason, "finishedAt": stamp(now),
            "startedAt": stamp(began if began is not None else now), **({"message": message} if message else {}),
        }  # fmt: skip

        def edit(old: Object) -> None:
            if old["status"].get("phase") in ENDED:
                return
            old["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
            old["status"].setdefault("startTime", stamp(began or now))
            old["status"]["containerStatuses"] = [self._container(old, {"terminated": ended}, ready=False)]
            for kind in ("ContainersReady", "Ready"):
                set_condition(old, kind, "False", now, "PodFailed" if code else "PodCompleted")

        self._edit(pod, edit)

    def _container(self, pod: Object, state: dict[str, Any], *, ready: bool = True) -> dict[str, Any]:
        container = pod["spec"]["containers"][0]
        image = container["image"]
        digest = image.partition("@")[2] or "sha256:" + hashlib.sha256(image.encode()).hexdigest()
        pulled = "waiting" not in state
        name = image.partition("@")[0]
        name = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
        return {
            "name": container["name"], "image": image, "imageID": f"{name}@{digest}" if pulled else "", "ready": ready,
            "restartCount": 0, "started": pulled, "state": state, "lastState": {},
        }  # fmt: skip

    def _edit(self, pod: Object, edit: Any) -> None:
        self.store.update("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], edit)

    # -- ends ----------------------------------------------------------------------------------------

    def kill_as(self, pod: Object, reason: str) -> None:
        """End a container at once, as the kernel does when memory is short."""
        with self.lock:
            if container := self.running.get(pod["metadata"]["uid"]):
                container.reason = reason
                self._kill(pod["metadata"]["uid"])
                return
        self._ended(pod, 137, reason)

    def forget_node(self, node: str) -> list[Object]:
        """The node is gone: its processes with it, and nobody reports anything of it any more."""
        with self.lock:
            self.lost.add(node)
            pods = [pod for pod in self.store.find("pods") if pod["spec"].get("nodeName") == node]
            for pod in pods:
                if self.running.pop(pod["metadata"]["uid"], None):
                    self._kill(pod["metadata"]["uid"])
        return pods

    def _kill(self, uid: str) -> None:
        for pid in marked(f"{self.cluster_id}/{uid}"):
            send_signal(pid, signal.SIGKILL)
        if (container := self.running.get(uid)) is not None:
            send_signal(container.process.pid, signal.SIGKILL)

    def close(self) -> list[int]:
        """End everything of this cluster; returns the processes that were ended."""
        with self.lock:
            ended = sorted(marked(f"{self.cluster_id}/"))
            until = time.monotonic() + 10
            while (alive := marked(f"{self.cluster_id}/")) and time.monotonic() < until:
                for pid in alive:
                    send_signal(pid, signal.SIGKILL)
                time.sleep(0.02)
            for container in self.running.values():
                container.process.wait(timeout=10)
            self.running.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
        return ended


def _last_words(pod: Object, log: Path, code: int) -> str:
    """The termination message: the end of the log of a container that failed, where its policy says so."""
    policy = pod["spec"]["containers"][0].get("terminationMessagePolicy")
    return (
        log.read_bytes()[-2048:].decode("utf-8", "replace")
        if code and policy == "FallbackToLogsOnError"
        else ""
    )


def _set_phase(phase: str) -> Any:
    def edit(pod: Object) -> None:
        pod["status"]["phase"] = phase

    return edit
