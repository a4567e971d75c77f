"""Quality of a gigabyte of JSON Lines: every measure, duplicates, the judgement of Great Expectations."""

# ruff: noqa: T201 - the table is the result

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from tests.support.corpora import write_shard

from pretrain_archive.data.hashing import workers

SIZES = {"a.jsonl": 330, "b.jsonl": 330, "c.jsonl": 240, "d.jsonl.gz": 100}
"""Shards and their megabytes unpacked: a gigabyte in all; the packed one cannot be divided."""

RATIO = 30
"""CPU seconds of everything to those of parsing and hashing alone.

The plain peer needs about 4 CPU seconds for a gigabyte on the machine of the numbers (2 cores at 2 GHz). Sixty
seconds on two cores are 120 CPU seconds: 30 times the peer. Both are measured here in CPU time, one after the
other, so that neighbours on the machine weigh on both.
"""

GX_SHARE = 1 / 6
"""Of the time of the check, Great Expectations takes at most 10 seconds of 60."""

MEMORY_MIB = 700
"""Peak of the process that checks, whatever the corpus holds; a process of the scan has its own line."""

PLAIN = """
import hashlib, gzip, json, orjson, resource, sys, time
from concurrent.futures import ProcessPoolExecutor
def work(job):
    path, start, end = job
    before, count = time.process_time(), 0
    with (gzip.open(path) if path.endswith(".gz") else open(path, "rb")) as stream:
        if start:
            stream.seek(start - 1)
            stream.readline()
        while stream.tell() < end and (line := stream.readline()):
            hashlib.sha256(orjson.loads(line)["text"].encode()).digest()
            count += 1
    return count, time.process_time() - before
with ProcessPoolExecutor(int(sys.argv[1])) as pool:
    wall = time.perf_counter()
    done = list(pool.map(work, json.loads(sys.argv[2])))
    wall = time.perf_counter() - wall
print(json.dumps({"documents": sum(n for n, _ in done), "cpu": sum(s for _, s in done), "wall": wall}))
"""

CHECKED = """
import json, resource, sys, time
from pathlib import Path
from tests.support.memory import peak_bytes
from pretrain_archive.data.quality import check, engine_local, judge_local, scan
spent = {}
def timed(module, name, label):
    inner = getattr(module, name)
    def outer(*args, **kwargs):
        before = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            spent[label] = spent.get(label, 0.0) + time.perf_counter() - before
    setattr(module, name, outer)
scans = []
inner = engine_local.scan
def kept(*args, **kwargs):
    scans.append(inner(*args, **kwargs))
    return scans[-1]
engine_local.scan = kept
timed(engine_local, "scan", "scan")
timed(engine_local, "find", "near duplicates")
timed(judge_local.LocalJudge, "__call__", "judgement")
wall = time.perf_counter()
result = check.check_quality(None, path=sys.argv[1], limits=check.Limits(), work=Path(sys.argv[2]))
spent["all"] = time.perf_counter() - wall
use = resource.getrusage
cpu = sum(sum(use(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({"spent": spent, "cpu": cpu, "peak": peak_bytes(), "documents": result.payload.documents,
    "worker_peak": max(one["peak"] for one in scans[0].use), "near": result.payload.near_duplicates,
    "exact": result.payload.exact_duplicates, "gates": len(result.payload.gates)}))
"""

SCANNED = """
import json, os, sys
from pathlib import Path
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.quality.scan import Measures, scan
from pretrain_archive.data.shards import of_path
shards = list(of_path(os.fsencode(sys.argv[1]), Filter(include=("*.jsonl",))))
found = scan(shards, measures=Measures(heuristics=False), work=Path(sys.argv[2]), processes=2)
print(json.dumps({"peak": max(one["peak"] for one in found.use)}))
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """A gigabyte of documents, made on all cores."""
    folder = tmp_path_factory.mktemp("gigabyte")
    with ProcessPoolExecutor(workers()) as pool:
        jobs = [
            pool.submit(write_shard, folder / name, seed, size * 1_000_000)
            for seed, (name, size) in enumerate(SIZES.items(), 1)
        ]
        for job in jobs:
            job.result()
    return folder


def _run(program: str, *arguments: object) -> dict:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=900)
    return json.loads(done.stdout.splitlines()[-1])


def _plain(folder: Path) -> dict:
    """Parse and hash every line, nothing else, on the same cores."""
    jobs = []
    for name in SIZES:
        path = folder / name
        if name.endswith(".gz"):
            jobs.append((str(path), 0, 1 << 62))
            continue
        step = 32 << 20
        total = path.stat().st_size
        jobs += [(str(path), start, min(start + step, total)) for start in range(0, total, step)]
    return _run(PLAIN, workers(), json.dumps(jobs))


@pytest.mark.bench
@pytest.mark.requirement("R046", "R047")
@pytest.mark.timeout(1800)
def test_quality_of_a_gigabyte(corpus, tmp_path, capsys):
    """The whole check costs at most so many times the CPU of parsing and hashing as 60 seconds on two cores allow."""
    size = sum(SIZES.values())
    plain = min((_plain(corpus) for _ in range(2)), key=lambda one: one["cpu"])
    found = _run(CHECKED, corpus, tmp_path / "work")
    spent = found["spent"]
    ratio, share = found["cpu"] / plain["cpu"], spent["judgement"] / spent["all"]
    with capsys.disabled():
        print(
            f"\n{workers()} cores, {size} MB of JSON Lines in {len(SIZES)} shards, {found['documents']} documents"
        )
        print(
            f"  parse and hash alone  {plain['wall']:7.1f} s  {size / plain['wall']:7.1f} MB/s  {plain['cpu']:7.1f} CPU s"
        )
        for name in ("scan", "near duplicates", "judgement", "all"):
            told = f"{size / spent[name]:7.1f} MB/s"
            print(
                f"  {name:20}  {spent[name]:7.1f} s  {told}"
                + (f"  {found['cpu']:7.1f} CPU s" if name == "all" else "")
            )
        print(f"  CPU to the plain peer {ratio:7.1f}     (at most {RATIO})")
        print(f"  Great Expectations    {share:7.1%}     (at most {GX_SHARE:.1%})")
        for name, peak in (("check", found["peak"]), ("a scan process", found["worker_peak"])):
            print(f"  peak memory of {name:15} {peak / 2**20:6.0f} MiB (at most {MEMORY_MIB})")
        print(f"  found {found['exact']} exact and {found['near']} near duplicates; {found['gates']} gates")
    assert plain["documents"] == pytest.approx(found["documents"], abs=5)
    assert found["exact"] > found["documents"] / 100
    assert ratio <= RATIO
    assert share <= GX_SHARE
    assert max(found["peak"], found["worker_peak"]) <= MEMORY_MIB << 20


@pytest.mark.bench
def test_memory_does_not_grow_with_the_corpus(tmp_path, capsys):
    """A scan process takes no more memory for four times the data."""
    peaks = []
    for megabytes in (80, 320):
        folder = tmp_path / str(megabytes)
        folder.mkdir()
        write_shard(folder / "x.jsonl", 1, megabytes * 1_000_000)
        peaks.append(_run(SCANNED, folder, folder / "work")["peak"])
    with capsys.disabled():
        print(
            f"\npeak memory of a scan process: {peaks[0] >> 20} MiB of 80 MB, {peaks[1] >> 20} MiB of 320 MB"
        )
    assert peaks[1] <= peaks[0] * 1.15
