"""Programs that turn against the one who watches them: the stop rules still run, and nothing is left."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.compute.process import END_SECONDS
from pretrain_archive.compute.recovery import STOP_FILE
from pretrain_archive.domain import kinds

from .conftest import Job, gone

HEAD = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
EVENTS = Path(os.environ["PRETRAIN_ARCHIVE_EVENTS"])
FOLDER = EVENTS.parent
def tell(**event):
    with EVENTS.open("a") as file:
        file.write(json.dumps(event) + "\\n")
def save(step):
    target = Path(os.environ["PRETRAIN_ARCHIVE_CHECKPOINT_DIR"]) / f"step-{step}"
    target.mkdir(parents=True)
    (target / "state.json").write_text("{}")
    tell(event="checkpoint", path=str(target), step=step)
def done():
    tell(event="note", text="training complete", complete=True, step=10)
"""


def program(job: Job, body: str) -> tuple[str, ...]:
    """A command that runs ``body`` with the few words of the contract."""
    file = job.root / "program.py"
    file.write_text(HEAD + body)
    return sys.executable, str(file)


@pytest.mark.requirement("R094")
@pytest.mark.parametrize("name", ["events.jsonl", "status.jsonl", "log.txt"])
@pytest.mark.parametrize(
    ("act", "found"),
    [
        pytest.param("os.mkfifo(path)", "a pipe", id="pipe"),
        pytest.param("path.symlink_to('/etc/passwd')", "a symbolic link", id="link"),
        pytest.param("path.mkdir()", "a folder", id="folder"),
    ],
)
def test_evidence_that_is_replaced_stops_the_job(job: Job, name: str, act: str, found: str) -> None:
    """A pipe, link or folder in place of a file that is read is named at once; nobody waits for its writer."""
    body = f"path = FOLDER / {name!r}\npath.unlink()\n{act}\ntime.sleep(60)"
    begin = time.monotonic()
    ended = job.run(job.spec(command=program(job, body)))

    fired = job.view().latest(kinds.StopFired)
    assert fired is not None
    assert ("evidence", f"{name} is {found}") == (fired.rule, fired.observed)
    assert "stopped" == ended.state
    assert "root:" not in ended.reason
    assert time.monotonic() - begin < 30
    assert {} == processes_of(job.run_uid, 1)


def test_replaced_evidence_is_no_completion(job: Job) -> None:
    """A program that replaces its events and ends at once has failed, whatever it had reported; so says a recovery."""
    body = "save(10)\ndone()\nEVENTS.unlink()\nos.mkfifo(EVENTS)"
    launch = job.launch(job.spec(command=program(job, body)))
    launch.rules = ()
    ended = launch.run()

    assert ("failed", 0) == (ended.state, ended.exit_code)
    assert "events.jsonl is a pipe" in ended.reason


def test_a_recovery_does_not_wait_for_a_pipe(job: Job) -> None:
    """What a vanished attempt left is read without waiting, and without following links."""
    job.intend()
    folder = job.spec().work_folder
    folder.mkdir(parents=True)
    for name in ("events.jsonl", "status.jsonl", "log.txt", STOP_FILE):
        os.mkfifo(folder / name)

    (ended,) = job.recover()

    assert "failed" == ended.state
    assert "is a pipe" in ended.reason


@pytest.mark.parametrize("name", ["events.jsonl", "log.txt", "config.json"])
def test_what_lies_in_a_new_attempts_folder_is_not_opened(job: Job, name: str) -> None:
    """A pipe that an earlier attempt's program left for the next one is refused by name."""
    spec = job.spec()
    spec.work_folder.mkdir(parents=True)
    os.mkfifo(spec.work_folder / name)

    with pytest.raises(Exception, match=name):
        job.run(spec)

    (ended,) = (end for _, end in job.view().all(kinds.AttemptEnded))
    assert "failed" == ended.state


@pytest.mark.requirement("R094")
def test_a_stop_rule_is_enforced_where_the_wrapper_is_stopped(job: Job) -> None:
    """SIGSTOP to the wrapper, again and again, from a tree that hides and ignores SIGTERM: all of it is gone."""
    body = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
wrapper = os.getppid()
(FOLDER / "wrapper.pid").write_text(str(wrapper))
for name in ("one", "two"):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            code = "import os, signal, time\\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
            code += f"while True:\\n os.kill({wrapper}, 19)\\n time.sleep(.005)"
            (FOLDER / f"{name}.pid").write_text(str(os.getpid()))
            os.execve(sys.executable, [sys.executable, "-c", code], {})
        os._exit(0)
os.mkfifo(FOLDER / "stop.json")
save(10)
os.kill(wrapper, signal.SIGSTOP)
time.sleep(120)
"""
    begin = time.monotonic()
    spec = job.spec(command=program(job, body), stop={"wall_minutes": 0.05})
    ended = job.run(spec)

    fired = job.view().latest(kinds.StopFired)
    assert fired is not None
    assert ("wall_time", "stopped", 10) == (fired.rule, ended.state, ended.last_checkpoint_step)
    assert END_SECONDS < time.monotonic() - begin < 30
    assert {} == processes_of(job.run_uid, 1)
    pids = [int(path.read_text()) for path in Path(spec.work_folder).glob("*.pid")]
    assert 3 == len(pids)
    assert all(gone(pid) for pid in pids)


def test_a_wrapper_that_was_stopped_is_woken_for_its_end(job: Job) -> None:
    """One SIGSTOP is answered by SIGCONT: the wrapper ends its tree itself and reports how."""
    body = "os.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(60)"
    ended = job.run(job.spec(command=program(job, body), stop={"wall_minutes": 0.03}))

    assert ("stopped", 15) == (ended.state, ended.signal)


def test_a_completion_without_checkpoints_says_so(job: Job) -> None:
    """The state stays; the reason names what the configuration asked for."""
    ended = job.run(job.spec(command=program(job, "done()"), config={"checkpoint_every": 5}))

    assert "completed" == ended.state
    assert "no verified checkpoint was reported, although one every 5 steps is configured" in ended.reason


def test_the_last_checkpoint_is_the_highest_verified_step(job: Job) -> None:
    """Steps that go backward do not lose the newest checkpoint."""
    ended = job.run(job.spec(command=program(job, "save(10)\nsave(5)\ndone()")))

    assert (10, 0) == (ended.last_checkpoint_step, ended.steps_lost)


def test_an_orphans_failure_outweighs_the_configured_step(job: Job) -> None:
    """The wrapper saw a child fail that nobody waited for: no completion, although the step was reached."""
    body = """
save(10)
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.05)  # far below what helpers get to end by themselves, also on a busy machine
        os._exit(3)
    os._exit(0)
os.wait()
done()
"""
    ended = job.run(job.spec(command=program(job, body), target_steps=10))

    assert ("failed", 0, 10) == (ended.state, ended.exit_code, ended.last_step)
    assert "exit code 3" in ended.reason


def test_a_flood_of_lines_costs_little(job: Job) -> None:
    """Some million short lines: a bounded number is shown, the others are counted, and the end is shown."""
    body = """
for _ in range(50):
    os.write(1, b"hello world line of text\\n" * 40000)
print("step 7", flush=True)
done()
"""
    ended = job.run(job.spec(command=program(job, body)))

    more = [int(line.split()[1]) for line in job.lines if line.endswith("lines more in the log")]
    assert "completed" == ended.state
    assert 2_000_001 == sum(more) + len(job.lines) - len(more)
    assert len(job.lines) < 10_000
    assert "step 7" == job.lines[-1]
    assert 40 * 50_000 * 25 < Path(job.spec().work_folder / "log.txt").stat().st_size
