"""Read and measure all documents of a corpus: on all cores, with bounded memory, resumable after a kill.

The files are divided into jobs (:mod:`.scanning.plan`); each is measured by a process of its own that is fed the
bytes (:mod:`.scanning.worker`), and its result stands in the working folder as ``NAME.parquet``,
``NAME.sketch`` and, last of all, ``NAME.json``. A scan that was killed takes over every job whose result is
complete and whose bytes are still the same; that is seen by hashing them, which costs a fraction of measuring. Names
hold settings and program, so that nothing is taken over from a scan with others.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from pretrain_archive.data.hashing import Progress, workers
from pretrain_archive.data.quality.readers.base import Shard
from pretrain_archive.data.quality.scanning.plan import Job, Measures, Part, jobs_of
from pretrain_archive.data.quality.scanning.process import Here, Process, Runner
from pretrain_archive.data.quality.scanning.result import Scan, Totals
from pretrain_archive.data.quality.scanning.worker import Task
from pretrain_archive.domain.errors import ArchiveError

__all__ = ["Measures", "Scan", "Totals", "scan"]

TELL = 0.5
"""Seconds between two calls of ``progress``."""


def scan(
    shards: Iterable[Shard],
    *,
    measures: Measures,
    work: Path,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Scan:
    """Measure every document of ``shards``; the result is the same for any number of ``processes``.

    ``work`` is the folder of the results (made if it is not there), for one scan at a time. ``processes`` are by
    default as many as cores; with one, or little data, everything happens in this process. Errors of reading a
    file are raised as they come; what was complete stays for the next try.
    """
    work.mkdir(parents=True, exist_ok=True)
    folder = work / measures.digest()[:16]
    folder.mkdir(exist_ok=True)
    with _alone(folder):
        run = _Run(folder=folder, measures=measures, jobs=jobs_of(shards))
        count = run.useful(processes or workers())
        with ThreadPoolExecutor(count) as pool:
            threads = [pool.submit(run.serve, here=count == 1) for _ in range(count)]
            try:
                while wait(threads, timeout=TELL).not_done:
                    if progress is not None:
                        progress(run.files, run.bytes)
            finally:
                # A task that is asked to end must not wait for the rest of a corpus.
                run.stopped = bool(wait(threads, timeout=0).not_done)
            for thread in threads:
                thread.result()
    if progress is not None:
        progress(run.files, run.bytes)
    names = tuple(run.done[ordinal][0] for ordinal in sorted(run.done))
    use = tuple(run.done[ordinal][1] for ordinal in sorted(run.done) if run.done[ordinal][1])
    return Scan(folder=folder, names=names, measures=measures, use=use)


@dataclass(kw_only=True)
class _Run:
    """What the threads of a scan share: each takes the next job until there is none."""

    folder: Path
    measures: Measures
    jobs: Iterator[Job]
    files: int = 0
    bytes: int = 0
    done: dict[int, tuple[str, dict[str, float]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ahead: list[Job] = field(default_factory=list)
    stopped: bool = False

    def useful(self, most: int) -> int:
        """How many processes there is work for, at most ``most``."""
        while len(self._ahead) < most and (job := next(self.jobs, None)) is not None:
            self._ahead.append(job)
        return max(1, len(self._ahead))

    def serve(self, *, here: bool) -> None:
        """Do jobs until there are no more, or another thread failed."""
        try:
            with Here() if here else Process(self.folder) as runner:
                while (job := self._next()) is not None:
                    self._do(job, runner)
        except BaseException:
            self.stopped = True
            raise

    def read(self, count: int, files: int = 0) -> None:
        """Count bytes and whole files that were read."""
        with self._lock:
            self.bytes += count
            self.files += files

    def _next(self) -> Job | None:
        with self._lock:
            if self.stopped:
                return None
            return self._ahead.pop(0) if self._ahead else next(self.jobs, None)

    def _do(self, job: Job, runner: Runner) -> None:
        name = job.name(self.measures.digest())
        use: dict[str, float] = {}
        if not self._taken_over(job, name):
            use = self._measured(job, name, runner)
        with self._lock:
            self.done[job.ordinal] = (name, use)

    def _taken_over(self, job: Job, name: str) -> bool:
        """Whether an earlier result is complete and of the same bytes."""
        try:
            meta = json.loads((self.folder / f"{name}.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        if meta["crashed"] or not all((self.folder / f"{name}.{end}").exists() for end in self._ends()):
            return False
        feed = _Feed(job, self)
        for blocks in feed:
            for _ in blocks:
                pass
        if feed.digest.hexdigest() == meta["content"]:
            return True
        self.read(-feed.size, -feed.files)
        return False

    def _measured(self, job: Job, name: str, runner: Runner) -> dict[str, float]:
        stem = str(self.folder / name)
        paths = tuple(part.shard.path for part in job.parts)
        task = Task(ordinal=job.ordinal, paths=paths, measures=self.measures, stem=stem)
        tries: list[_Feed] = []

        def begin() -> _Feed:
            for failed in tries[-1:]:
                self.read(-failed.size, -failed.files)
            tries.append(_Feed(job, self))
            return tries[-1]

        feed, answer, skipped = runner.run(task, begin)
        part = job.parts[0]
        divided = None
        if not part.whole:
            divided = {"path": part.shard.path, "start": part.start, "lines": feed.lines}
        more = {"content": feed.digest.hexdigest(), "divided": divided, "crashed": bool(skipped)}
        for end in self._ends():
            _keep(Path(f"{stem}.{end}.tmp"), Path(f"{stem}.{end}"))
        # The last of the files makes the result valid.
        file = Path(f"{stem}.json.tmp")
        file.write_text(json.dumps(answer["meta"] | more))
        _keep(file, Path(f"{stem}.json"))
        return dict(answer["use"])

    def _ends(self) -> list[str]:
        return ["parquet", *(["sketch"] if self.measures.near_duplicates is not None else [])]


class _Feed:
    """The blocks of a job's parts, one after another; hashes them and counts what a result must know."""

    def __init__(self, job: Job, run: _Run) -> None:
        self._job, self._run = job, run
        self.digest = sha256()
        self.lines = 0
        self.size = 0
        self.files = 0

    def __iter__(self) -> Iterator[Iterator[bytes]]:
        for part in self._job.parts:
            yield self._blocks(part)

    def _blocks(self, part: Part) -> Iterator[bytes]:
        before = self.size
        for block in part.blocks():
            if self._run.stopped:
                raise ArchiveError(
                    "scan: stopped before its end.", hint="Start it again: it goes on from here."
                )
            self.digest.update(block)
            if not part.whole:
                self.lines += block.count(b"\n")
            self.size += len(block)
            self._run.read(len(block))
            yield block
        # Where a file ends belongs to the content: "ab","c" is not "a","bc".
        self.digest.update(b"\0%d\0" % (self.size - before))
        if not part.start:
            self.files += 1
            self._run.read(0, 1)


def _keep(written: Path, target: Path) -> None:
    """Give a complete file its name; what it holds is on the disk before, should the power fail."""
    with written.open("rb") as stream:
        os.fsync(stream.fileno())
    written.replace(target)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder for this scan alone, and clear what a killed one was writing."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ArchiveError(
                f"scan: another one is at work in {folder}.", hint="Wait for it, or name another folder."
            ) from error
        for left in folder.glob("*.tmp"):
            left.unlink() if left.is_file() else shutil.rmtree(left)
        yield
