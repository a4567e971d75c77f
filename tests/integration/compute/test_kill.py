"""Whatever ends a job, nothing of its tree stays alive, nothing else is signalled, and it is no success."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.domain import kinds

from .conftest import ASSETS, Job, gone, wait_for

KILL_LIMIT = 5.0  # Airflow kills the task so long after it asked for its end


def tree_pids(folder: Path, roles: tuple[str, ...] = ("root", "child", "grandchild")) -> dict[str, int]:
    """Process ids that the tree wrote down, once all are there."""
    wait_for(lambda: all((folder / f"{role}.pid").exists() for role in roles))
    return {role: int((folder / f"{role}.pid").read_text()) for role in roles}


class Running:
    """A launch in a thread of this process."""

    def __init__(self, launch: Any) -> None:
        self.launch, self.result = launch, []
        self.thread = threading.Thread(target=lambda: self.result.append(launch.run()))
        self.thread.start()

    def ended(self) -> kinds.AttemptEnded:
        """Wait for the end."""
        self.thread.join(30)
        return self.result[0]


@pytest.fixture
def bystander() -> Any:
    """A process that has nothing to do with the job and notes every signal."""
    code = (
        "import signal,sys,time\n"
        "for n in (1,2,10,12,15,18): signal.signal(n, lambda n,_: print('signal', n, flush=True))\n"
        "print('ready', flush=True)\nend=time.time()+120\nwhile time.time()<end: time.sleep(0.1)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.case("L07")
def test_kill_ends_the_whole_tree_and_nothing_else(job: Job, bystander: Any) -> None:
    """A child that ignores SIGTERM and a grandchild in a new session are gone within the time Airflow gives."""
    folder = job.root / "tree"
    running = Running(job.launch(job.spec(command=(sys.executable, str(ASSETS / "tree.py"), str(folder)))))
    pids = tree_pids(folder)

    begin = time.monotonic()
    running.launch.kill()
    wait_for(lambda: all(gone(pid) for pid in pids.values()))
    took = time.monotonic() - begin
    ended = running.ended()

    assert took < KILL_LIMIT
    assert "interrupted" == ended.state
    assert {} == processes_of(job.run_uid, 1)
    bystander.kill()
    assert "" == bystander.communicate()[0]

    again = job.run(job.spec(2, config={"steps": 3}))
    assert "completed" == again.state


@pytest.mark.case("L07")
@pytest.mark.parametrize(
    ("mode", "word", "roles"),
    [
        pytest.param(
            "exit 1", "exit code 1", ("root", "child", "grandchild"), id="parent exits 1, children live"
        ),
        pytest.param("hidden", "exit code 3 although", ("root",), id="parent exits 0, a child ended with 3"),
    ],
)
def test_a_parent_cannot_hide_its_children(job: Job, mode: str, word: str, roles: tuple[str, ...]) -> None:
    """Exit 1 with living children, and a child's failure behind exit 0, are failures; nothing stays alive."""
    folder = job.root / "tree"
    command = (sys.executable, str(ASSETS / "tree.py"), str(folder))
    ended = job.run(job.spec(command=command, variables={"TREE_MODE": mode}))

    assert "failed" == ended.state
    assert word in ended.reason
    assert all(gone(pid) for pid in tree_pids(folder, roles).values())
    assert {} == processes_of(job.run_uid, 1)


