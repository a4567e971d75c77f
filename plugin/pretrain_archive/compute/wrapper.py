# ruff: noqa: UP006, UP017, UP031, UP035, UP045, B905, SIM105 (old images carry old Pythons)
# ruff: noqa: PTH100, PTH109, PTH116, PTH117, PTH118, PTH119, PTH120, PTH122, PTH123, PTH208 (os.path is enough)
"""Start a training program, watch it, and leave nothing of it behind.

One file, standard library only, Python 3.8 or newer: any image can carry it. It imports nothing of the package
that ships it. ``python wrapper.py --status FILE [options] -- command…`` starts the command in a session of its
own and appends JSON lines to the status file (each fsynced): ``environment``, ``program_started``,
``heartbeat``, ``libraries``, ``stop``, ``signal``, ``not_started``, ``ended``. What the worker is, is told by
``probe.py`` beside this file, in a process of its own that may be slow or fail without harm to the program.

Several workers of an attempt share a folder: ``--worker 1`` writes ``status-1.jsonl`` beside worker 0's file. A
status file that has lines already means that this worker is started again: the moment is ``resume``.

Before the start: ``--not-after`` (a launch token that is over starts nothing) and ``--expect`` (code that is not
the signed code is not started). While it runs: ``--stop`` ends the program by rules that need nobody else.

On Linux the wrapper is the *subreaper* of everything the program starts (prctl(2), PR_SET_CHILD_SUBREAPER):
an orphan, also one in a new session, becomes its child, so the whole tree can be found and ended. It follows
its parent: when that is killed, the tree ends. Elsewhere the process group of the program stands for the tree.

Does not: restart anything, judge whether training succeeded, or record a variable that is not on the list.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import math
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import deque
from datetime import datetime, timezone
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

LINUX = sys.platform.startswith("linux")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_SECONDS = (
    1.0  # with the grace time below four seconds: Airflow kills the task five seconds after SIGTERM
)
LINGER_SECONDS = 2.0  # what helpers of a program that is gone (resource trackers) get to end by themselves
QUIET_SIGNALS = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE))
PARENT_SIGNAL = signal.SIGUSR2
PROBE_SECONDS = 12.0
START_SECONDS = 0.9  # what the start waits for the probe: tools of accelerators can take long, and time costs
END_SECONDS = 4.0  # what the end waits for it
HURRY_SECONDS = 0.4  # what it gets to say what it knows by then
CHECK_SECONDS = 0.5  # between two looks at the stop rules
MOST_PROBED, MOST_EVENTS, MOST_LINE = 8 << 20, 1 << 20, 256 << 10


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


class Probing:
    """A probe of this worker in a process of its own, started at once and read when it is done.

    It runs under the program's interpreter; if that cannot run it, under this one, without Python's facts. The
    process group of each is added to ``groups``.
    """

    def __init__(self, interpreter: Optional[str], folder: str, rest: List[str], groups: Deque[int]) -> None:
        self.interpreter, self.folder = interpreter or sys.executable, folder
        self.rest = ["--folder", folder, "--seconds", "%g" % PROBE_SECONDS, *rest]
        self.host_only = interpreter is None
        self.facts: Optional[Dict[str, Any]] = None
        self.problem = ""
        self.groups = groups
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.begin = time.monotonic()
        self.start()

    def start(self) -> None:
        """Start the probe's process; if it cannot be started the facts stay unrecorded."""
        probe = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.py")
        argv = [self.interpreter, probe, *self.rest, *(["--host"] if self.host_only else [])]
        self.text = b""
        try:
            self.process = subprocess.Popen(
                argv, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                close_fds=True, preexec_fn=detach,  # noqa: PLW1509 (no threads here)
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            self.done(str(error))
            return
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.process.returncode = 0  # reaped by Wrapper.reap(), not by subprocess
        self.group = self.process.pid
        self.groups.append(self.group)

    def poll(self, seconds: float) -> bool:
        """Read what it printed, waiting so long at most; True once the facts (or the lack of them) are known."""
        end = time.monotonic() + seconds
        while self.facts is None:
            left = end - time.monotonic()
            stream = self.process.stdout if self.process else None
            if stream is None:
                return False
            ready, _, _ = select.select([stream], [], [], max(0.0, left))
            block = os.read(stream.fileno(), 1 << 20) if ready else None
            if block:
                self.text += block
            if block == b"":
                self.finish()
            elif len(self.text) > MOST_PROBED or time.monotonic() - self.begin > PROBE_SECONDS + 5:
                self.cancel("it printed too much or took too long")
            elif left <= 0:
                break
        return self.facts is not None

    def finish(self) -> None:
        """It printed all it had to say: facts, or another try with this interpreter."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.sweep()
        try:
            facts = json.loads(self.text.decode("utf-8", "replace"))
        except ValueError:
            facts = None
        if isinstance(facts, dict):
            self.facts = facts
        elif self.interpreter != sys.executable:
            self.interpreter, self.host_only = sys.executable, True
            self.start()
        else:
            self.done("it printed nothing that could be read")

    def hurry(self) -> None:
        """Take what it knows by now, or give up."""
        if self.facts is None and self.process is not None:
            try:
                os.kill(self.process.pid, signal.SIGTERM)  # not collected as long as it prints
            except OSError:
                pass
            if not self.poll(HURRY_SECONDS):
                self.cancel("it took too long")

    def cancel(self, problem: str) -> None:
        """Give up: end the probe with everything it asked."""
        if self.facts is not None or self.process is None:
            return
        self.sweep()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.done(problem)

    def sweep(self) -> None:
        """End what is left of it: tools that hang."""
        try:
            os.killpg(self.group, signal.SIGKILL)
        except OSError:
            pass

    def done(self, problem: str) -> None:
        """Nothing is known, and why."""
        self.facts, self.problem, self.process = {}, problem, None


NAMED_LIBRARIES = re.compile(
    r"lib(cuda|cudart|nccl|cublas|cublasLt|cudnn|hccl|ascendcl|rccl|amdhip64|mpi|c|ucp|gloo)[.-]"
)
"""Libraries whose version is worth a look into the file."""


def loaded_libraries(pids: List[int], paths: Dict[str, str]) -> Dict[str, str]:
    """Shared libraries in the processes' memory: name → version in its file name, or the package it is from.

    The paths of :data:`NAMED_LIBRARIES` are added to ``paths``.
    """
    libraries: Dict[str, str] = {}
    for pid in pids:
        try:
            with open("/proc/%d/maps" % pid, encoding="utf-8", errors="replace") as file:
                found = {line.split(None, 5)[5].strip() for line in file if ".so" in line and "/" in line}
        except (OSError, IndexError):
            continue
        for path in sorted(found):
            package = re.search(r"/(?:site|dist)-packages/([^/]+)/", path)
            match = re.match(r"(.+?)(?:[-.](\d[\d.]*))?\.so(?:\.(\d[\d.]*))?$", os.path.basename(path))
            if package and "cpython" in path:
                libraries.setdefault(package[1], "python package")
            elif match and "/lib-dynload/" not in path:
                libraries[match[1]] = match[3] or match[2] or (package[1] if package else "")
                if NAMED_LIBRARIES.match(os.path.basename(path)):
                    paths[match[1]] = path
    return libraries


# -- before the start ----------------------------------------------------------------------------------


def over(not_after: str) -> str:
    """Why a launch token that ends at this time (RFC 3339) starts nothing now; empty if it does."""
    if not not_after:
        return ""
    try:
        end = datetime.fromisoformat(re.sub(r"[Zz]$", "+00:00", not_after))
        left = (end - datetime.now(timezone.utc)).total_seconds()
    except (ValueError, TypeError):
        return "the end of the launch token is no time: %.60r" % not_after
    return "" if left > 0 else "the launch token was over at %s" % not_after


def code_differences(expected: Dict[str, str], folder: str) -> List[str]:
    """How the program's files differ from the signed ones: relative path → SHA-256 (``%XX`` for odd bytes).

    A new file that Python would import counts too, where signed files lie; a missing one is named.
    """
    wanted = {
        re.sub(rb"%([0-9A-F]{2})", _byte, name.encode("utf-8")): digest for name, digest in expected.items()
    }
    root, found = os.fsencode(folder), []
    for name, digest in sorted(wanted.items()):
        try:
            with open(os.path.join(root, name), "rb") as file:
                now_digest = hashlib.sha256()
                for block in iter(lambda: file.read(1 << 20), b""):
                    now_digest.update(block)
        except OSError as error:
            found.append("%s (%s)" % (os.fsdecode(name), error.strerror))
            continue
        if now_digest.hexdigest() != str(digest).rpartition(":")[2]:
            found.append("%s (changed)" % os.fsdecode(name))
    for place in sorted({os.path.dirname(name) for name in wanted if not os.path.isabs(name)}):
        if os.path.basename(os.path.join(root, place)) in {b"site-packages", b"dist-packages"}:
            continue
        try:
            names = os.listdir(os.path.join(root, place))
        except OSError:
            continue  # its files were named as missing
        for name in sorted(names):
            path = os.path.join(place, name)
            if name.endswith((b".py", b".so", b".pth")) and path not in wanted:
                found.append("%s (added)" % os.fsdecode(path))
    return found


def _byte(match: Any) -> bytes:
    return bytes([int(match[1], 16)])


# -- stop rules ----------------------------------------------------------------------------------------


class StopRules:
    """Rules that need nothing but the program's events: loss, steps and time. Worker 0 judges.

    ``rules`` is ``{nan, max_loss, no_progress_seconds, first_step_seconds, wall_seconds}``; what is missing or None
    asks for nothing. Before the first metric or checkpoint the longer of both times without a step counts.
    Only what is appended from now on counts: an earlier start of this attempt may have come further.
    """

    def __init__(self, rules: Dict[str, Any], events: str) -> None:
        self.rules, self.events = rules, events
        self.begin = self.progress_at = time.monotonic()
        self.last_step: Optional[int] = None
        self.trains = False
        self.saved_step: Optional[int] = None
        self.worst: Optional[Tuple[int, float]] = None
        self.carry = b""
        self.skipping = False
        self.offset = self.size()

    def size(self) -> int:
        """How long the event file is now."""
        try:
            return os.stat(self.events).st_size
        except OSError:
            return 0

    def check(self) -> Optional[Dict[str, Any]]:
        """The first rule that ends the program now, as the status line says it; None if there is none."""
        self.read()
        passed, worst, rules = time.monotonic() - self.begin, self.worst, self.rules
        idle = time.monotonic() - self.progress_at
        limit, wall, most = (rules.get(name) for name in ("no_progress_seconds", "wall_seconds", "max_loss"))
        if limit and not self.trains:
            limit = max(limit, rules.get("first_step_seconds") or 0.0)
        if rules.get("nan") and worst and not math.isfinite(worst[1]):
            return self.fired("nan_loss", "%s at step %d" % (worst[1], worst[0]), "a finite loss")
        if most is not None and worst and worst[1] > most:
            return self.fired("divergence", "%g at step %d" % (worst[1], worst[0]), "%g" % most)
        if wall and passed >= wall:
            return self.fired("wall_time", "%.1f s" % passed, "%.1f s" % wall)
        if limit and idle >= limit:
            where = "no step" if self.last_step is None else "no step after %d" % self.last_step
            return self.fired("no_progress", "%s for %.1f s" % (where, idle), "%.1f s" % limit)
        return None

    def fired(self, rule: str, observed: str, limit: str) -> Dict[str, Any]:
        """What a rule found."""
        return {
            "rule": rule, "observed": observed, "limit": limit, "last_step": self.last_step,
            "last_checkpoint_step": self.saved_step,
        }  # fmt: skip

    def read(self) -> None:
        """Take what was appended, a bounded block of it; whatever lies in the file's place is never waited for."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            handle = os.open(self.events, flags)
        except OSError:
            return
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return
            if found.st_size < self.offset:  # cut, written anew
                self.offset, self.carry, self.skipping = 0, b"", False
            os.lseek(handle, self.offset, os.SEEK_SET)
            block = os.read(handle, MOST_EVENTS)
        except OSError:
            return
        finally:
            os.close(handle)
        self.offset += len(block)
        lines = (self.carry + block).split(b"\n")
        self.carry = lines.pop()
        if lines and self.skipping:
            lines, self.skipping = lines[1:], False
        if len(self.carry) > MOST_LINE:
            self.carry, self.skipping = b"", True
        for line in lines:
            if len(line) <= MOST_LINE:
                self.take(line)

    @staticmethod
    def tells_training(event: Dict[str, Any]) -> bool:
        """Whether an event is of training, not of what comes before (what was read or loaded)."""
        named = event.get("event") == "metric" and not str(event.get("name")).startswith("data_read_")
        return named or event.get("event") == "checkpoint"

    def take(self, line: bytes) -> None:
        """One event; a line that is none says nothing."""
        try:
            event = json.loads(line.decode("utf-8"))
            step = event["step"]
            whole = isinstance(step, (int, float)) and not isinstance(step, bool) and step == int(step) >= 0
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        if not whole or step > 2**53:
            return
        step = int(step)
        if self.last_step is None or step > self.last_step:
            self.last_step, self.progress_at = step, time.monotonic()
        if not self.trains and self.tells_training(event):
            self.trains, self.progress_at = True, time.monotonic()
        if event.get("event") == "checkpoint":
            self.saved_step = step if self.saved_step is None else max(step, self.saved_step)
        name, value = event.get("name"), event.get("value")
        if event.get("event") != "metric" or not str(name).lower().endswith("loss"):
            return
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                loss = float(value)
            except OverflowError:
                loss = math.inf if value > 0 else -math.inf
            finite = self.worst is None or math.isfinite(self.worst[1])
            if self.worst is None or (finite and (not math.isfinite(loss) or loss > self.worst[1])):
                self.worst = (step, loss)


# -- the wrapper ---------------------------------------------------------------------------------------


def network_bytes(table: str = "/proc/self/net/dev") -> Dict[str, Tuple[int, int]]:
    """Bytes received and sent by interface of this network namespace, loopback left out; empty if nobody counts.

    The first and the ninth number of a line, see proc_pid_net(5). They count everything on the node, or in the pod
    where it has a namespace of its own.
    """
    found = {}
    try:
        with open(table, encoding="ascii", errors="replace") as file:
            for line in file:
                name, colon, rest = line.partition(":")
                numbers = rest.split()
                if colon and name.strip() != "lo" and len(numbers) >= 9:
                    found[name.strip()] = (int(numbers[0]), int(numbers[8]))
    except (OSError, ValueError):
        return {}
    return found


def network_between(
    before: Dict[str, Tuple[int, int]], after: Dict[str, Tuple[int, int]]
) -> Optional[Dict[str, int]]:
    """What all interfaces counted between two looks; one that began anew counts from zero. None: nobody counts."""
    if not after:
        return None
    received = sent = 0
    for name, (now_in, now_out) in after.items():
        was_in, was_out = before.get(name, (0, 0))
        received += now_in - was_in if now_in >= was_in else now_in
        sent += now_out - was_out if now_out >= was_out else now_out
    return {"received_bytes": received, "sent_bytes": sent}


def oom_kills(groups: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> Optional[int]:
    """How many processes the kernel has killed in this memory group for want of memory; None if it does not say.

    A container sees its own group as the root, or the whole tree; cgroup v2 counts in ``memory.events``, v1 in
    ``memory.oom_control``.
    """
    places = []
    try:
        with open(groups, encoding="utf-8", errors="replace") as file:
            for line in file:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                if controllers == "":
                    places += [root + path + "/memory.events", root + "/memory.events"]
                elif "memory" in controllers.split(","):
                    old = root + "/memory"
                    places += [old + path + "/memory.oom_control", old + "/memory.oom_control"]
    except (OSError, ValueError):
        return None
    for place in places:
        try:
            with open(place, encoding="ascii") as file:
                counts = dict(line.split(None, 1) for line in file if " " in line)
            return int(counts["oom_kill"])
        except (OSError, KeyError, ValueError):
            continue
    return None


def append_to(path: str) -> int:
    """Open a regular file for appending, made if missing; ``OSError`` for anything else in its place."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o644)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError("%s is not a regular file" % path)
    return handle


def worker_file(path: str, worker: int) -> str:
    """The file of a worker beside worker 0's."""
    stem, suffix = os.path.splitext(path)
    return path if worker == 0 else "%s-%d%s" % (stem, worker, suffix)


class Status:
    """The status file: one JSON document a line, on disk before the call returns."""

    def __init__(self, path: str) -> None:
        self.handle = append_to(path)
        self.again = os.fstat(self.handle).st_size > 0  # this worker was started before
        self.failures = 0
        self.torn = False  # half a line stands there (the disk was full): the next begins anew

    def write(self, status: str, **facts: Any) -> None:
        """Append a line; a full disk is counted, never raised: the tree must still be watched and ended."""
        text = json.dumps(dict(facts, status=status, at=now()), sort_keys=True) + "\n"
        line = ("\n" * self.torn + text).encode("utf-8", "backslashreplace")
        try:
            written = os.write(self.handle, line)
            self.torn = written < len(line)
            self.failures += self.torn
            os.fsync(self.handle)
        except OSError:
            self.failures += 1


class Wrapper:
    """One program, from its start until nothing of its tree is left."""

    def __init__(self, options: argparse.Namespace, command: List[str]) -> None:
        self.options, self.command = options, command
        self.worker = options.worker
        self.oom_before = oom_kills()
        self.status = Status(worker_file(options.status, self.worker))
        events = os.environ.get("PRETRAIN_ARCHIVE_EVENTS", "")
        self.variables = dict(os.environ, PRETRAIN_ARCHIVE_WORKER=str(self.worker))
        if (
            events and self.worker
        ):  # several machines must not append to one file: worker 0's is the one that counts
            self.variables["PRETRAIN_ARCHIVE_EVENTS"] = worker_file(events, self.worker)
        self.log = append_to(worker_file(options.log, self.worker)) if options.log else -1
        self.rules = StopRules(options.stop, events) if options.stop and events and not self.worker else None
        self.parent = options.parent or os.getppid()
        self.stopping = ""
        self.asked_at = 0.0
        self.pressed = False
        self.alone = False  # the program ended by itself, nobody asked
        self.ending = False
        self.program = 0
        self.code: Optional[int] = None
        self.code_at = ""
        self.network_before = network_bytes()
        self.hidden: List[Dict[str, Any]] = []
        self.names: Dict[int, str] = {}
        self.libraries: Dict[str, str] = {}
        self.paths: Dict[str, str] = {}
        self.probing: Optional[Probing] = None
        # The last few only: an id is given away again, and what the program does must never pass for a probe's.
        self.probe_groups: Deque[int] = deque(maxlen=8)
        self.utilisation = Utilisation(self.probe_groups)
        self.cpu_seconds, self.max_rss = 0.0, 0
        self.begin = time.monotonic()

    def run(self) -> int:
        """Run the command; return its exit code, 128 + signal, or 1 for a failure that it hid."""
        wakeup = self.listen()
        interpreter = interpreter_of(self.command)
        again = self.status.again
        self.probe("resume" if again else self.options.moment, interpreter)
        problem = self.refusal()
        self.environment(START_SECONDS)
        if problem:
            self.status.write("not_started", problem=problem)
        elif not self.stopping and self.start():
            self.watch(wakeup)
            self.settle()
        if self.probing and self.code is None:
            self.environment(END_SECONDS, last=True)
        if self.code is not None and self.stopping in {"", "stop_rule", "deadline"}:
            self.probe("end", interpreter)
            self.environment(END_SECONDS, last=True)
        self.reap()
        return self.report()

    def report(self) -> int:
        """Write how it ended and return the exit code."""
        code, killed = self.code, oom_kills()
        network = network_between(self.network_before, network_bytes())
        self.status.write(
            "ended",
            reason="exited" if self.alone else self.stopping or "not_started",
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            program_ended_at=self.code_at or None, network=network,
            hidden_failures=self.hidden[:20], left_behind=sorted(descendants(os.getpid())),
            seconds=round(time.monotonic() - self.begin, 3), cpu_seconds=round(self.cpu_seconds, 3),
            max_rss_bytes=self.max_rss * (1024 if LINUX else 1), unwritten_lines=self.status.failures,
            oom_kills=None if killed is None or self.oom_before is None else killed - self.oom_before,
        )  # fmt: skip
        if self.log >= 0:
            show_end(worker_file(self.options.log, self.worker))
        if code is None:
            return 143 if self.stopping else 127
        return 128 - code if code < 0 else (code or (1 if self.hidden else 0))

    def refusal(self) -> str:
        """Why nothing may be started: the launch token is over, or the code is not the signed one; else empty."""
        problem = over(self.options.not_after)
        if not problem and self.options.expect:
            try:
                with open(self.options.expect, encoding="utf-8") as file:
                    expected = json.load(file)
                found = code_differences(expected, self.options.folder)
            except (OSError, ValueError, AttributeError, TypeError) as error:
                found = ["%s cannot be read: %s" % (self.options.expect, error)]
            if found:
                problem = "the code is not the signed one: " + ", ".join(found[:20])
                problem += " and %d more" % (len(found) - 20) if len(found) > 20 else ""
        return problem

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
        """A signal asks for the end, or for haste where that had begun."""
        self.pressed = True
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

    def probe(self, moment: str, interpreter: Optional[str]) -> None:
        """Begin to look at what this worker is; at the end also at the libraries that were loaded."""
        self.moment = moment
        rest = ["--allow", ",".join(self.options.allow)]
        for path in sorted(self.paths.values()) if moment == "end" else ():
            rest += ["--library", path]
        self.probing = Probing(interpreter, self.options.folder, rest, self.probe_groups)

    def environment(self, seconds: float, *, last: bool = False) -> None:
        """Write the environment once it is known; wait so long for it, and with ``last`` no longer."""
        probing, end = self.probing, time.monotonic() + seconds
        if probing is None:
            return
        while not probing.poll(min(0.1, max(0.0, end - time.monotonic()))):
            self.check_limits()
            if time.monotonic() >= end or self.pressed or self.stopping == "parent_lost":
                if not last:
                    return
                probing.hurry()
        facts = probing.facts or {}
        told = facts.pop("library_versions", {})
        versions = told if isinstance(told, dict) else {}
        if self.moment == "end":
            known = {name: versions.get(path) for name, path in self.paths.items()}
            libraries = dict(self.libraries, **{name: version for name, version in known.items() if version})
            facts["libraries"] = dict(sorted(libraries.items()))
        problem = {"problem": probing.problem} if probing.problem else {}
        self.status.write("environment", moment=self.moment, environment=facts, **problem)
        self.probing = None

    def start(self) -> bool:
        """Start the program as leader of a session that dies with this wrapper."""
        try:
            process = subprocess.Popen(
                self.command, cwd=self.options.folder, stdin=subprocess.DEVNULL, close_fds=True, env=self.variables,
                stdout=self.log if self.log >= 0 else None, stderr=self.log if self.log >= 0 else None,
                preexec_fn=detach,  # noqa: PLW1509 (no threads here)
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
            wrapper_start=own[2] if own else None, boot=boot_id(), worker=self.worker,
        )  # fmt: skip
        return True

    def watch(self, wakeup: int) -> None:
        """Wait until the program ended or somebody asks for its end."""
        beat = look = time.monotonic()
        count = 0
        while self.code is None and not self.stopping:
            if time.monotonic() >= beat:
                # The libraries are looked at often while a program loads them, later about once a minute.
                self.heartbeat(sample=count % 4 == 0, libraries=count < 4 or count % 12 == 0)
                beat, count = time.monotonic() + self.options.heartbeat, count + 1
            ready, _, _ = select.select([wakeup], [], [], 0.2)
            if ready:
                os.read(wakeup, 4096)
            self.reap()
            self.check_limits()
            if self.probing:
                self.environment(0.0)
            if self.rules and self.code is None and not self.stopping and time.monotonic() >= look:
                self.judge(self.rules)
                look = time.monotonic() + CHECK_SECONDS
        self.alone = not self.stopping

    def judge(self, rules: StopRules) -> None:
        """End the program if a stop rule says so."""
        found = rules.check()
        if found:
            self.status.write("stop", **found)
            self.stopping, self.asked_at = "stop_rule", time.monotonic()

    def heartbeat(self, *, sample: bool, libraries: bool) -> None:
        """Processes, memory and CPU time of the tree; now and then the devices and the loaded libraries."""
        tree = {p: s for p, s in descendants(os.getpid()).items() if group_of(p) not in self.probe_groups}
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
            cpu_seconds=round(ticks / os.sysconf("SC_CLK_TCK"), 2), accelerators=self.utilisation.told(),
        )  # fmt: skip
        if sample:
            self.utilisation.ask()
        known = len(self.libraries)
        if libraries:
            self.libraries.update(loaded_libraries(list(tree), self.paths))
        if len(self.libraries) > known:
            self.status.write("libraries", libraries=dict(sorted(self.libraries.items())))

    def reap(self) -> None:
        """Collect ended children; an orphan that failed is a failure that the program hid."""
        while True:
            own = self.is_probe()
            try:
                pid, result, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if own:
                continue
            self.cpu_seconds += usage.ru_utime + usage.ru_stime
            self.max_rss = max(self.max_rss, usage.ru_maxrss)
            code = os.WEXITSTATUS(result) if os.WIFEXITED(result) else -os.WTERMSIG(result)
            if pid == self.program:
                self.code, self.code_at = code, now()
            elif code and not self.ending and -code not in QUIET_SIGNALS:
                self.hidden.append({
                    "pid": pid, "name": self.names.get(pid, ""),
                    "exit_code": code if code > 0 else None, "signal": -code if code < 0 else None,
                })  # fmt: skip

    def is_probe(self) -> bool:
        """Whether the child that is collected next belongs to a probe: what it does is not the program's."""
        if not self.probe_groups or not hasattr(os, "waitid"):
            return False
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return found is not None and group_of(found.si_pid) in self.probe_groups
        except OSError:
            return False

    def settle(self) -> None:
        """End what is left: give a finished program's helpers a moment, then ask, then kill."""
        self.utilisation.told()
        if self.probing:
            self.environment(0.0 if self.stopping else END_SECONDS, last=True)
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


class Utilisation:
    """Load and memory in use of each accelerator: asked at one heartbeat, told at a later one; nobody waits."""

    def __init__(self, groups: Deque[int]) -> None:
        self.groups = groups
        self.process: Optional[subprocess.Popen[bytes]] = None

    def ask(self) -> None:
        """Start nvidia-smi; nothing where it is not installed."""
        if self.process is not None or not shutil.which("nvidia-smi"):
            return
        query = "--query-gpu=index,utilization.gpu,memory.used"
        try:
            self.process = subprocess.Popen(
                ["nvidia-smi", query, "--format=csv,noheader,nounits"], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, close_fds=True,
                preexec_fn=detach,  # noqa: PLW1509 (no threads here)
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return
        self.process.returncode = 0  # reaped by Wrapper.reap(), not by subprocess
        self.groups.append(self.process.pid)

    def told(self) -> List[Dict[str, Any]]:
        """What it printed since it was asked; a tool that is not done by now is ended."""
        process, self.process = self.process, None
        if process is None or process.stdout is None:
            return []
        os.set_blocking(process.stdout.fileno(), False)
        try:
            text = (os.read(process.stdout.fileno(), 1 << 16)).decode("utf-8", "replace")
        except OSError:
            text = ""
        process.stdout.close()
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
        return [dict(zip(("index", "percent", "memory_mib"), row)) for row in rows if len(row) == 3]


def group_of(pid: int) -> int:
    """The process group of a process, also of one that ended and was not collected; 0 if it cannot be told."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return int(file.read().rpartition(b") ")[2].split()[2])
    except (OSError, IndexError, ValueError):
        return 0


def show_end(log: str) -> None:
    """Print the end of the program's log: whoever looks at the output of the container finds out why it ended."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
            sys.stdout.write("… the whole log is in %s\n%s" % (log, file.read().decode("utf-8", "replace")))
            sys.stdout.flush()
    except OSError:
        pass


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


def own_worker(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """The index of this worker, from the command line or from the variable that it names."""
    text = str(options.worker)
    if options.worker_from:
        text = os.environ.get(options.worker_from, "")
    if not re.match(r"\d{1,4}$", text) or int(text) >= 4096:
        parser.error("%s is no index of a worker: %r" % (options.worker_from or "--worker", text))
    return int(text)


def main(argv: List[str]) -> int:
    """Entry point; see the module docstring."""
    split: Callable[[str], List[str]] = lambda text: [name for name in text.split(",") if name]  # noqa: E731
    parser = argparse.ArgumentParser(prog="wrapper.py", description="start and watch a training program")
    parser.add_argument("--status", required=True, help="status file of worker 0 (JSON Lines)")
    parser.add_argument(
        "--log", default="", help="append the program's output to this file (worker 0's name)"
    )
    parser.add_argument("--worker", default="0", help="index of this worker, from 0")
    parser.add_argument(
        "--worker-from", default="", metavar="VARIABLE", help="the variable that holds the index"
    )
    parser.add_argument("--folder", default=os.getcwd(), help="working folder of the program")
    parser.add_argument("--allow", type=split, default=[], help="variables to record, separated by commas")
    parser.add_argument("--moment", default="start", choices=("start", "resume"))
    parser.add_argument("--parent", type=int, default=0, help="process to follow (default: the parent)")
    parser.add_argument("--grace", type=float, default=2.5, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("--heartbeat", type=float, default=5.0, help="seconds between heartbeats")
    parser.add_argument("--max-seconds", type=float, default=0.0, help="end the program then; 0: never")
    parser.add_argument("--expect", default="", help="JSON: the SHA-256 of each file of the signed code")
    parser.add_argument("--not-after", default="", help="start nothing after this time (RFC 3339)")
    parser.add_argument("--stop", type=json.loads, default=None, help="JSON: stop rules, see StopRules")
    at = argv.index("--") if "--" in argv else len(argv)
    options, command = parser.parse_args(argv[:at]), argv[at + 1 :]
    options.worker = own_worker(options, parser)
    if not command:
        parser.error("-- COMMAND is needed")
    if options.stop is not None and not isinstance(options.stop, dict):
        parser.error("--stop must be a JSON object")
    try:
        wrapper = Wrapper(options, command)
    except OSError as error:
        sys.stderr.write("wrapper.py: nothing was started: %s\n" % error)
        return 2
    return wrapper.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
