"""The wrapper's process on this machine: laid out, started once, asked for its end, and ended with its whole tree."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from pretrain_archive.compute.leftovers import end_leftovers
from pretrain_archive.compute.spec import JobSpec, ProcessRequest, check_command
from pretrain_archive.compute.wrapper import descendants, send
from pretrain_archive.domain.errors import InputError, RefusedError

END_SECONDS = 4.5
"""What the wrapper gets to end its tree: more than its own grace time, less than Airflow gives a task."""
HARD_SECONDS = 5.0


def lay_out(spec: JobSpec, request: ProcessRequest) -> None:
    """Make the attempt's folder and files; ``RefusedError`` if the attempt was started before.

    Every file is made new: what an earlier attempt's program put there (a pipe, a link) is never opened.
    """
    spec.work_folder.mkdir(parents=True, exist_ok=True)
    check_command(spec.command, folder=spec.folder, path=request.environment.get("PATH"))
    try:
        request.status.open("xb").close()
    except FileExistsError:
        raise RefusedError(
            f"no process was started: attempt {spec.attempt} was started before in {spec.work_folder}",
            hint="A launch token starts one process once; consume a new one for the next attempt.",
        ) from None
    spec.checkpoint_folder.mkdir(parents=True, exist_ok=True)
    for path, content in {**request.files, request.events: b"", request.log: b""}.items():
        _make(path, content)


def _make(path: Path, content: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise InputError(
            "work_folder", str(path), "is there already, and only a launch may make it",
            hint="Look who wrote it, move it away and launch again.",
        ) from None  # fmt: skip


class WrapperProcess:
    """The wrapper of one attempt and everything below it. :meth:`ask` may be called from a signal handler."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.popen: subprocess.Popen[bytes] | None = None
        self.asked_at: float | None = None

    @property
    def running(self) -> bool:
        """Whether the wrapper was started and has not ended."""
        return self.popen is not None and self.popen.poll() is None

    @property
    def overdue(self) -> bool:
        """Whether the wrapper was asked for the end so long ago that it will not come."""
        return self.asked_at is not None and time.monotonic() - self.asked_at > END_SECONDS

    @property
    def code(self) -> int | None:
        """The wrapper's return code, None while it runs or if it never did."""
        return self.popen.returncode if self.popen else None

    def start(self, request: ProcessRequest, *, unwanted: Callable[[], str]) -> None:
        """Start the wrapper, unless ``unwanted`` says (now, or while it starts) that somebody asked for the end."""
        if unwanted():
            return
        with request.log.open("ab") as raw:
            self.popen = subprocess.Popen(
                request.argv, env=dict(request.environment), cwd=request.folder, stdin=subprocess.DEVNULL,
                stdout=raw, stderr=subprocess.STDOUT, start_new_session=True, close_fds=True,
            )  # fmt: skip
        if unwanted():  # a signal between the lines above
            self.ask()

    def ask(self) -> None:
        """Ask for the end of the tree and return at once; a wrapper that was stopped (SIGSTOP) is woken for it."""
        if self.asked_at is None:
            self.asked_at = time.monotonic()
        if self.popen is not None and self.popen.poll() is None:
            self.popen.terminate()
            self.popen.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Wait for the wrapper to end the tree; if it does not, end the tree from here."""
        if self.popen is None:
            return
        self.ask()
        passed = time.monotonic() - (self.asked_at or 0.0)
        try:
            self.popen.wait(max(0.1, END_SECONDS - passed))
        except subprocess.TimeoutExpired:
            self._kill(self.popen)
        end_leftovers(self.spec.run_uid, self.spec.attempt, grace=0.0)

    def _kill(self, wrapper: subprocess.Popen[bytes]) -> None:
        """SIGKILL to everything below the wrapper, then to itself: as long as it is there, all orphans are its own."""
        end = time.monotonic() + HARD_SECONDS
        while (tree := descendants(wrapper.pid)) and time.monotonic() < end and wrapper.poll() is None:
            for pid, start in tree.items():
                send(pid, start, signal.SIGKILL)
            time.sleep(0.02)
        wrapper.kill()
        wrapper.wait()
