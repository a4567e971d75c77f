"""Trees that do not want to end and logs that are no clean text, with one worker and with several."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute.ingest import Ingest
from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.compute.outcome import conclude
from pretrain_archive.compute.seen import Writer
from pretrain_archive.compute.spec import WRAPPER
from pretrain_archive.domain import kinds

from .conftest import ACTOR, ASSETS, Job, gone, origin, wait_for

KILL_LIMIT = 5.0
ROLES = ("root", "child", "grandchild")

NOISE = r"""
import json, os, sys
out = sys.stdout.buffer
out.write(b"half \xe2\x96\n\x88 glyph\nlatin \xe9\xe8\nnul \x00 end\n\x1b[31mred\x1b[0m and \x1b]0;title\x07plain\n")
for number in range(2000):
    out.write(b"\r%d%%" % (number // 20))
out.write(b"\n" + b"z" * (1 << 20) + b"\nstep 10 loss 0.5\n")
out.flush()
"""
MARKER = r"""
with open(os.environ["PRETRAIN_ARCHIVE_EVENTS"], "a") as file:
    file.write(json.dumps({"event": "note", "text": "training complete", "complete": True}) + "\n")
"""
CLEAN = ["half �", "� glyph", "latin ��", "nul � end", "red and plain", "99%"]
BAD_BYTES = 5  # two of the first half of the glyph, its last one, two of Latin-1


def worker(folder: Path, number: int, *command: str, **variables: str) -> Any:
    """The wrapper of one worker, as its own machine would start it."""
    folder.mkdir(exist_ok=True)
    argv = [sys.executable, str(WRAPPER), "--status", str(folder / "status.jsonl"), "--log",
            str(folder / "log.txt"), "--worker", str(number), "--heartbeat", "0.2", "--", *command]  # fmt: skip
    environment = {**os.environ, "PRETRAIN_ARCHIVE_EVENTS": str(folder / "events.jsonl"), **variables}
    return subprocess.Popen(argv, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)


def tree(folder: Path) -> tuple[str, ...]:
    """The command of a launcher, its child that ignores SIGTERM, and a grandchild in a session of its own."""
    return sys.executable, str(ASSETS / "tree.py"), str(folder)


def pids_of(folder: Path, roles: tuple[str, ...] = ROLES) -> list[int]:
    """Process ids that a tree wrote down, once all are there."""
    wait_for(lambda: all((folder / f"{role}.pid").exists() for role in roles))
    return [int((folder / f"{role}.pid").read_text()) for role in roles]


def read(job: Job, folder: Path, workers: int) -> Ingest:
    """Everything that the workers wrote."""
    writer = Writer(ledger=job.ledger, run_uid=job.run_uid, attempt=1, actor=ACTOR, origin=origin())
    found = Ingest(
        writer, status=folder / "status.jsonl", events=folder / "events.jsonl", on_checkpoint=lambda _: True,
        workers=workers,
    )  # fmt: skip
    found.poll(final=True)
    return found


@pytest.mark.case("L07")
def test_the_end_of_one_worker_is_the_end_of_its_own_tree(job: Job, tmp_path: Path) -> None:
    """The trees of the other workers are not signalled; asked too, they end within the same time."""
    folder = tmp_path / "attempt"
    wrappers = [worker(folder, n, *tree(tmp_path / f"tree-{n}")) for n in (0, 1, 2)]
    trees = [pids_of(tmp_path / f"tree-{n}") for n in (0, 1, 2)]

    begin = time.monotonic()
    wrappers[1].send_signal(signal.SIGTERM)
    wait_for(lambda: all(gone(pid) for pid in trees[1]))
    first = time.monotonic() - begin
    alive = [gone(pid) for pid in (*trees[0], *trees[2])]
    begin = time.monotonic()
    for number in (0, 2):
        wrappers[number].send_signal(signal.SIGTERM)
    wait_for(lambda: all(gone(pid) for pid in (*trees[0], *trees[2])))
    rest = time.monotonic() - begin
    for process in wrappers:
        process.wait(10)
    outcome = conclude(read(job, folder, 3).seen, target_steps=None)

    assert first < KILL_LIMIT
    assert rest < KILL_LIMIT
    assert not any(alive)
    assert ("interrupted", True) == (outcome.state, outcome.reason.startswith("worker 1 of 3: "))


@pytest.mark.case("L07")
@pytest.mark.parametrize(
    ("mode", "word", "roles"),
    [
        pytest.param("exit 1", "exit code 1", ROLES, id="parent exits 1, children live"),
        pytest.param("hidden", "exit code 3 although", ("root",), id="parent exits 0, a child ended with 3"),
    ],
)
def test_a_failure_of_any_worker_is_one_of_the_attempt(
    job: Job, tmp_path: Path, mode: str, word: str, roles: tuple[str, ...]
) -> None:
    """Worker 1 alone fails, openly or hidden: the attempt failed by it, and nothing of its tree is left."""
    folder = tmp_path / "attempt"
    marker = (sys.executable, "-c", "import json, os\n" + MARKER)
    wrappers = [
        worker(folder, 0, *marker),
        worker(folder, 1, *tree(tmp_path / "tree"), TREE_MODE=mode),
    ]
    codes = [process.wait(20) for process in wrappers]
    outcome = conclude(read(job, folder, 2).seen, target_steps=None)

    assert (0, 1) == tuple(codes)
    assert "failed" == outcome.state
    assert "worker 1 of 2: " in outcome.reason
    assert word in outcome.reason
    assert all(gone(pid) for pid in pids_of(tmp_path / "tree", roles))


@pytest.mark.case("L07")
@pytest.mark.parametrize("mode", ["exit 1", "hidden"])
def test_a_second_start_succeeds_at_once(job: Job, mode: str) -> None:
    """After a failed tree the next attempt starts and completes, and finds nothing of the first."""
    command = tree(job.root / "tree")
    first = job.run(job.spec(command=command, variables={"TREE_MODE": mode}))
    left = processes_of(job.run_uid, 1)
    second = job.run(job.spec(2, config={"steps": 3}))

    assert ("failed", "completed") == (first.state, second.state)
    assert {} == left


@pytest.mark.case("L07")
def test_tools_that_hang_are_ended_with_the_tree(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that waits for a tool does not outlive the kill, nor does it make it late."""
    folder = job.root / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text("#!/bin/sh\nsleep 83.19\n")
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    launch = job.launch(job.spec(command=tree(job.root / "tree")))
    pids: list[int] = []

    def stop() -> str:
        if not pids and (job.root / "tree" / "grandchild.pid").exists():
            pids.extend(pids_of(job.root / "tree"))
            return "asked to end"
        return ""

    launch.should_stop = stop
    ended = launch.run()

    assert ("interrupted", "asked to end") == (ended.state, ended.reason)
    assert all(gone(pid) for pid in pids)
    assert (
        "83.19"
        not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.case("L09")
def test_a_noisy_program_completes(job: Job) -> None:
    """Shown cleanly and bounded, bad bytes counted in the end's record, the last step found in the log alone."""
    ended = job.run(job.spec(command=(sys.executable, "-c", NOISE + MARKER)))

    assert ("completed", 0) == (ended.state, ended.exit_code)
    assert CLEAN == job.lines[: len(CLEAN)]
    assert "step 10 loss 0.5" == job.lines[-1]
    assert max(map(len, job.lines)) < 2100
    assert (10, BAD_BYTES) == (ended.last_step, ended.log_bad_bytes)
    assert "step 10 by the log alone" in ended.reason


@pytest.mark.case("L09")
def test_noise_of_every_worker_is_kept_as_it_is(job: Job, tmp_path: Path) -> None:
    """Three noisy workers: all well; the logs of the others are digested byte by byte, and in nobody's way."""
    folder = tmp_path / "attempt"
    wrappers = [
        worker(folder, n, sys.executable, "-c", NOISE + (MARKER if n == 0 else "")) for n in (0, 1, 2)
    ]
    codes = [process.wait(30) for process in wrappers]
    outcome = conclude(read(job, folder, 3).seen, target_steps=None)

    assert ([0, 0, 0], "completed") == (codes, outcome.state)
    (logs,) = [e.data["logs"] for _, e in job.view().all(kinds.EventRecorded) if e.event == "worker_logs"]
    sizes = {(folder / f"log-{n}.txt").stat().st_size for n in (1, 2)}
    assert {log["bytes"] for log in logs} == sizes
    assert 1 == len({log["digest"] for log in logs})
    assert (1 << 20) < sizes.pop()


@pytest.mark.case("L09")
def test_a_status_file_full_of_noise_is_read(job: Job, tmp_path: Path) -> None:
    """What a broken disk or a program wrote between a worker's lines is passed over; its end still counts."""
    folder = tmp_path / "attempt"
    worker(folder, 0, sys.executable, "-c", "import json, os\n" + MARKER).wait(20)
    worker(folder, 1, "true").wait(20)
    noise = (
        b"\xff\xfe\n{\n[]\n\x00\n" + b'{"status": 7, "at": []}\n{"status": "environment", "environment": 3}\n'
    )
    noise += (
        b'{"status": "heartbeat", "accelerators": 5, "rss_bytes": "x"}\n{"status": "stop"}\n'
        + b"y" * (1 << 19)
        + b"\n"
    )
    for name in ("status.jsonl", "status-1.jsonl"):
        text = (folder / name).read_bytes()
        head, _, end = text.rstrip(b"\n").rpartition(b"\n")
        (folder / name).write_bytes(noise + head + b"\n" + noise + end + b"\n")
    found = read(job, folder, 2)

    assert "completed" == conclude(found.seen, target_steps=None).state
    assert found.seen.fired is None
