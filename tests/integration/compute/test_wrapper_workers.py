"""Several workers of one attempt share its folder; one that is started again goes on in its own files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute.ingest import Ingest
from pretrain_archive.compute.outcome import Outcome, conclude
from pretrain_archive.compute.seen import Writer
from pretrain_archive.compute.spec import CARRIED, WRAPPER, build_process
from pretrain_archive.domain import kinds

from .conftest import ACTOR, Job, gone, origin, wait_for

TELL = """
import json, os, sys
print("hello from", os.environ["PRETRAIN_ARCHIVE_WORKER"], flush=True)
with open(os.environ["PRETRAIN_ARCHIVE_EVENTS"], "a") as file:
    for step in (1, 2, 3):
        file.write(json.dumps({"event": "metric", "name": "loss", "step": step, "value": 1.0}) + "\\n")
    file.write(json.dumps({"event": "note", "text": "training complete", "complete": True, "step": 3}) + "\\n")
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""


def start(folder: Path, worker: int | str, *command: str, options: tuple[str, ...] = ()) -> Any:
    """A wrapper as a pod starts it: files in the attempt's folder, the index from a variable."""
    folder.mkdir(exist_ok=True)
    for file in CARRIED:
        (folder / file.name).write_bytes(file.read_bytes())
    argv = [sys.executable, str(folder / WRAPPER.name), "--status", str(folder / "status.jsonl"), "--log",
            str(folder / "log.txt"), "--worker-from", "INDEX", "--heartbeat", "0.2", *options]  # fmt: skip
    environment = {
        **os.environ, "INDEX": str(worker), "PRETRAIN_ARCHIVE_EVENTS": str(folder / "events.jsonl"),
    }  # fmt: skip
    return subprocess.Popen(
        [*argv, "--", *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(folder: Path, worker: int, *command: str, options: tuple[str, ...] = ()) -> int:
    """Start a wrapper and wait for its end."""
    process = start(folder, worker, *command, options=options)
    process.communicate(timeout=30)
    return int(process.returncode)


def lines(path: Path, kind: str = "") -> list[dict[str, Any]]:
    """Lines of a status file."""
    text = path.read_text() if path.exists() else ""
    return [line for line in map(json.loads, text.splitlines()) if kind in {"", line["status"]}]


def reader(job: Job, folder: Path, *, workers: int | None = None, try_number: int = 1) -> Ingest:
    """An ingest of the folder, read to its end."""
    writer = Writer(ledger=job.ledger, run_uid=job.run_uid, attempt=1, actor=ACTOR, origin=origin(try_number))
    found = Ingest(
        writer, status=folder / "status.jsonl", events=folder / "events.jsonl", on_checkpoint=lambda _: True,
        workers=workers,
    )  # fmt: skip
    found.poll(final=True)
    return found


def judge(job: Job, folder: Path, **options: Any) -> Outcome:
    """What the attempt's end means."""
    return conclude(reader(job, folder, **options).seen, target_steps=None)


@pytest.mark.requirement("R077", "R087")
def test_each_worker_has_its_own_files(job: Job, tmp_path: Path) -> None:
    """Status, log and events of worker 1 lie beside worker 0's; only worker 0's events are the program's."""
    folder = tmp_path / "attempt"
    codes = [finish(folder, worker, sys.executable, "-c", TELL) for worker in (0, 1)]
    found = reader(job, folder)

    assert [0, 0] == codes
    assert ["hello from 0\n", "hello from 1\n"] == [
        (folder / name).read_text() for name in ("log.txt", "log-1.txt")
    ]
    assert [0, 1] == [worker.worker for worker in found.seen.workers]
    losses = [p for _, m in job.view().all(kinds.MetricsRecorded) for p in m.points if p.name == "loss"]
    assert [1, 2, 3] == [point.step for point in losses]
    observed = [(o.worker, o.moment) for _, o in job.view().all(kinds.EnvironmentObserved)]
    assert [(0, "end"), (0, "start"), (1, "end"), (1, "start")] == sorted(observed)
    (logs,) = [e.data["logs"] for _, e in job.view().all(kinds.EventRecorded) if e.event == "worker_logs"]
    assert [(1, "log-1.txt", 13)] == [(log["worker"], log["name"], log["bytes"]) for log in logs]
    assert "completed" == conclude(found.seen, target_steps=None).state


def test_reading_all_workers_again_writes_nothing(job: Job, tmp_path: Path) -> None:
    """Ordinals of no two workers meet, also where their lines stand at the same position."""
    folder = tmp_path / "attempt"
    for worker in (0, 1, 2):
        finish(folder, worker, sys.executable, "-c", TELL)
    (folder / "status-2.jsonl").write_bytes((folder / "status-1.jsonl").read_bytes())
    reader(job, folder)
    before = [record.record_id for record in job.view().records]
    reader(job, folder)
    reader(job, folder, try_number=2)

    assert before == [record.record_id for record in job.view().records]
    assert 6 == len(list(job.view().all(kinds.EnvironmentObserved)))


@pytest.mark.case("L07")
@pytest.mark.parametrize(
    ("codes", "workers", "state", "word"),
    [
        pytest.param((0, 0, 0), 3, "completed", "end marker", id="all ended well"),
        pytest.param((0, 3, 0), 3, "failed", "worker 1 of 3: the program ended with exit code 3", id="one failed"),
        pytest.param((0, 0), 3, "lost", "worker 2 of 3 never wrote a line", id="one never wrote"),
        pytest.param((0, 0, None), 3, "lost", "worker 2 of 3 vanished", id="one vanished"),
        pytest.param((1, 1, None), 3, "lost", "worker 2 of 3 vanished", id="the others failed for want of it"),
    ],
)  # fmt: skip
def test_an_attempt_is_judged_by_all_workers(
    job: Job, tmp_path: Path, codes: tuple[int | None, ...], workers: int, state: str, word: str
) -> None:
    """All must have ended well; the one that did not is named with its index."""
    folder = tmp_path / "attempt"
    for worker, code in enumerate(codes):
        if code is None:
            process = start(folder, worker, "sleep", "60")
            (begun,) = wait_for(
                lambda worker=worker: lines(folder / f"status-{worker}.jsonl", "program_started")
            )
            process.kill()
            process.communicate()
            wait_for(lambda begun=begun: gone(begun["pid"]))
        else:
            finish(folder, worker, sys.executable, "-c", TELL, str(code))
    outcome = judge(job, folder, workers=workers)

    assert state == outcome.state
    assert word in outcome.reason


def test_a_worker_that_is_started_again_appends(job: Job, tmp_path: Path) -> None:
    """The last end counts, the moment is resume, the restart is on the timeline, and steps count from there."""
    folder = tmp_path / "attempt"
    first = finish(folder, 0, sys.executable, "-c", TELL, "9")
    failed = judge(Job(ledger=job.ledger, root=job.root), folder)
    second = finish(folder, 0, sys.executable, "-c", TELL)
    found = reader(job, folder)

    assert (9, 0) == (first, second)
    assert "failed" == failed.state
    assert ["start", "end", "resume", "end"] == [
        line["moment"] for line in lines(folder / "status.jsonl", "environment")
    ]
    assert "completed" == conclude(found.seen, target_steps=None).state
    assert 2 == found.seen.starts
    restarts = [e.data for _, e in job.view().all(kinds.EventRecorded) if e.event == "worker_restarted"]
    assert [{"start": 2}] == restarts
    observed = [o for _, o in job.view().all(kinds.EnvironmentObserved)]
    assert [None, [], [], []] == [o.since_previous for o in observed]


@pytest.mark.parametrize("value", ["", "-1", "x", "5000", "1;2"])
def test_an_index_that_is_none_starts_nothing(tmp_path: Path, value: str) -> None:
    """The variable is named with what it holds."""
    process = start(tmp_path / "a", value, "sleep", "60")
    _, error = process.communicate(timeout=20)

    assert 2 == process.returncode
    assert b"INDEX is no index of a worker" in error
    assert not (tmp_path / "a" / "status.jsonl").exists()


@pytest.mark.parametrize("name", ["status-1.jsonl", "log-1.txt"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    """What an earlier start's program left there is refused."""
    folder = tmp_path / "a"
    folder.mkdir()
    os.mkfifo(folder / name)
    process = start(folder, 1, "sleep", "60")
    _, error = process.communicate(timeout=20)

    assert process.returncode
    assert b"Traceback" not in error


def test_the_end_of_the_log_is_shown_to_whoever_looks_at_the_container(tmp_path: Path) -> None:
    """The program's output is kept in the file; its end is what the wrapper itself prints."""
    code = "print('x' * 20_000); print('why it failed'); raise SystemExit(4)"
    process = start(tmp_path / "a", 1, sys.executable, "-c", code)
    out, _ = process.communicate(timeout=20)

    assert 4 == process.returncode
    assert 20_000 < (tmp_path / "a" / "log-1.txt").stat().st_size
    assert len(out) < 10_000
    assert out.endswith(b"why it failed\n")


@pytest.mark.requirement("R077")
def test_what_a_pod_starts_is_carried_in_the_attempts_folder(job: Job) -> None:
    """The request for a machine without this package names no file outside the folder but the program's own."""
    spec = job.spec(command=("python3", "train.py"), code_files={"train.py": "0" * 64})
    request = build_process(spec, inherited={}, python="python3", carried=True)

    assert {"config.json", "expect.json", "wrapper.py", "probe.py"} == {path.name for path in request.files}
    assert {spec.work_folder} == {path.parent for path in request.files}
    assert str(spec.work_folder / "wrapper.py") in request.argv
    assert str(WRAPPER) not in request.argv
    assert request.files[spec.work_folder / "wrapper.py"] == WRAPPER.read_bytes()
