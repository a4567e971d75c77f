"""One process of a scan: it is fed jobs and their bytes, and writes their results.

Bytes come through standard input, so that a worker needs neither credentials nor the way to a file, and ends when
its parent does. Frames: four bytes of length (little endian) and the content; a job is a pickled :class:`Task`,
then for each part blocks and an empty frame. On its output it tells, a line each, the part that it begins
(``part N``) and, when a job is written, its use of time and memory as JSON. Started by :mod:`.scan` alone: what it
unpickles is its parent's.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pretrain_archive.data.quality.documents import read_stream
from pretrain_archive.data.quality.readers.base import Broken
from pretrain_archive.data.quality.readers.blocks import stream_of
from pretrain_archive.data.quality.scanning.chunk import Chunk
from pretrain_archive.data.quality.scanning.plan import Measures


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A job as a worker needs it: paths of its parts, and where the result goes (``stem`` plus endings).

    ``skip`` are parts that ended a process before: they are not read again but told as broken.
    """

    ordinal: int
    paths: tuple[str, ...]
    measures: Measures
    stem: str
    skip: tuple[int, ...] = ()


def run_task(
    task: Task, feeds: Iterator[Iterator[bytes]], begin: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Measure the parts whose blocks ``feeds`` yields; write ``stem.parquet.tmp`` and ``stem.sketch.tmp``.

    Returns what is not in the table. Every feed is read to its end, also of a file that is not understood.
    """
    table, sketch = Path(task.stem + ".parquet.tmp"), Path(task.stem + ".sketch.tmp")
    chunk = Chunk(table, sketch, ordinal=task.ordinal, measures=task.measures)
    for number, (path, blocks) in enumerate(zip(task.paths, feeds, strict=True)):
        begin(number)
        if number in task.skip:
            reason = "its reader crashed on it, twice"
            chunk.add([Broken(path=path, line=0, reason=reason, kind="crash")])
        else:
            stream = stream_of(blocks)
            chunk.add(read_stream(path, stream, fields=task.measures.fields))
        for _ in blocks:
            pass
    return chunk.close()


def main() -> None:
    """Serve jobs until standard input ends."""
    source = sys.stdin.buffer
    # Whatever a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)

    def say(line: str) -> None:
        try:
            answers.write(line + "\n")
            answers.flush()
        except BrokenPipeError:
            os._exit(3)  # the parent is gone: nobody waits for a result

    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415

    pa.set_cpu_count(1)
    while (frame := _frame(source)) is not None:
        task: Task = pickle.loads(frame)  # noqa: S301 - from the parent process
        before = time.process_time()
        meta = run_task(task, _feeds(source, len(task.paths)), lambda number: say(f"part {number}"))
        use = {"cpu": time.process_time() - before, "peak": _peak()}
        say(json.dumps({"meta": meta, "use": use}))


def _feeds(source: BinaryIO, count: int) -> Iterator[Iterator[bytes]]:
    for _ in range(count):
        yield _blocks(source)


def _blocks(source: BinaryIO) -> Iterator[bytes]:
    while block := _frame(source):
        yield block
    if block is None:
        sys.exit(3)  # the parent is gone: nobody waits for a result


def _frame(source: BinaryIO) -> bytes | None:
    """The next frame; None at the end of the input."""
    head = source.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head, "little")
    content = source.read(size)
    return content if len(content) == size else None


def _peak() -> int:
    """Peak memory of this program in bytes, after ``exec`` (``VmHWM``; see proc(5))."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
