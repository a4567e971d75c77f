# ruff: noqa: UP006, UP031, UP035, UP045, B905 (old images carry old Pythons)
# ruff: noqa: PTH100, PTH109, PTH119, PTH120, PTH123, PTH208, SIM105, PLR0402 (one light file; os.path is enough)
"""Start a training program, watch it, and leave nothing of it behind.

One file, standard library only, Python 3.8 or newer: any image can carry it. It imports nothing of the package
that ships it. ``python wrapper.py --status FILE [options] -- command…`` starts the command in a session of its
own and appends JSON lines to the status file (each fsynced): ``environment``, ``program_started``,
``heartbeat``, ``libraries``, ``signal``, ``ended``. ``python wrapper.py --probe`` prints the environment alone.

On Linux the wrapper is the *subreaper* of everything the program starts (prctl(2), PR_SET_CHILD_SUBREAPER):
an orphan, also one in a new session, becomes its child, so the whole tree can be found and ended. It follows
its parent: when that is killed, the tree ends. Elsewhere the process group of the program stands for the tree.

Does not: restart anything, judge whether training succeeded, or record a variable that is not on the list.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

LINUX = sys.platform.startswith("linux")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_SECONDS = (
    1.0  # with the grace time below four seconds: Airflow kills the task five seconds after SIGTERM
)
LINGER_SECONDS = 2.0  # what helpers of a program that is gone (resource trackers) get to end by themselves
QUIET_SIGNALS = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE))
PARENT_SIGNAL = signal.SIGUSR2


def now() -> str:
    """The time as RFC 3339 in UTC with microseconds."""
    moment = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + ".%06dZ" % int(moment % 1 * 1e6)


# -- processes -----------------------------------------------------------------------------------------


def prctl(option: int, value: int) -> bool:
    """Set a process attribute of Linux; False where it does not exist or is refused."""
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def stat_of(pid: int) -> Optional[Tuple[str, int, int, int, str]]:
    """State, parent, start time (clock ticks since boot), CPU ticks and name of a process; None if gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            head, _, tail = file.read().rpartition(b") ")
    except OSError:
        return None
    rest = tail.split()
    if len(rest) < 20:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    return rest[0].decode(), int(rest[1]), int(rest[19]), int(rest[11]) + int(rest[12]), name


def descendants(root: int) -> Dict[int, int]:
    """Every living descendant of ``root`` with its start time; empty without /proc."""
    children: Dict[int, List[int]] = {}
    starts: Dict[int, int] = {}
    alive = set()
    for entry in os.listdir("/proc") if LINUX else ():
        found = stat_of(int(entry)) if entry.isdigit() else None
        if found:
            children.setdefault(found[1], []).append(int(entry))
            starts[int(entry)] = found[2]
            if found[0] not in "ZX":
                alive.add(int(entry))
    tree: Dict[int, int] = {}
    queue = [root]
    while queue:
        for child in children.get(queue.pop(), ()):
            queue.append(child)
            if child in alive:
                tree[child] = starts[child]
    return tree


def send(pid: int, start: int, number: int) -> bool:
    """Signal exactly the process that had this start time; False if it is gone or another one."""
    try:
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    except OSError:
        handle = -1
    try:
        found = stat_of(pid)
        if not found or found[2] != start:
            return False
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)  # type: ignore[attr-defined,unused-ignore]
        else:
            os.kill(pid, number)
    except OSError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True


# -- environment ---------------------------------------------------------------------------------------


