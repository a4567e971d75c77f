"""Find and end every process that belongs to one private installation.

Airflow's workers and the jobs that they start make sessions of their own, so neither a process group nor the
tree of children alone finds them all: a child whose parent died belongs to nobody's tree any more. A process
belongs to the installation if it is a descendant or a member of the session of its first process, or if its
environment names the installation's folder as AIRFLOW_HOME or as the place of a training job.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

LookupFailed = (psutil.Error, OSError)
"""What the operating system answers for a process that is gone or not ours."""


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on at this moment."""
    import socket  # noqa: PLC0415  (the only use)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _in_session(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session
    except OSError:
        return False


def _marked(process: psutil.Process, folder: Path) -> bool:
    try:
        environment = process.environ()
    except LookupFailed:
        return False
    if environment.get("AIRFLOW_HOME") == str(folder):
        return True
    job = [v for k, v in environment.items() if k.startswith("PRETRAIN_ARCHIVE_")]
    return any(value.startswith(f"{folder}{os.sep}") for value in job)


def _ancestors() -> set[int]:
    try:
        return {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    except LookupFailed:
        return {os.getpid()}


def family(first: int | None, folder: Path) -> list[psutil.Process]:
    """Every living process of the installation in ``folder`` whose first process is ``first``.

    Never this process or one that it descends from, even where their environment names the folder.
    """
    spared = _ancestors()
    found: dict[int, psutil.Process] = {}
    if first is not None:
        try:
            leader = psutil.Process(first)
            found = {p.pid: p for p in [leader, *leader.children(recursive=True)]}
        except LookupFailed:
            found = {}
    for process in psutil.process_iter():
        if (first is not None and _in_session(process.pid, first)) or _marked(process, folder):
            found[process.pid] = process
    return [p for pid, p in found.items() if pid not in spared and _alive(p)]


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except LookupFailed:
        return False


def end(first: int | None, folder: Path, *, patience: float = 15.0) -> list[str]:
    """End the whole family: politely, then by force; return what is left.

    That is nothing, unless the system refuses. SIGTERM goes to everybody at once: a scheduler that is asked
    alone waits for its tasks.
    """
    deadline = time.monotonic() + patience
    asked: set[int] = set()
    known: dict[int, psutil.Process] = {}
    while time.monotonic() < deadline:
        alive = _update(known, family(first, folder))
        if not alive:
            return []
        _signal((p for p in alive if p.pid not in asked), force=False)
        asked |= {p.pid for p in alive}
        if _only_waiting(psutil.wait_procs(alive, timeout=0.3)[1]):
            break
    for _ in range(20):
        alive = _update(known, family(first, folder))
        if not alive:
            return []
        _signal(alive, force=True)
        psutil.wait_procs(alive, timeout=0.5)
    return [f"{p.pid} {' '.join(p.cmdline()[:4])}" for p in known.values() if _alive(p)]


def _only_waiting(processes: list[psutil.Process]) -> bool:
    """True if all that is left are idle executor workers and the scheduler that waits for them.

    An idle worker of Airflow 3.3 does not end on SIGTERM, and nothing is lost when it is killed.
    """
    try:
        idle = {p.pid: p.ppid() for p in processes if "LocalExecutor: <idle>" in " ".join(p.cmdline())}
    except LookupFailed:
        return False
    return bool(idle) and all(p.pid in idle or p.pid in idle.values() for p in processes)


def _update(known: dict[int, psutil.Process], now: Iterable[psutil.Process]) -> list[psutil.Process]:
    known.update({p.pid: p for p in now})
    return [p for p in known.values() if _alive(p)]


def _signal(processes: Iterable[psutil.Process], *, force: bool) -> None:
    for process in processes:
        try:
            if force:
                process.kill()
            else:
                process.terminate()
        except LookupFailed:
            continue
