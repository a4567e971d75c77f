"""SHA-256 of many files on all cores.

Threads are enough: hashlib drops the interpreter's lock for blocks above 2047 bytes. At most a small window
of files is in work, so memory does not grow with the number of files.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import BinaryIO, Protocol, TypeVar, runtime_checkable

BLOCK = 1 << 20
"""Bytes per read. One MiB keeps calls rare and, times threads, memory small."""

REMOTE_THREADS = 16
"""Threads for what is not on this machine: they mostly wait for answers."""

Job = TypeVar("Job")
Answer = TypeVar("Answer")
Progress = Callable[[int, int], None]
"""Called with files and bytes done so far, from the calling thread only."""


@runtime_checkable
class Expecting(Protocol):
    """A progress that can be told the total, to tell how much time is left."""

    def expect(self, files: int, size: int) -> None:
        """There are ``files`` files and ``size`` bytes in all; counting begins now."""


def expect(progress: Progress | None, files: int, size: int) -> None:
    """Tell ``progress`` the total, if it takes one."""
    if isinstance(progress, Expecting):
        progress.expect(files, size)


_buffers = threading.local()


def hash_stream(stream: BinaryIO, *, at_most: int | None = None) -> tuple[str, int]:
    """Read ``stream`` to its end; return ``sha256:`` digest and number of bytes.

    With ``at_most`` reading stops as soon as there are more bytes: a file that grows faster than it can be
    read has no end.
    """
    buffer = getattr(_buffers, "block", None)
    if buffer is None:
        buffer = _buffers.block = memoryview(bytearray(BLOCK))
    digest = hashlib.sha256()
    size = 0
    while count := stream.readinto(buffer):  # type: ignore[attr-defined]
        digest.update(buffer[:count])
        size += count
        if at_most is not None and size > at_most:
            break
    return "sha256:" + digest.hexdigest(), size


def workers() -> int:
    """Threads to hash with: the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    work: Callable[[Job], Answer],
    jobs: Iterable[Job],
    *,
    threads: int | None = None,
    here: Callable[[Job], bool] | None = None,
) -> Iterator[Answer]:
    """Yield ``work(job)`` for each job in the given order, some jobs ahead on threads.

    Jobs of which ``here`` is true are done by the calling thread when their turn comes: what is mostly Python gains
    nothing from threads and makes all of them wait for each other.
    """
    count = threads or workers()
    pending: deque[Callable[[], Answer]] = deque()
    futures: deque[Future[Answer]] = deque()
    with ThreadPoolExecutor(count) as pool:
        try:
            for job in jobs:
                if here is not None and here(job):
                    pending.append(partial(work, job))
                else:
                    futures.append(pool.submit(work, job))
                    pending.append(_next_of(futures))
                # Enough jobs ahead that small files beside a large one keep the other cores busy.
                if not futures or len(pending) >= 32 * count:
                    yield pending.popleft()()
            while pending:
                yield pending.popleft()()
        finally:
            for future in futures:
                future.cancel()


def _next_of(futures: deque[Future[Answer]]) -> Callable[[], Answer]:
    return lambda: futures.popleft().result()