def run_text(argv: List[str], cwd: Optional[str] = None, seconds: float = 20) -> Optional[str]:
    """Standard output of a small command, or None if it is missing, fails or is too slow."""
    try:
        done = subprocess.run(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=seconds, check=False, env=dict(os.environ, GIT_OPTIONAL_LOCKS="0"),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def interpreter_of(command: List[str], path: Optional[str] = None) -> Optional[str]:
    """The Python that a command runs: itself, or the one its ``#!`` line names; None if neither is a Python."""
    found = shutil.which(command[0], path=path) if command else None
    if not found:
        return None
    if re.match(r"python[0-9.]*$|pypy[0-9.]*$", os.path.basename(found)):
        return found
    try:
        with open(found, "rb") as file:
            line = file.readline(512)
    except OSError:
        return None
    words = line[2:].decode("utf-8", "replace").split() if line[:2] == b"#!" else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return interpreter_of(words[:1], path) if words and "python" in os.path.basename(words[0]) else None


def python_facts() -> Dict[str, Any]:
    """Version and installed distributions of this interpreter."""
    import importlib.metadata as metadata  # noqa: PLC0415 (slow, and only the probe needs it)

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    packages: Dict[str, str] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:  # the first on the path is the one that is imported
            packages.setdefault(re.sub(r"[-_.]+", "-", str(name)).lower(), str(distribution.version))
    facts = {"version": platform.python_version(), "implementation": platform.python_implementation()}
    return {"python": facts, "packages": dict(sorted(packages.items()))}


def accelerators() -> List[Dict[str, Any]]:
    """Accelerators that nvidia-smi or npu-smi name; empty if neither tool exists."""
    found: List[Dict[str, Any]] = []
    query = "--query-gpu=index,uuid,name,driver_version,memory.total"
    for line in (run_text(["nvidia-smi", query, "--format=csv,noheader,nounits"]) or "").splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 5:
            keys = ("index", "uuid", "name", "driver", "memory_mib")
            found.append(dict(zip(keys, cells), vendor="nvidia"))
    for line in (run_text(["npu-smi", "info", "-m"]) or "").splitlines():
        match = re.match(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S.*)$", line)
        if match:
            found.append(
                {"vendor": "ascend", "index": match[3], "uuid": match[1] + "/" + match[2], "name": match[4]}
            )
    return found


def cpu_model() -> Optional[str]:
    """The CPU's name as the kernel gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            match = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", file.read(200_000), re.MULTILINE)
    except OSError:
        return (
            (run_text(["sysctl", "-n", "machdep.cpu.brand_string"]) or "").strip()
            or platform.processor()
            or None
        )
    return match[1].strip() if match else platform.machine()


def git_facts(folder: str) -> Optional[Dict[str, Any]]:
    """Commit of the folder and whether tracked files differ from it; None outside a repository."""
    commit = run_text(["git", "-C", folder, "rev-parse", "HEAD"])
    if not commit:
        return None
    changed = run_text(["git", "-C", folder, "status", "--porcelain", "--untracked-files=no"])
    return {"commit": commit.strip(), "dirty": None if changed is None else bool(changed.strip())}


def masked(value: str) -> str:
    """A variable's value without the password of a URL in it."""
    return re.sub(r"://[^/@\s]+@", "://***@", value)


def host_facts(folder: str, allowed: List[str]) -> Dict[str, Any]:
    """Machine, accelerators, git state, image and allow-listed variables."""
    try:
        memory: Optional[int] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory = None
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "platform": {
            "system": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "libc": " ".join(platform.libc_ver()).strip() or None,
        },
        "node": platform.node(),
        "cpu": {"model": cpu_model(), "count": os.cpu_count(), "usable": usable},
        "memory_bytes": memory,
        "accelerators": accelerators(),
        "git": git_facts(folder),
        "image": os.environ.get("PRETRAIN_ARCHIVE_IMAGE") or None,
        "variables": {name: masked(os.environ[name]) for name in sorted(allowed) if name in os.environ},
    }


def observe(interpreter: Optional[str], folder: str, allowed: List[str]) -> Dict[str, Any]:
    """The environment; what the program's interpreter cannot tell is None (unrecorded)."""
    facts: Dict[str, Any] = {"python": None, "packages": None}
    if interpreter and os.path.abspath(interpreter) == os.path.abspath(sys.executable):
        facts = python_facts()
    elif interpreter:
        text = run_text([interpreter, os.path.abspath(__file__), "--probe-python"], cwd=folder, seconds=60)
        try:
            facts = json.loads(text) if text else facts
        except ValueError:
            pass
    facts.update(host_facts(folder, allowed))
    return facts