def start_task(job: Job, config: dict[str, Any], *extra: str, command: tuple[str, ...] = ()) -> Any:
    """A task process of its own that launches attempt 1."""
    job.intend()
    program = command or (sys.executable, str(ASSETS / "trainer.py"))
    argv = [sys.executable, str(ASSETS / "launch.py"), str(job.root), job.run_uid, "1"]
    return subprocess.Popen(
        [*argv, json.dumps(config), json.dumps(program), *extra],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def events_of(job: Job) -> Path:
    """The event file of attempt 1."""
    return job.root / "work" / job.run_uid / "attempt-1" / "events.jsonl"


def reached(job: Job, step: int) -> bool:
    """Whether the trainer reported ``step``."""
    file = events_of(job)
    return file.exists() and f'"step": {step},' in file.read_text()


def trainer_pid(job: Job) -> int:
    """The trainer's process id."""
    return int(events_of(job).with_name("trainer.pid").read_text())


@pytest.mark.case("L01")
@pytest.mark.parametrize(
    ("whom", "sigterm"),
    [
        pytest.param("task", "exit 0", id="a: task, trainer exits 0"),
        pytest.param("task", "ignore", id="a: task, trainer ignores it"),
        pytest.param("task", "default", id="a: task, trainer dies of it"),
        pytest.param("trainer", "exit 0", id="b: trainer, exits 0"),
        pytest.param("trainer", "default", id="b: trainer, dies of it"),
        pytest.param("both", "exit 0", id="c: both, trainer exits 0"),
        pytest.param("both", "ignore", id="c: both, trainer ignores it"),
    ],
)
def test_sigterm_is_never_a_success(job: Job, whom: str, sigterm: str) -> None:
    """SIGTERM to task, trainer or both: interrupted, the last step kept, nothing alive."""
    task = start_task(job, {"steps": 2000, "step_seconds": 0.02, "sigterm": sigterm}, "on_kill")
    wait_for(lambda: reached(job, 15))
    trainer = trainer_pid(job)
    begin = time.monotonic()
    if whom in {"task", "both"}:
        task.send_signal(signal.SIGTERM)
    if whom in {"trainer", "both"}:
        os.kill(trainer, signal.SIGTERM)
    out, err = task.communicate(timeout=20)

    assert out, err
    ended = json.loads(out)
    assert time.monotonic() - begin < KILL_LIMIT
    assert "interrupted" == ended["state"]
    assert 15 <= ended["last_step"] < 2000
    assert 10 <= ended["last_checkpoint_step"]
    assert gone(trainer)
    assert {} == processes_of(job.run_uid, 1)
    assert "interrupted" == job.view().latest(kinds.AttemptEnded).state  # type: ignore[union-attr]


def test_sigterm_without_a_handler_ends_the_group(job: Job) -> None:
    """Outside Airflow nobody handles SIGTERM: the launch does, and the attempt is interrupted."""
    task = start_task(job, {"steps": 2000, "step_seconds": 0.02})
    wait_for(lambda: reached(job, 12))
    task.send_signal(signal.SIGTERM)
    out, _ = task.communicate(timeout=20)

    assert "interrupted" == json.loads(out)["state"]
    assert {} == processes_of(job.run_uid, 1)


@pytest.mark.parametrize("sigterm", ["default", "ignore"])
def test_a_killed_worker_leaves_no_orphan(job: Job, sigterm: str) -> None:
    """After SIGKILL of the task process the tree ends by itself; the next try closes and resumes the attempt."""
    task = start_task(job, {"steps": 2000, "step_seconds": 0.02, "sigterm": sigterm})
    wait_for(lambda: reached(job, 27))
    trainer = trainer_pid(job)
    task.kill()
    task.communicate()
    wait_for(lambda: gone(trainer) and not processes_of(job.run_uid, 1), KILL_LIMIT)
    assert job.view().latest(kinds.AttemptEnded) is None

    (lost,) = job.recover()
    assert [] == job.recover()
    assert "lost" == lost.state
    assert lost.last_step is not None
    assert lost.last_checkpoint_step is not None
    assert lost.last_step >= 27
    assert lost.last_step - lost.last_checkpoint_step == lost.steps_lost
    assert lost.seconds

    resume = lost.last_checkpoint_step
    folder = job.root / "checkpoints" / f"step-{resume:06d}"
    steps = lost.last_step + 5
    ended = job.run(job.spec(2, resume_from=folder, resume_step=resume, config={"steps": steps}))
    assert ("completed", resume + 1, steps) == (ended.state, ended.first_step, ended.last_step)
    assert lost.last_step - resume == ended.steps_repeated
    moments = [e.moment for record, e in job.view().all(kinds.EnvironmentObserved) if record.attempt == 2]
    assert ["resume", "end"] == moments


def test_a_killed_worker_and_wrapper_are_cleaned_by_the_next_try(job: Job, bystander: Any) -> None:
    """If the wrapper is killed too, the next try finds what is left by its mark and ends only that."""
    folder = job.root / "tree"
    task = start_task(job, {}, command=(sys.executable, str(ASSETS / "tree.py"), str(folder)))
    pids = tree_pids(folder)
    status = [json.loads(line) for line in events_of(job).with_name("status.jsonl").read_text().splitlines()]
    wrapper = next(line["wrapper"] for line in status if line["status"] == "program_started")
    task.send_signal(signal.SIGSTOP)
    os.kill(wrapper, signal.SIGKILL)
    task.kill()
    task.communicate()
    wait_for(lambda: gone(pids["root"]))
    assert not gone(pids["grandchild"])

    (lost,) = job.recover()

    assert "lost" == lost.state
    assert all(gone(pid) for pid in pids.values())
    bystander.kill()
    assert "" == bystander.communicate()[0]


def test_a_killed_wrapper_is_a_failure_and_leaves_nothing(job: Job) -> None:
    """If only the wrapper is killed, the task notices and ends the tree from outside."""
    folder = job.root / "tree"
    running = Running(job.launch(job.spec(command=(sys.executable, str(ASSETS / "tree.py"), str(folder)))))
    pids = tree_pids(folder)
    os.kill(running.launch.process.popen.pid, signal.SIGKILL)
    ended = running.ended()

    assert "failed" == ended.state
    assert "wrapper" in ended.reason
    assert all(gone(pid) for pid in pids.values())


def test_kill_before_the_start_starts_nothing(job: Job) -> None:
    """A task that is asked to end before its job began starts no process and is interrupted."""
    launch = job.launch(job.spec())
    launch.kill("asked early")
    ended = launch.run()

    assert ("interrupted", "asked early", None) == (ended.state, ended.reason, ended.last_step)
    assert launch.process.popen is None


def test_an_error_in_the_task_ends_the_tree(job: Job) -> None:
    """An exception of the caller's own code (here: showing progress) stops the job before it is raised."""
    folder = job.root / "tree"
    launch = job.launch(job.spec(command=(sys.executable, str(ASSETS / "tree.py"), str(folder))))

    def stop() -> str:
        if (folder / "grandchild.pid").exists():
            raise KeyboardInterrupt
        return ""

    launch.should_stop = stop
    with pytest.raises(KeyboardInterrupt):
        launch.run()

    assert all(gone(pid) for pid in tree_pids(folder).values())
    assert "interrupted" == job.view().latest(kinds.AttemptEnded).state  # type: ignore[union-attr]


def test_a_finished_job_of_a_killed_worker_is_recognised(job: Job) -> None:
    """What ended with exit code 0 and its marker is completed, even if nobody was left to write that down."""
    ended = job.run(job.spec(config={"steps": 12}))
    other = Job(ledger=job.ledger, root=job.root)
    other.intend()
    target = job.root / "work" / other.run_uid
    (job.root / "work" / job.run_uid).rename(target)

    (found,) = other.recover()

    assert ("completed", ended.last_step, ended.log_digest) == (
        found.state,
        found.last_step,
        found.log_digest,
    )
