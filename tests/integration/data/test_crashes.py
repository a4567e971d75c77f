"""Killed at random moments: the old state or the whole new version, and the next try completes.

Each round is a process of its own that is killed by SIGKILL some time after it said that its work begins. The seed of
the moments is printed; ``CRASH_SEED`` repeats them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.crash_work import WORK, ledger_of
from tests.support.data_track import ACTOR, new_ledger, origin, write_tree

from pretrain_archive.data.leftovers import left_over
from pretrain_archive.data.snapshots import create_snapshot, latest_version, open_version, versions
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.storage.factory import open_store

pytestmark = pytest.mark.requirement("R051", "R057")
ROUNDS = 5
ROOT = Path(__file__).parents[3]


def stood(folder: Path, old: dict[bytes, bytes], new: dict[bytes, bytes]) -> int:
    """Check that what can be seen is the old state or the whole new version; return the newest version."""
    store = open_store(f"file://{folder}/store")
    seen = versions(store, "corpus")
    assert seen in ([1], [1, 2])
    for version, files in zip(seen, (old, new), strict=False):
        made = open_version(store, "corpus", version)
        assert [] == list(verify_snapshot(store, "corpus", version).items)
        assert (len(files), sum(map(len, files.values()))) == (made.file_count, made.total_bytes)
    recorded = {r.payload["version"] for r in ledger_of(folder).records(kinds=["snapshot.created"])}
    assert recorded <= set(seen)
    return seen[-1]


def begin(folder: Path, work: str, *, after: float | None = None) -> tuple[int, float]:
    """Do the work in a process, killed ``after`` seconds if it works for so long; its code and its seconds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.crash_work", work, folder],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | {"AIRFLOW_HOME": str(folder / "home")},
    )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        assert "begun\n" == process.stdout.readline()
        begun = time.monotonic()
        try:
            code = process.wait(timeout=60 if after is None else after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            code = process.wait()
    return code, time.monotonic() - begun


def own_plan(folder: Path) -> str | None:
    """The folder of the plan that the last try went on with; None without parts."""
    note = folder / "plan"
    return note.read_text().split(maxsplit=1)[1].rpartition("@")[0] if note.exists() else None


@pytest.mark.timeout(300)
@pytest.mark.parametrize("work", ["whole", "parts"])
def test_killed_at_random_moments(tmp_path, monkeypatch, work):
    """Old state or whole new version after every kill; then the same step completes, and leaves nothing behind."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    seed = int(os.environ.get("CRASH_SEED") or random.SystemRandom().randrange(10**6))
    print(f"CRASH_SEED={seed}")  # noqa: T201 - to repeat a failure
    draw = random.Random(seed)
    old = {b"%02d/f" % n: b"old %d" % n for n in range(20)}
    new = {b"%02d/f" % n: b"new %d" % n * n for n in range(40)} | {b"large": bytes(2_000_000)}
    seconds, killed = 0.0, 0
    for number in range(ROUNDS + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        new_ledger(folder)
        write_tree(folder / "in", old)
        WORK["whole"](folder)
        write_tree(folder / "in", new)
        if not number:  # how long it takes if nobody comes between
            code, seconds = begin(folder, work)
            assert (0, 2) == (code, stood(folder, old, new))
            continue
        code, _ = begin(folder, work, after=draw.uniform(0, seconds))
        assert code in {0, -signal.SIGKILL}
        killed += code != 0
        stood(folder, old, new)
        WORK[work](folder)
        assert 2 == stood(folder, old, new)
        assert 2 in {r.payload["version"] for r in ledger_of(folder).records(kinds=["snapshot.created"])}
        # A plan whose task was killed before it could name it belongs to nobody: it goes after its days.
        left = {plan.folder for plan in left_over(open_store(f"file://{folder}/store"))}
        assert len(left) <= (code != 0 and work == "parts")
        assert own_plan(folder) not in left
        assert [] == list((folder / "store/.tmp").iterdir())
    # Rounds that all came too late would prove nothing.
    assert killed >= ROUNDS // 3, (killed, seconds)


@pytest.mark.parametrize("kind", ["same content", "other content"])
def test_two_writers_race_for_a_version(store, tmp_path, kind):
    """Of two writers of one name each version is one writer's, whole; equal content is one version."""
    start = threading.Barrier(2)
    made, errors = {}, []
    roots = [
        write_tree(tmp_path / str(n), {b"f": b"same" if kind == "same content" else b"%d" % n})
        for n in (0, 1)
    ]

    def write(number: int) -> None:
        try:
            start.wait()
            made[number] = create_snapshot(
                store,
                None,
                name="corpus",
                source_root=roots[number],
                mode="copy",
                actor=ACTOR,
                origin=origin(),
            )
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=write, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == errors
    expected = [1] if kind == "same content" else [1, 2]
    assert expected == versions(store, "corpus")
    assert sorted(expected * (2 // len(expected))) == sorted(snapshot.version for snapshot in made.values())
    for version in expected:
        assert [] == list(verify_snapshot(store, "corpus", version).items)
    newest = open_version(store, "corpus", latest_version(store, "corpus"))
    assert newest.parent == (None if len(expected) == 1 else "snapshot:corpus@1")