def loaded_libraries(pids: List[int]) -> Dict[str, str]:
    """Shared libraries in the processes' memory: name → version in its file name, or the package it is from."""
    libraries: Dict[str, str] = {}
    for pid in pids:
        try:
            with open("/proc/%d/maps" % pid, encoding="utf-8", errors="replace") as file:
                paths = {line.split(None, 5)[5].strip() for line in file if ".so" in line and "/" in line}
        except (OSError, IndexError):
            continue
        for path in paths:
            package = re.search(r"/(?:site|dist)-packages/([^/]+)/", path)
            match = re.match(r"(.+?)(?:[-.](\d[\d.]*))?\.so(?:\.(\d[\d.]*))?$", os.path.basename(path))
            if package and "cpython" in path:
                libraries.setdefault(package[1], "python package")
            elif match and "/lib-dynload/" not in path:
                libraries[match[1]] = match[3] or match[2] or (package[1] if package else "")
    return libraries


# -- the wrapper ---------------------------------------------------------------------------------------


class Status:
    """The status file: one JSON document a line, on disk before the call returns."""

    def __init__(self, path: str) -> None:
        self.handle = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o644
        )
        self.failures = 0

    def write(self, status: str, **facts: Any) -> None:
        """Append a line; a full disk is counted, never raised: the tree must still be watched and ended."""
        line = json.dumps(dict(facts, status=status, at=now()), sort_keys=True) + "\n"
        try:
            os.write(self.handle, line.encode("utf-8", "backslashreplace"))
            os.fsync(self.handle)
        except OSError:
            self.failures += 1


