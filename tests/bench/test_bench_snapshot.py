"""Hashing a source against plain hashlib on all cores, and how much memory a snapshot takes."""

# ruff: noqa: T201 - the table is the result

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.rounds import rounds

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import BLOCK, workers
from pretrain_archive.data.building import build
from pretrain_archive.data.tree import FolderTree

MIB = 1 << 20
FILE_MIB = 192
FILES = 4
RATIO = 0.85
MEMORY_MIB = 200


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """A few large files, in the page cache for both sides."""
    folder = tmp_path_factory.mktemp("large")
    block = os.urandom(MIB)
    for number in range(FILES):
        with (folder / f"{number}.bin").open("wb") as out:
            for step in range(FILE_MIB):
                out.write(step.to_bytes(8, "big") + block[8:])
    return folder


def _plain(path: Path) -> str:
    buffer = memoryview(bytearray(BLOCK))
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        while count := stream.readinto(buffer):
            digest.update(buffer[:count])
    return "sha256:" + digest.hexdigest()


def plain(folder: Path) -> list[str]:
    """What hashlib alone does on all cores, with the same block size."""
    with ThreadPoolExecutor(workers()) as pool:
        return list(pool.map(_plain, sorted(folder.iterdir())))


def ours(folder: Path) -> list[str]:
    """What a snapshot does: list, stamp, hash, look again, write and digest the manifest."""
    built = build(FolderTree.at(str(folder)), Filter())
    with built.file:
        return [entry.sha256 for entry in built.entries()]


def _seconds(work: Callable[[Path], list[str]], folder: Path) -> tuple[float, list[str]]:
    start = time.perf_counter()
    digests = work(folder)
    return time.perf_counter() - start, digests


@pytest.mark.bench
def test_hashing_large_files(large, capsys):
    """Hashing for a snapshot reaches at least 85 % of plain hashlib, and gives the same digests."""
    size = FILES * FILE_MIB
    best = {"hashlib": 1e9, "snapshot": 1e9}
    made = 0
    for _ in rounds(lambda: best["hashlib"] / best["snapshot"] >= RATIO):
        made += 1
        for name, work in (("hashlib", plain), ("snapshot", ours)):
            seconds, digests = _seconds(work, large)
            best[name] = min(best[name], seconds)
            assert digests == plain(large) if name == "snapshot" else digests
    ratio = best["hashlib"] / best["snapshot"]
    with capsys.disabled():
        print(f"\n{workers()} cores, {FILES} files of {FILE_MIB} MiB, best of {made}")
        for name, seconds in best.items():
            print(f"  {name:10} {size / seconds:8.0f} MiB/s")
        print(f"  ratio      {ratio:8.2f}   (at least {RATIO})")
    assert ratio >= RATIO


MEASURED = """
import sys
from tests.support.memory import peak_bytes
from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.storage.files import FileStore
create_snapshot(FileStore(sys.argv[2]), None, name="n", source_root=sys.argv[1], mode=sys.argv[3],
    actor=Actor(type="cli", name="n"), origin=Origin(dag_id="cli", dag_run_id="1", task_id="t"))
print(peak_bytes())
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """Twenty-five thousand small files."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(25_000):
        if number % 1000 == 0:
            (folder / f"{number // 1000:02d}").mkdir()
        (folder / f"{number // 1000:02d}" / f"{number:05d}.txt").write_bytes(b"%d" % number)
    return folder


@pytest.mark.bench
@pytest.mark.parametrize(("tree", "mode"), [("large", "copy"), ("many", "reference")])
def test_memory(tree, mode, request, tmp_path, capsys):
    """A process that snapshots large files, or very many, stays under 200 MB at its peak."""
    folder = request.getfixturevalue(tree)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, folder, tmp_path / "store", mode],
        cwd=Path(__file__).parents[2],  # where the package of the tests' own helpers lies
        capture_output=True,
        text=True,
        check=True,
    )
    peak = int(done.stdout) / 2**20
    with capsys.disabled():
        print(f"\n  {tree} files, {mode}: peak {peak:.0f} MiB   (below {MEMORY_MIB})")
    assert peak < MEMORY_MIB
