"""Every process of an installation is found and ended, orphans with sessions of their own among them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import processes
import psutil
import pytest

SLEEPER = "import time; time.sleep(600)"
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("on", flush=True)
time.sleep(600)
"""
PARENT = f"""
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", {SLEEPER!r}], start_new_session=True)
print("on", flush=True)
if len(sys.argv) > 1: import time; time.sleep(600)
"""


def start(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a Python program in a session of its own and wait for its first word."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert "on\n" == process.stdout.readline()
    return process


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder whose processes are ended whatever the test finds."""
    yield tmp_path
    for process in processes.family(None, tmp_path):
        process.kill()


def test_descendants_and_orphans_are_ended(home: Path) -> None:
    """A parent, its child in another session, and the orphan of a parent that died are all ended."""
    living = start(PARENT, "stay", AIRFLOW_HOME=str(home))
    dead = start(PARENT, AIRFLOW_HOME=str(home))
    dead.wait(timeout=10)

    assert 3 == len(processes.family(living.pid, home))
    assert [] == processes.end(living.pid, home)
    assert [] == processes.family(living.pid, home)
    living.wait(timeout=10)


def test_a_training_job_is_found_by_its_place(home: Path) -> None:
    """A job whose environment names a place inside the home belongs to it; one beside it does not."""
    job = start(PARENT, "stay", PRETRAIN_ARCHIVE_CHECKPOINT_DIR=str(home / "work" / "x"))
    other = start(PARENT, "stay", PRETRAIN_ARCHIVE_CHECKPOINT_DIR=f"{home}-other/work")
    try:
        found = {process.pid for process in processes.family(None, home)}
        assert job.pid in found
        assert other.pid not in found
    finally:
        assert [] == processes.end(job.pid, home)
        assert [] == processes.end(other.pid, Path(f"{home}-other"))
        job.wait(timeout=10)
        other.wait(timeout=10)


def test_a_process_that_ignores_sigterm_is_killed(home: Path) -> None:
    """Patience ends: what does not go is killed."""
    process = start(STUBBORN, AIRFLOW_HOME=str(home))
    began = time.monotonic()

    assert [] == processes.end(process.pid, home, patience=1.0)
    assert time.monotonic() - began < 30
    process.wait(timeout=10)
    assert not psutil.pid_exists(process.pid)


def test_this_process_is_spared(home: Path) -> None:
    """Neither the caller nor its ancestors are ever in the family."""
    ours = psutil.Process()
    found = {process.pid for process in processes.family(os.getppid(), home)}
    assert set() == found & {ours.pid, *(parent.pid for parent in ours.parents())}
