"""A worker that is killed in the middle of training: the next try resumes, and nothing is hidden."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest
from tests.e2e.conftest import QUICK, House

from pretrain_archive.domain import kinds

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1500)]


def training_processes(run_uid: str) -> list[psutil.Process]:
    """Processes that carry the run's marker in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PRETRAIN_ARCHIVE_RUN_UID") == run_uid:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.requirement("R024", "R027", "R082", "R094", "R135")
def test_killed_worker_resumes_from_the_last_verified_checkpoint(house: House) -> None:
    """SIGKILL to the task process: no orphan stays, attempt 2 resumes, lost and repeated steps are counted."""
    from airflow_client import wait_for

    slow = QUICK | {"optimisation": QUICK["optimisation"] | {"steps": 3000}}  # type: ignore[operator]  # a mapping
    dag_run_id = house.trigger(configuration=slow, checkpoint_every=300)
    house.pass_gate(dag_run_id, "prepare")
    wait_for(
        "a verified checkpoint of attempt 1",
        lambda: bool(house.runs(dag_run_id)) and house.all(dag_run_id, kinds.CheckpointRegistered),
        timeout=400,
    )
    run_uid = house.view(dag_run_id).run_uid
    [wrapper] = [p for p in training_processes(run_uid) if "wrapper.py" in " ".join(p.cmdline())]
    worker = wrapper.parent()
    assert worker is not None
    os.kill(worker.pid, signal.SIGKILL)
    wait_for("the end of the orphans", lambda: not psutil.pid_exists(wrapper.pid) or None, timeout=30)
    assert house.finish(dag_run_id, ("run", "close")) == "success"
    ends = house.all(dag_run_id, kinds.AttemptEnded)
    assert [(e.attempt, e.state) for e in ends] == [(1, "lost"), (2, "completed")]
    started = house.all(dag_run_id, kinds.AttemptStarted)[-1]
    assert started.resume_step is not None
    assert started.resume_step >= 300
    assert ends[1].steps_repeated is not None
    assert Path(str(started.resume_from)).name
    assert training_processes(run_uid) == []
