"""Snapshots against plain hashlib and against dvc, an unchanged second snapshot, and how much memory is taken."""

# ruff: noqa: T201 - the table is the result

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.rounds import rounds

from pretrain_archive.data.building import build
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.hashing import BLOCK, workers
from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.data.stamps import AGE_NS
from pretrain_archive.data.tree import FolderTree
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.storage.files import FileStore

MIB = 1 << 20
FILE_MIB = 16
FILES = 64
RATIO = 0.90
MEMORY_MIB = 200
SMALL_FILES, SMALL_BYTES = 20_000, 4096
TIMES_DVC = 3.0
SECOND = 0.2
MILLION_MIB = 300
ROOT = Path(__file__).parents[2]
DVC = ROOT / ".venv-peers/bin/dvc"


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
        return list(pool.map(_plain, sorted(folder.iterdir(), key=os.fsencode)))


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
    """Hashing for a snapshot reaches at least 90 % of plain hashlib, and gives the same digests."""
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


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """Twenty thousand files of 4 KiB, in folders of 500, old enough for stamps."""
    folder = tmp_path_factory.mktemp("small")
    for number in range(SMALL_FILES):
        inner = folder / f"{number // 500:02d}"
        inner.mkdir(exist_ok=True)
        (inner / f"{number:05d}.txt").write_bytes(os.urandom(SMALL_BYTES))
    newest = time.time_ns()
    while newest + AGE_NS >= time.time_ns():
        time.sleep(0.05)
    return folder


def _snapshot(folder: Path, place: Path, mode: str, stamps: Path | None = None) -> float:
    """Seconds of one snapshot into the store at ``place``."""
    start = time.perf_counter()
    create_snapshot(
        FileStore(place), None, name="n", source_root=folder, mode=mode, actor=Actor(type="cli", name="n"),
        origin=Origin(dag_id="cli", dag_run_id="1", task_id="t"), stamps=stamps,
    )  # fmt: skip
    return time.perf_counter() - start


def _apart(folder: Path, place: Path) -> float:
    """Seconds of one snapshot by reference in a process of its own, as dvc has one; without its start.

    In the process of the tests the collector would walk what thousands of tests have left.
    """
    program = (
        "import sys; from pathlib import Path; from tests.bench.test_bench_snapshot import _snapshot; "
        "print(_snapshot(Path(sys.argv[1]), Path(sys.argv[2]), 'reference'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, folder, place], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def _dvc(folder: Path, place: Path) -> tuple[float, float]:
    """Seconds of ``dvc add --no-commit`` in a repository of its own, and of dvc's mere start."""
    place.mkdir()
    environment = os.environ | {
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(place / "site"),
        "HOME": str(place),
    }

    def call(*words: str) -> float:
        start = time.perf_counter()
        subprocess.run([DVC, *words], cwd=place, env=environment, check=True, capture_output=True)
        return time.perf_counter() - start

    call("init", "--no-scm", "--quiet")
    call("config", "core.analytics", "false")
    call("config", "core.check_update", "false")
    shutil.copytree(folder, place / "data")
    started = call("version")
    return call("add", "--no-commit", "--quiet", "data"), started


@pytest.mark.bench
@pytest.mark.skipif(not DVC.exists(), reason="make peers")
def test_small_files_against_dvc(small, tmp_path, capsys):
    """Small files by reference: at least three times the files per second of dvc, its start-up included."""
    best = {"dvc": 1e9, "start": 1e9, "ours": 1e9}
    made = 0
    for number in rounds(lambda: best["dvc"] / best["ours"] >= TIMES_DVC, least=3, most=12):
        made += 1
        whole, started = _dvc(small, tmp_path / f"dvc{number}")
        shutil.rmtree(tmp_path / f"dvc{number}")
        best["dvc"], best["start"] = min(best["dvc"], whole), min(best["start"], started)
        best["ours"] = min(best["ours"], _apart(small, tmp_path / f"ours{number}"))
    ratio = best["dvc"] / best["ours"]
    with capsys.disabled():
        print(f"\n{SMALL_FILES} files of {SMALL_BYTES} bytes, best of {made}")
        print(
            f"  dvc add --no-commit {SMALL_FILES / best['dvc']:8.0f} files/s ({best['start']:.2f} s of it start-up)"
        )
        print(f"  snapshot            {SMALL_FILES / best['ours']:8.0f} files/s")
        print(f"  ratio               {ratio:8.2f}   (at least {TIMES_DVC})")
        print(f"  without start-up    {(best['dvc'] - best['start']) / best['ours']:8.2f}")
    assert ratio >= TIMES_DVC


@pytest.mark.bench
@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_an_unchanged_second_snapshot(mode, small, tmp_path, capsys):
    """With stamps an unchanged tree takes at most a fifth of the first snapshot."""
    best = {"first": 1e9, "second": 1e9}
    most = 2 if mode == "copy" else 12  # copying writes each file to the disk: seconds, not tenths
    for number in rounds(lambda: best["second"] / best["first"] <= SECOND, least=2, most=most):
        place, stamps = tmp_path / f"{number}", tmp_path / f"{number}-stamps"
        best["first"] = min(best["first"], _snapshot(small, place, mode, stamps))
        for _ in range(2):
            best["second"] = min(best["second"], _snapshot(small, place, mode, stamps))
    ratio = best["second"] / best["first"]
    with capsys.disabled():
        print(f"\n  {mode}: first {best['first']:.2f} s, unchanged {best['second']:.3f} s")
        print(f"  ratio {ratio:.3f}   (at most {SECOND})")
    assert ratio <= SECOND


MILLION = """
import io, sys
from tests.support.memory import peak_bytes
from pretrain_archive.data.planning import make_plan
from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.data.tree import Listed
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.storage.files import FileStore
class Tree:
    uri = "file:///made/up"
    def list(self, chosen):
        for n in range(1_000_000):
            yield Listed(b"folder-%03d/document-%07d.jsonl" % (n // 1000, n), 8, (64769, n, 8, 10**18 + n, 10**18 + n))
    def open(self, listed):
        return io.BytesIO(listed.path[-8:])
    def same(self, listed, stream):
        return True
store = FileStore(sys.argv[1])
if sys.argv[2] == "plan":
    wish = {"name": "n", "mode": "reference", "include": [], "exclude": []}
    made = make_plan(store, Tree(), wish, stream="data/n", parts=64)
    assert made.files == 1_000_000
else:
    made = create_snapshot(store, None, name="n", source_root=Tree(), mode="reference",
        actor=Actor(type="cli", name="n"), origin=Origin(dag_id="cli", dag_run_id="1", task_id="t"))
    assert made.file_count == 1_000_000
print(peak_bytes())
"""


@pytest.mark.bench
@pytest.mark.parametrize("work", ["plan", "snapshot"])
def test_memory_for_a_million_files(work, tmp_path, capsys):
    """Listing, hashing and looking again at a million files stays under 300 MB, interpreter and libraries included."""
    done = subprocess.run(
        [sys.executable, "-c", MILLION, tmp_path / "store", work],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    peak = int(done.stdout) / 2**20
    with capsys.disabled():
        print(f"\n  a million files, {work}: peak {peak:.0f} MiB   (below {MILLION_MIB})")
    assert peak < MILLION_MIB


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
