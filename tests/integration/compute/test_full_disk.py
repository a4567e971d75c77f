"""A disk that is full: the tree is still watched and ended, and what was written is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.compute.spec import WRAPPER

from .conftest import Job

FILL = """
import os, sys, time
folder = os.path.dirname(os.environ["PRETRAIN_ARCHIVE_EVENTS"])
events = open(os.environ["PRETRAIN_ARCHIVE_EVENTS"], "a", buffering=1)
events.write('{"event": "metric", "name": "loss", "step": 1, "value": 1.0}\\n')
with open(os.path.join(folder, "fill"), "wb", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError:
        pass
    time.sleep(float(sys.argv[1]))
if len(sys.argv) > 2:
    os.unlink(file.name)
    events.write('{"event": "note", "text": "training complete", "complete": true, "step": 1}\\n')
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_line_that_was_cut_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    """The first line fits half, then there is room again: what follows stands on lines of its own."""
    code = f"""
import resource, runpy, sys
Status = runpy.run_path({str(WRAPPER)!r})["Status"]
status = Status(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (30, resource.RLIM_INFINITY))
status.write("heartbeat", processes=1)
status.write("heartbeat", processes=2)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
status.write("ended", reason="exited")
print(status.failures)
"""
    path = tmp_path / "status.jsonl"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    cut, last = path.read_text().splitlines()

    assert ("2", "ended", 30) == (done.stdout.strip(), json.loads(last)["status"], len(cut))


@pytest.mark.requirement("R094")
def test_a_disk_that_stays_full_is_evidence_that_cannot_be_written(job: Job, small: Path) -> None:
    """No heartbeat comes any more: the job is stopped, nothing is left, and the end is on record."""
    spec = job.spec(
        command=(sys.executable, "-c", FILL, "60"), work_folder=small / "attempt-1", heartbeat_seconds=0.2
    )
    ended = job.launch(spec, evidence_seconds=1.0).run()

    assert "stopped" == ended.state, ended.reason
    assert "stop rule evidence" in ended.reason
    assert {} == processes_of(job.run_uid, 1)


def test_a_disk_that_was_full_for_a_while_costs_lines_only(job: Job, small: Path) -> None:
    """There is room again before anybody's patience ends: the job completes."""
    spec = job.spec(
        command=(sys.executable, "-c", FILL, "2", "again"),
        work_folder=small / "attempt-1",
        heartbeat_seconds=0.1,
    )
    ended = job.run(spec)

    assert ("completed", 0, 1) == (ended.state, ended.exit_code, ended.last_step), ended.reason
