"""Faults of the system at chosen syscalls, by strace: the process is killed there, or the call fails.

``work`` runs in a fork of the test process, so a case costs no start-up. Only syscalls on ``paths`` (files, and
folders for what is made or removed in them) count and are hit. Usage::

    seen = observe(work, paths=[...])              # a run without a fault: syscall → how often
    for fault in plan(seen):
        run(work, fault=fault, paths=[...])        # then: check that nothing half-done is visible
        assert run(work, paths=[...]).code == 0    # and that the retry succeeds, once
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

KILL = "kill"
READS = ("read", "pread64", "openat", "fstat", "newfstatat", "getdents64", "access", "faccessat2")
WRITES = (
    "write",
    "pwrite64",
    "writev",
    "fsync",
    "fdatasync",
    "ftruncate",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "mkdir",
    "mkdirat",
    "rmdir",
    "fallocate",
    "copy_file_range",
    "sendfile",
)
OTHERS = ("lseek", "flock", "fcntl", "close", "chmod", "fchmod", "fchmodat", "utimensat", "fchown")
SYSCALLS = (*READS, *WRITES, *OTHERS)
# What may fail for want of space: also a call that only makes a name, or flushes what was buffered.
SPACE = {name for name in WRITES if not name.startswith(("unlink", "rmdir"))} | {"openat"}
FAILS = {*READS, *WRITES}

_ANYONE_MAY_TRACE = 0x59616D61  # PR_SET_PTRACER, see prctl(2)
_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Fault:
    """At the ``when``-th ``syscall`` (from 1): ``kill`` the process, or fail with an errno name."""

    syscall: str
    action: str
    when: int

    def __str__(self) -> str:
        return f"{self.syscall}-{self.when}-{self.action}"

    def inject(self) -> str:
        """The strace expression."""
        how = "signal=SIGKILL" if self.action == KILL else f"error={self.action}"
        return f"inject={self.syscall}:{how}:when={self.when}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the work ended: its exit code (1 for an exception, told in ``text``), negative for a signal."""

    code: int
    text: str = ""
    seen: Mapping[str, int]


def require_strace() -> None:
    """Skip where strace is missing, except in CI."""
    if shutil.which("strace") is None:
        if os.environ.get("CI"):
            pytest.fail("strace is not installed")
        pytest.skip("strace is not installed")


def plan(
    seen: Mapping[str, int], *, each: int | None = 3, actions: Sequence[str] = (KILL, "EIO", "ENOSPC")
) -> list[Fault]:
    """Faults that cover every syscall kind that was seen, at up to ``each`` places spread over the run.

    With ``each`` None, or ``EVERY_FAULT=1`` in the environment (`make faults`, the nightly sweep), each single call
    is a place.
    """
    faults = []
    for syscall, count in sorted(seen.items()):
        steps = count if each is None or os.environ.get("EVERY_FAULT") else each
        places = sorted({1 + round(step * (count - 1) / max(1, steps - 1)) for step in range(steps)})
        for action in actions:
            if action == KILL or (syscall in FAILS and (action != "ENOSPC" or syscall in SPACE)):
                faults += [Fault(syscall=syscall, action=action, when=when) for when in places]
    return faults


def observe(work: Callable[[], object], *, paths: Iterable[Path]) -> Mapping[str, int]:
    """Run the work without a fault and count its syscalls on ``paths``."""
    outcome = run(work, paths=paths)
    assert outcome.code == 0, outcome.text
    return outcome.seen


def run(work: Callable[[], object], *, paths: Iterable[Path], fault: Fault | None = None) -> Outcome:
    """Run the work in a child under strace, with a fault or none."""
    require_strace()
    folder = Path(tempfile.mkdtemp(prefix="strace-"))
    ready, go = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(go)
        _child(work, ready, folder / "text")
    os.close(ready)
    try:
        with _traced(child, folder / "log", paths, fault):
            os.write(go, b"x")
            status = os.waitpid(child, 0)[1]
        text = (folder / "text").read_text() if (folder / "text").exists() else ""
        return Outcome(code=os.waitstatus_to_exitcode(status), text=text, seen=_count(folder / "log"))
    finally:
        os.close(go)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _child(work: Callable[[], object], ready: int, text: Path) -> None:
    """Wait until strace is attached, do the work, and leave without the test runner's exit handlers."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_ANYONE_MAY_TRACE, ctypes.c_ulong(-1 & 0xFFFFFFFFFFFFFFFF), 0, 0, 0)
        os.read(ready, 1)
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - told to the parent
        text.write_text(traceback.format_exc())
    finally:
        os._exit(code)


@contextlib.contextmanager
def _traced(child: int, log: Path, paths: Iterable[Path], fault: Fault | None):  # type: ignore[no-untyped-def]
    """Attach strace and wait until it says so; afterwards wait for it to end with its tracee."""
    names = ",".join(f"?{name}" for name in SYSCALLS)
    where = [item for path in paths for item in ("-P", str(path))]
    inject = ["-e", fault.inject()] if fault else []
    tracer = subprocess.Popen(
        ["strace", "-f", "-p", str(child), "-o", log, "-e", f"trace={names}", *where, *inject],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracer.stderr is not None
    said = ""
    while "attached" not in said:
        line = tracer.stderr.readline()
        if not line:
            os.kill(child, signal.SIGKILL)
            raise RuntimeError(f"strace did not attach: {said}")
        said += line
    drain = threading.Thread(target=tracer.stderr.read, daemon=True)
    drain.start()
    watchdog = threading.Timer(_SECONDS, lambda: os.kill(child, signal.SIGKILL))
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()
        tracer.wait(timeout=_SECONDS)
        drain.join(timeout=5)
        tracer.stderr.close()


def _count(log: Path) -> Mapping[str, int]:
    text = log.read_text(errors="replace") if log.exists() else ""
    return Counter(re.findall(r"^\d+ +(\w+)\(", text, flags=re.MULTILINE))
