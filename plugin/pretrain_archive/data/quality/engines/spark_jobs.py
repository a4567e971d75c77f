"""The jobs of a scan as Spark tasks: each reads its files, measures them and leaves its result in the shared folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from pretrain_archive.data.quality.scan import Scan
from pretrain_archive.data.quality.scanning.plan import Job, Measures, Part, jobs_of
from pretrain_archive.data.quality.scanning.worker import Task, run_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pretrain_archive.data.quality.facts import Inputs


def measure_jobs(spark: SparkSession, inputs: Inputs) -> Scan:
    """Measure every document of the data by Spark tasks; the result is that of a scan on one machine.

    The listing of files is the driver's; files are opened where they are measured.
    """
    measures, folder = inputs.measures, inputs.work / "scan-spark"
    folder.mkdir(parents=True, exist_ok=True)
    jobs = list(jobs_of(inputs.shards()))
    if not jobs:
        return Scan(folder=folder, names=(), measures=measures)

    def measured(part: Iterable[Job]) -> Iterator[tuple[int, str, int, int]]:
        for job in part:
            yield measure_job(job, measures, folder)

    files = size = 0
    names: dict[int, str] = {}
    # More tasks than cores: one machine that is slow does not hold up the rest.
    tasks = min(len(jobs), 4 * spark.sparkContext.defaultParallelism)
    for ordinal, name, count, read in (
        spark.sparkContext.parallelize(jobs, tasks)
        .mapPartitions(measured)
        .toLocalIterator(prefetchPartitions=True)
    ):
        names[ordinal] = name
        files, size = files + count, size + read
        if inputs.progress is not None:
            inputs.progress(files, size)
    return Scan(folder=folder, names=tuple(names[ordinal] for ordinal in sorted(names)), measures=measures)


def measure_job(job: Job, measures: Measures, folder: Path) -> tuple[int, str, int, int]:
    """Measure one job into ``folder``; its ordinal, the name of its result, the files that begin in it, bytes read."""
    name = job.name(measures.digest())
    stem = str(folder / name)
    feed = _Feed(job)
    paths = tuple(part.shard.path for part in job.parts)
    meta = run_task(Task(ordinal=job.ordinal, paths=paths, measures=measures, stem=stem), iter(feed))
    part = job.parts[0]
    divided = None
    if not part.whole:
        divided = {"path": part.shard.path, "start": part.start, "lines": feed.lines}
    meta |= {"content": feed.digest.hexdigest(), "divided": divided, "crashed": False}
    for end in ("parquet", *(["sketch"] if measures.near_duplicates is not None else [])):
        Path(f"{stem}.{end}.tmp").replace(f"{stem}.{end}")
    file = Path(f"{stem}.json.tmp")
    file.write_text(json.dumps(meta))
    file.replace(f"{stem}.json")
    return job.ordinal, name, sum(not one.start for one in job.parts), feed.size


class _Feed:
    """The blocks of a job's parts; hashes them and counts lines, which a divided file's places need."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.digest = sha256()
        self.lines = self.size = 0

    def __iter__(self) -> Iterator[Iterator[bytes]]:
        for part in self._job.parts:
            yield self._blocks(part)

    def _blocks(self, part: Part) -> Iterator[bytes]:
        size = 0
        for block in part.blocks():
            self.digest.update(block)
            if not part.whole:
                self.lines += block.count(b"\n")
            size += len(block)
            yield block
        self.digest.update(b"\0%d\0" % size)
        self.size += size