class Wrapper:
    """One program, from its start until nothing of its tree is left."""

    def __init__(self, options: argparse.Namespace, command: List[str]) -> None:
        self.options, self.command = options, command
        self.status = Status(options.status)
        self.parent = options.parent or os.getppid()
        self.stopping = ""
        self.asked_at = 0.0
        self.alone = False  # the program ended by itself, nobody asked
        self.ending = False
        self.program = 0
        self.code: Optional[int] = None
        self.hidden: List[Dict[str, Any]] = []
        self.names: Dict[int, str] = {}
        self.libraries: Dict[str, str] = {}
        self.begin = time.monotonic()

    def run(self) -> int:
        """Run the command; return its exit code, 128 + signal, or 1 for a failure that it hid."""
        wakeup = self.listen()
        interpreter = interpreter_of(self.command)
        self.environment(self.options.moment, interpreter)
        if not self.stopping and self.start():
            self.watch(wakeup)
            self.settle()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not self.stopping and self.code is not None:
            self.environment("end", interpreter)
        left = sorted(descendants(os.getpid()))
        code = self.code
        self.status.write(
            "ended",
            reason="exited" if self.alone else self.stopping or "not_started",
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            hidden_failures=self.hidden[:20], left_behind=left, seconds=round(time.monotonic() - self.begin, 3),
            cpu_seconds=round(usage.ru_utime + usage.ru_stime, 3),
            max_rss_bytes=usage.ru_maxrss * (1024 if LINUX else 1), unwritten_lines=self.status.failures,
        )  # fmt: skip
        if code is None:
            return 143 if self.stopping else 127
        return 128 - code if code < 0 else (code or (1 if self.hidden else 0))

    def listen(self) -> int:
        """Follow the parent and turn signals into wake-ups; return the file descriptor to wait on."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        os.set_blocking(reader, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.asked)
        signal.signal(PARENT_SIGNAL, lambda *_: None)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if LINUX:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            prctl(PR_SET_PDEATHSIG, PARENT_SIGNAL)
        self.check_limits()
        return reader

    def asked(self, number: int, _frame: Any) -> None:
        """A signal asks for the end."""
        if not self.stopping:
            self.asked_at = time.monotonic()
            self.stopping = "parent_lost" if os.getppid() != self.parent else "signal"
            self.status.write("signal", signal=number, reason=self.stopping)

    def check_limits(self) -> None:
        """The parent must live, and time must be left."""
        if not self.stopping and os.getppid() != self.parent:
            self.stopping, self.asked_at = "parent_lost", time.monotonic()
            self.status.write("signal", signal=None, reason="parent_lost")
        if not self.stopping and 0 < self.options.max_seconds < time.monotonic() - self.begin:
            self.stopping, self.asked_at = "deadline", time.monotonic()
            self.status.write("signal", signal=None, reason="deadline")

    def environment(self, moment: str, interpreter: Optional[str]) -> None:
        """Write what is found now; at the end with the libraries that were loaded."""
        facts = observe(interpreter, self.options.folder, self.options.allow)
        if moment == "end":
            facts["libraries"] = dict(sorted(self.libraries.items()))
        self.status.write("environment", moment=moment, environment=facts)

    def start(self) -> bool:
        """Start the program as leader of a session that dies with this wrapper."""
        try:
            process = subprocess.Popen(
                self.command, cwd=self.options.folder, stdin=subprocess.DEVNULL, close_fds=True, preexec_fn=detach  # noqa: PLW1509 (no threads here)
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            self.status.write("not_started", problem=str(error))
            return False
        process.returncode = 0  # reaped by reap(), not by subprocess
        self.program = process.pid
        found = stat_of(self.program)
        own = stat_of(os.getpid())
        self.status.write(
            "program_started", pid=self.program, start=found[2] if found else None, wrapper=os.getpid(),
            wrapper_start=own[2] if own else None, boot=boot_id(),
        )  # fmt: skip
        return True

    def watch(self, wakeup: int) -> None:
        """Wait until the program ended or somebody asks for its end."""
        beat, count = time.monotonic(), 0
        while self.code is None and not self.stopping:
            if time.monotonic() >= beat:
                self.heartbeat(sample=count % 4 == 0)
                beat, count = time.monotonic() + self.options.heartbeat, count + 1
            ready, _, _ = select.select([wakeup], [], [], 0.2)
            if ready:
                os.read(wakeup, 4096)
            self.reap()
            self.check_limits()
        self.alone = not self.stopping

    def heartbeat(self, *, sample: bool) -> None:
        """Processes, memory and CPU time of the tree; now and then the loaded libraries."""
        tree = descendants(os.getpid())
        ticks, memory = 0, 0
        for pid in tree:
            found = stat_of(pid)
            if found:
                ticks += found[3]
                self.names[pid] = found[4]
            try:
                with open("/proc/%d/statm" % pid, "rb") as file:
                    memory += int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            except (OSError, IndexError):
                pass
        self.status.write(
            "heartbeat", processes=len(tree), rss_bytes=memory,
            cpu_seconds=round(ticks / os.sysconf("SC_CLK_TCK"), 2), accelerators=utilisation() if sample else [],
        )  # fmt: skip
        known = len(self.libraries)
        if sample:
            self.libraries.update(loaded_libraries(list(tree)))
        if len(self.libraries) > known:
            self.status.write("libraries", libraries=dict(sorted(self.libraries.items())))

    def reap(self) -> None:
        """Collect ended children; an orphan that failed is a failure that the program hid."""
        while True:
            try:
                pid, result = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.WEXITSTATUS(result) if os.WIFEXITED(result) else -os.WTERMSIG(result)
            if pid == self.program:
                self.code = code
            elif code and not self.ending and -code not in QUIET_SIGNALS:
                self.hidden.append({
                    "pid": pid, "name": self.names.get(pid, ""),
                    "exit_code": code if code > 0 else None, "signal": -code if code < 0 else None,
                })  # fmt: skip

    def settle(self) -> None:
        """End what is left: give a finished program's helpers a moment, then ask, then kill."""
        if not self.stopping:
            self.wait_gone(LINGER_SECONDS if self.code == 0 else 0.2)
        self.ending = True
        if self.tree():
            self.status.write("ending_tree", processes=sorted(self.tree()))
        grace = min(self.options.grace, 1.0)
        if self.stopping:  # what passed since the signal (a slow tool was asked) is taken from the grace time
            grace = max(0.5, self.options.grace - (time.monotonic() - self.asked_at))
        self.signal_tree(signal.SIGTERM)
        self.signal_tree(signal.SIGCONT)
        if not self.wait_gone(grace):
            end = time.monotonic() + KILL_SECONDS
            while time.monotonic() < end and not self.wait_gone(0.02):
                self.signal_tree(signal.SIGKILL)
        self.reap()

    def tree(self) -> Dict[int, int]:
        """What is alive of the program."""
        return descendants(os.getpid())

    def signal_tree(self, number: int) -> None:
        """Signal every process of the tree, and nothing else."""
        if LINUX:
            for pid, start in self.tree().items():
                send(pid, start, number)
        elif self.program:
            try:
                os.killpg(self.program, number)
            except OSError:
                pass

    def wait_gone(self, seconds: float) -> bool:
        """Reap until the tree is gone; False if it is not after ``seconds``."""
        end = time.monotonic() + seconds
        while True:
            self.reap()
            if not (self.tree() if LINUX else group_alive(self.program)):
                return True
            if time.monotonic() >= end:
                return False
            time.sleep(0.02)


