"""A real torchrun with two gloo workers under the local launch."""

from __future__ import annotations

import sys
import threading

import pytest

from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.domain import kinds

from .conftest import ASSETS, Job, gone, wait_for

TORCHRUN = (
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(ASSETS / "worker.py"),
)  # fmt: skip
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def test_torchrun_completes_and_its_libraries_are_seen(job: Job) -> None:
    """Two workers train, the group ends, and the loaded torch is in the observed environment."""
    spec = job.spec(command=TORCHRUN, variables=ONE_THREAD, config={"steps": 20, "step_seconds": 0.05})
    ended = job.run(spec)

    observed = job.view().latest(kinds.EnvironmentObserved)
    assert ("completed", 20) == (ended.state, ended.last_step), job.lines
    assert observed is not None
    assert "torch" == observed.environment["libraries"]["libtorch_cpu"]
    assert observed.environment["packages"]["torch"]


@pytest.mark.case("L07")
def test_a_stopped_torchrun_leaves_nothing(job: Job) -> None:
    """Killed in the middle: launcher and both workers are gone, and the next start works at once."""
    spec = job.spec(command=TORCHRUN, variables=ONE_THREAD, config={"steps": 10_000, "step_seconds": 0.02})
    launch = job.launch(spec)
    found: list[kinds.AttemptEnded] = []
    thread = threading.Thread(target=lambda: found.append(launch.run()))
    thread.start()
    files = [spec.work_folder / f"rank{rank}.pid" for rank in (0, 1)]
    wait_for(lambda: all(file.exists() and file.read_text() for file in files), 60)
    wait_for(lambda: (spec.work_folder / "events.jsonl").stat().st_size > 500)
    pids = [int(file.read_text()) for file in files]
    launch.kill()
    thread.join(10)

    assert "interrupted" == found[0].state
    assert all(gone(pid) for pid in pids)
    assert {} == processes_of(job.run_uid, 1)


def test_a_failed_worker_fails_the_attempt(job: Job) -> None:
    """One worker that ends with an error fails the whole attempt; nothing is left."""
    config = {"steps": 1000, "step_seconds": 0.02, "die_at": 5}
    ended = job.run(job.spec(command=TORCHRUN, variables=ONE_THREAD, config=config))

    assert ("failed", 1) == (ended.state, ended.exit_code)
    assert {} == processes_of(job.run_uid, 1)
