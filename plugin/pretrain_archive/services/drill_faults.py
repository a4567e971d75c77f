"""What a recovery drill does to a job: end a worker, a node, freeze a worker, cut a node's network; once, at a step."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pretrain_archive.compute.events import Place, read_lines, step_of
from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.compute.namespaces import Network
from pretrain_archive.compute.wrapper import descendants, send
from pretrain_archive.domain.identity import utc_now

Fault = Literal["worker_exit", "worker_frozen", "node_lost", "network_cut"]
POLL_SECONDS = 0.01


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
    """Follows a job's event file and injects the fault when a step is reached. Use as a context around the launch.

    Only processes that carry the attempt's own variables are ever signalled.
    """

    def __init__(
        self, fault: Fault, *, at_step: int, run_uid: str, attempt: int, events: Path, network: Network | None,
        node: int, say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.fault, self.at_step, self.events, self.network, self.node = fault, at_step, events, network, node
        self.run_uid, self.attempt, self.say = run_uid, attempt, say
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
            lines, place = read_lines(self.events, place)
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
            detail = self._act()
        except Exception as error:  # noqa: BLE001 (a thread: the drill must say that nothing was injected)
            self.problem = f"the fault could not be injected: {type(error).__name__}: {error}"
            return
        self.injected = Injected(detail=detail, step=step, at=at)
        self.say(f"drill: {detail} at step {step}")

    def _act(self) -> str:
        if self.fault == "network_cut":
            assert self.network is not None
            self.network.cut(self.node)
            return f"the link of node {self.node} was cut"
        members = members_of(self.run_uid, self.attempt)
        mine = [m for m in members if m.node == self.node]
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