def utilisation() -> List[Dict[str, Any]]:
    """Load and memory in use of each accelerator; empty without nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return []
    query = "--query-gpu=index,utilization.gpu,memory.used"
    text = run_text(["nvidia-smi", query, "--format=csv,noheader,nounits"], seconds=2) or ""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    return [dict(zip(("index", "percent", "memory_mib"), row)) for row in rows if len(row) == 3]


def group_alive(leader: int) -> bool:
    """Whether a process group still has members."""
    try:
        os.killpg(leader, 0)
    except OSError:
        return False
    return True


def boot_id() -> str:
    """The kernel's id of this boot, empty where there is none: process ids mean nothing after another one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def detach() -> None:
    """In the new child, before exec: own session, and death with the wrapper."""
    os.setsid()
    if LINUX:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(argv: List[str]) -> int:
    """Entry point; see the module docstring."""
    split: Callable[[str], List[str]] = lambda text: [name for name in text.split(",") if name]  # noqa: E731
    parser = argparse.ArgumentParser(prog="wrapper.py", description="start and watch a training program")
    parser.add_argument("--status", help="status file (JSON Lines)")
    parser.add_argument("--folder", default=os.getcwd(), help="working folder of the program")
    parser.add_argument("--allow", type=split, default=[], help="variables to record, separated by commas")
    parser.add_argument("--moment", default="start", choices=("start", "resume"))
    parser.add_argument("--parent", type=int, default=0, help="process to follow (default: the parent)")
    parser.add_argument("--grace", type=float, default=2.5, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("--heartbeat", type=float, default=5.0, help="seconds between heartbeats")
    parser.add_argument(
        "--max-seconds", type=float, default=0.0, help="end the program after so long; 0: never"
    )
    parser.add_argument("--probe", action="store_true", help="print the environment of this Python and end")
    parser.add_argument("--probe-host", action="store_true", help="the same without Python and packages")
    parser.add_argument("--probe-python", action="store_true", help="only Python and packages")
    at = argv.index("--") if "--" in argv else len(argv)
    options, command = parser.parse_args(argv[:at]), argv[at + 1 :]
    if options.probe_python:
        sys.stdout.write(json.dumps(python_facts()))
    elif options.probe or options.probe_host:
        facts = observe(None if options.probe_host else sys.executable, options.folder, options.allow)
        sys.stdout.write(json.dumps(facts))
    elif not options.status or not command:
        parser.error("--status FILE and -- COMMAND are needed")
    else:
        return Wrapper(options, command).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
