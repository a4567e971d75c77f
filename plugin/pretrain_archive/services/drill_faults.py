"""What a recovery drill does to a job: end a worker, a node, freeze a worker, cut a node's network; once, at a step."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pretrain_archive.compute.events import Place, read_lines, step_of
from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.compute.namespaces import Network
from pretrain_archive.compute.wrapper import descendants, send
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.storage.regular import NotRegularError

if TYPE_CHECKING:
    from pretrain_archive.compute.kubernetes.api import ClusterApi

Fault = Literal["worker_exit", "worker_frozen", "node_lost", "network_cut"]
POLL_SECONDS = 0.01
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, kw_only=True, slots=True)
class Injected:
    """What was done, at which reported step and when."""

    detail: str
    step: int
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A process of the job: its node, and its worker number or None for the node's agent."""

    pid: int
    start: int
    node: int
    worker: int | None


class Saboteur:
    """Follows a job's event file, also one that is not there yet, and strikes once when a step is reached.

    ``strike`` injects the fault and says what it did.
    """

    def __init__(
        self, *, at_step: int, events: Path, strike: Callable[[], str], say: Callable[[str], None]
    ) -> None:
        self.at_step, self.events, self.strike, self.say = at_step, events, strike, say
        self.injected: Injected | None = None
        self.problem = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drill", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self) -> None:
        """Stop following; a fault that was injected stays."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(10)

    def _run(self) -> None:
        place = Place()
        while not self._over.is_set():
            try:
                lines, place = read_lines(self.events, place)
            except (NotRegularError, OSError) as error:
                self.problem = f"the job's events cannot be followed: {error}"
                return
            told = (line.data for line in lines if line.data and line.data.get("event") == "metric")
            steps = [step_of(data.get("step")) for data in told]
            reached = max((step for step in steps if step is not None), default=0)
            if reached >= self.at_step:
                self._inject(reached)
                return
            time.sleep(POLL_SECONDS)

    def _inject(self, step: int) -> None:
        try:
            at = utc_now()
            detail = self.strike()
        except Exception as error:  # noqa: BLE001 (a thread: the drill must say that nothing was injected)
            self.problem = f"the fault could not be injected: {type(error).__name__}: {error}"
            return
        self.injected = Injected(detail=detail, step=step, at=at)
        self.say(f"drill: {detail} at step {step}")


@dataclass(frozen=True, kw_only=True)
class LocalStrike:
    """The fault on this machine. Only processes that carry the attempt's own variables are ever signalled."""

    fault: Fault
    run_uid: str
    attempt: int
    node: int
    network: Network | None

    def __call__(self) -> str:
        """Inject it and say what was done; ``LookupError`` if nobody is there to be hit."""
        if self.fault == "network_cut":
            if self.network is None:
                raise LookupError("no network was made")
            self.network.cut(self.node)
            return f"the link of node {self.node} was cut"
        mine = [m for m in members_of(self.run_uid, self.attempt) if m.node == self.node]
        workers = sorted((m for m in mine if m.worker is not None), key=lambda m: m.worker or 0)
        if not workers:
            raise LookupError(f"node {self.node} has no worker")
        victim = workers[-1]
        if self.fault == "node_lost":
            tree = {
                pid: start for m in mine for pid, start in ({m.pid: m.start} | descendants(m.pid)).items()
            }
            for pid, start in tree.items():
                send(pid, start, signal.SIGKILL)
            return f"node {self.node} was killed with its agent and {len(workers)} workers"
        number, done = (
            (signal.SIGKILL, "killed") if self.fault == "worker_exit" else (signal.SIGSTOP, "frozen")
        )
        if not send(victim.pid, victim.start, number):
            raise LookupError(f"worker {victim.worker} was gone already")
        return f"worker {victim.worker} on node {self.node} was {done}"


@dataclass(frozen=True, kw_only=True)
class PodStrike:
    """``worker_exit`` on a cluster: the pod of a node is deleted, with every worker in it."""

    api: ClusterApi
    namespace: str
    run_uid: str
    attempt: int
    node: int

    def __call__(self) -> str:
        """Delete the pod and say which; ``LookupError`` if there is none of that index."""
        labels = f"pretrain-archive/run={self.run_uid},pretrain-archive/attempt={self.attempt}"
        for pod in self.api.list("Pod", self.namespace, labels=labels):
            meta = pod.get("metadata", {})
            if str(meta.get("annotations", {}).get(INDEX, "0")) == str(self.node):
                self.api.delete("Pod", self.namespace, meta["name"])
                return f"pod {meta['name']} of node {self.node} was deleted"
        raise LookupError(f"node {self.node} has no pod")


def members_of(run_uid: str, attempt: int) -> list[Member]:
    """Agents and workers of the job, by the variables that ``nodes.py`` and torchrun gave them."""
    found = []
    for pid, start in processes_of(run_uid, attempt).items():
        variables = _variables(pid)
        if "DRILL_NODE" not in variables:
            continue
        worker = variables.get("RANK")
        found.append(
            Member(
                pid=pid,
                start=start,
                node=int(variables["DRILL_NODE"]),
                worker=int(worker) if worker else None,
            )
        )
    return found


def _variables(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (part.partition(b"=") for part in raw.split(b"\0") if b"=" in part)
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs}
