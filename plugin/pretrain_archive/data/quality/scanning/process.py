"""Where the jobs of a scan run: in this process, or in one that is fed through a pipe and may crash.

Processes are started by name and not forked: a fork of a process with threads can hang, and a task of a scheduler
may be forbidden to have children of the multiprocessing kind.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from pretrain_archive.data.quality.scanning.worker import Task, run_task
from pretrain_archive.domain.errors import ArchiveError

log = logging.getLogger(__name__)

START = "from pretrain_archive.data.quality.scanning.worker import main; main()"
CRASHES = 8
"""Processes that one job may end before the scan gives up."""


class Feeds(Protocol):
    """The blocks of each part of a job."""

    def __iter__(self) -> Iterator[Iterator[bytes]]:
        """Parts in their order."""


Feed = TypeVar("Feed", bound=Feeds)


class Runner(Protocol):
    """Runs a task: the feed that was read to its end, the answer, and the parts that were given up."""

    def run(self, task: Task, feeds: Callable[[], Feed]) -> tuple[Feed, dict[str, Any], tuple[int, ...]]:
        """Measure ``task``; ``feeds`` begins to read its parts, anew for each try."""


class Here:
    """Runs tasks in this process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def run(self, task: Task, feeds: Callable[[], Feed]) -> tuple[Feed, dict[str, Any], tuple[int, ...]]:
        """As :meth:`Runner.run`; a crash is this process's."""
        before = time.process_time()
        feed = feeds()
        meta = run_task(task, iter(feed))
        return feed, {"meta": meta, "use": {"cpu": time.process_time() - before}}, ()


class Process:
    """Runs tasks in a process of its own, which is started again if it crashes.

    What it must put aside, such as a Parquet file that it is fed, lies in ``folder`` without a name.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, task: Task, feeds: Callable[[], Feed]) -> tuple[Feed, dict[str, Any], tuple[int, ...]]:
        """As :meth:`Runner.run`. A part that ends two processes is given up and told as broken."""
        suspects: list[int] = []
        skip: tuple[int, ...] = ()
        for _ in range(CRASHES):
            feed = feeds()
            answer, part = self._try(_skipping(task, skip), feed)
            if answer is not None:
                return feed, answer, skip
            log.warning("A scan process ended while it read %r", task.paths[part])
            if part in suspects:
                skip = (*skip, part)
            suspects.append(part)
        raise ArchiveError(
            f"scan: {CRASHES} processes ended over {task.paths[0]!r} and what follows it.",
            hint="Look for a lack of memory; processes=1 needs least.",
        )

    def _try(self, task: Task, feed: Feeds) -> tuple[dict[str, Any] | None, int]:
        """The answer, or None and the part that was read when the process ended."""
        child = self._child or self._start()
        source, answers = child.stdin, child.stdout
        assert source is not None
        assert answers is not None
        try:
            _send(source, pickle.dumps(task))
            for blocks in feed:
                for block in blocks:
                    _send(source, block)
                _send(source, b"")
            source.flush()
        except BrokenPipeError:
            pass  # its last words say where
        except BaseException:
            self._kill()  # half a job is in the pipe
            raise
        part = 0
        for line in answers:
            if not line.startswith(b"part "):
                return json.loads(line), part
            part = int(line[5:])
        self._kill()
        return None, part

    def _start(self) -> subprocess.Popen[bytes]:
        # One thread each: the processes are the parallelism. Same hashes everywhere, whatever a measure sorts by.
        more = {
            "TMPDIR": str(self._folder),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
        }
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, **more},
            bufsize=1 << 20,
        )
        return self._child

    def _end(self) -> None:
        if (child := self._child) is None:
            return
        self._child = None
        try:
            child.communicate(timeout=10)
        except (subprocess.TimeoutExpired, OSError, ValueError):
            child.kill()
            child.wait()

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
        self._end()


def _send(source: Any, content: bytes) -> None:
    source.write(len(content).to_bytes(4, "little"))
    source.write(content)


def _skipping(task: Task, skip: tuple[int, ...]) -> Task:
    return Task(ordinal=task.ordinal, paths=task.paths, measures=task.measures, stem=task.stem, skip=skip)
