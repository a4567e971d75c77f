"""The wrapper by itself: limits, signals and what it reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute.spec import WRAPPER
from pretrain_archive.compute.wrapper import descendants, send, stat_of

from .conftest import ASSETS, Job, gone, wait_for


def wrap(status: Path, *command: str, options: tuple[str, ...] = ()) -> Any:
    """Start a wrapper."""
    argv = [
        sys.executable,
        str(WRAPPER),
        "--status",
        str(status),
        "--heartbeat",
        "0.2",
        *options,
        "--",
        *command,
    ]
    return subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE)


def lines(status: Path, kind: str = "") -> list[dict[str, Any]]:
    """Status lines of a kind."""
    text = status.read_text() if status.exists() else ""
    return [line for line in map(json.loads, text.splitlines()) if kind in {"", line["status"]}]


def test_a_worker_that_hangs_does_not_extend_the_limit(tmp_path: Path) -> None:
    """The wrapper's own limit ends the job, whatever its parent does."""
    process = wrap(tmp_path / "s", "sleep", "60", options=("--max-seconds", "0.5"))

    assert process.wait(10) == 143
    assert "deadline" == lines(tmp_path / "s", "ended")[0]["reason"]


def test_when_the_program_was_gone(tmp_path: Path) -> None:
    """The end of the program is told apart from the wrapper's, which looks at the environment after it."""
    assert 0 == wrap(tmp_path / "s", "sh", "-c", "sleep 0.3; date +%s.%N >" + str(tmp_path / "own")).wait(30)
    began, ended = lines(tmp_path / "s", "program_started")[0]["at"], lines(tmp_path / "s", "ended")[0]
    gone = datetime.fromisoformat(ended["program_ended_at"])

    assert began < ended["program_ended_at"] < lines(tmp_path / "s", "environment")[-1]["at"] <= ended["at"]
    assert 0 <= gone.timestamp() - float((tmp_path / "own").read_text()) < 1
    assert {"received_bytes", "sent_bytes"} == ended["network"].keys()


def test_what_never_began_has_no_end(tmp_path: Path) -> None:
    """A command that cannot be started has no moment at which it was gone."""
    assert 127 == wrap(tmp_path / "s", str(tmp_path / "absent")).wait(30)

    assert None is lines(tmp_path / "s", "ended")[0]["program_ended_at"]


def test_a_program_may_end_in_its_grace_time(tmp_path: Path) -> None:
    """SIGTERM first: a program that handles it ends by itself and its exit code is reported."""
    process = wrap(tmp_path / "s", "sh", "-c", "trap 'sleep 0.3; exit 5' TERM; while :; do sleep 0.05; done")
    wait_for(lambda: lines(tmp_path / "s", "heartbeat"))
    process.terminate()
    process.wait(10)
    ended = lines(tmp_path / "s", "ended")[0]

    assert ("signal", 5, None, []) == (
        ended["reason"],
        ended["exit_code"],
        ended["signal"],
        ended["left_behind"],
    )


def test_a_stopped_process_is_ended_too(tmp_path: Path) -> None:
    """SIGSTOP does not save a process from the end of its tree."""
    process = wrap(tmp_path / "s", "sleep", "60")
    (started,) = wait_for(lambda: lines(tmp_path / "s", "program_started"))
    os.kill(started["pid"], signal.SIGSTOP)
    begin = time.monotonic()
    process.terminate()
    process.wait(10)

    assert time.monotonic() - begin < 4.5
    assert gone(started["pid"])


def test_a_program_that_cannot_start_is_reported(tmp_path: Path) -> None:
    """The end says that nothing was started, and why."""
    process = wrap(tmp_path / "s", "/no/such/program")

    assert 127 == process.wait(10)
    assert "not_started" == lines(tmp_path / "s", "ended")[0]["reason"]
    assert "/no/such/program" in lines(tmp_path / "s", "not_started")[0]["problem"]


@pytest.mark.case("L07")
@pytest.mark.parametrize("how", ["SIGTERM", "killed parent"])
def test_the_wrapper_alone_ends_a_stubborn_tree(tmp_path: Path, how: str) -> None:
    """A child that ignores SIGTERM and its grandchild in a new session end with the wrapper, in four seconds."""
    folder, status = tmp_path / "tree", tmp_path / "s"
    tree = (sys.executable, str(ASSETS / "tree.py"), str(folder))
    if how == "SIGTERM":
        process = wrap(status, *tree)
    else:  # a shell that does not exec stands for the worker
        argv = [sys.executable, str(WRAPPER), "--status", str(status), "--", *tree]
        process = subprocess.Popen(["sh", "-c", '"$@"; true', "sh", *argv], start_new_session=True)
    roles = ("root", "child", "grandchild")
    wait_for(lambda: all((folder / f"{role}.pid").exists() for role in roles))
    pids = [int((folder / f"{role}.pid").read_text()) for role in roles]
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM if how == "SIGTERM" else signal.SIGKILL)
    wait_for(lambda: all(gone(pid) for pid in pids))

    assert time.monotonic() - begin < 4.5
    process.wait(5)
    ended = wait_for(lambda: lines(status, "ended"))[0]
    assert ("signal" if how == "SIGTERM" else "parent_lost", []) == (ended["reason"], ended["left_behind"])


@pytest.mark.requirement("R075", "R089")
def test_heartbeats_and_resource_use(tmp_path: Path) -> None:
    """Heartbeats name processes and memory; the end has CPU seconds, memory and libraries."""
    code = "import sqlite3, time\nblock = bytearray(64 << 20)\nend = time.time() + 1\nwhile time.time() < end: pass"
    wrap(tmp_path / "s", sys.executable, "-c", code).wait(20)
    ended = lines(tmp_path / "s", "ended")[0]
    environment = lines(tmp_path / "s", "environment")[-1]

    assert "end" == environment["moment"]
    assert max(line["rss_bytes"] for line in lines(tmp_path / "s", "heartbeat")) > 64 << 20
    assert ended["max_rss_bytes"] > 64 << 20
    assert 0.3 < ended["cpu_seconds"] < 30
    assert "libc" in environment["environment"]["libraries"]


def test_a_reused_process_id_is_not_signalled() -> None:
    """A signal goes to the process with this start time or to nobody."""
    process = subprocess.Popen(["sleep", "60"])
    stat = stat_of(process.pid)
    assert stat is not None

    assert not send(process.pid, stat[2] + 1, signal.SIGKILL)
    assert not gone(process.pid)
    assert process.pid in descendants(os.getpid())
    assert send(process.pid, stat[2], signal.SIGKILL)
    process.wait(5)
    assert not send(process.pid, stat[2], signal.SIGKILL)


@pytest.mark.case("L09")
def test_a_noisy_log_fails_nothing(job: Job) -> None:
    """Cut glyphs, other encodings, NUL and a line of a mebibyte: the job completes, lines are clean and bounded."""
    code = (
        "import os,sys,json\no=sys.stdout.buffer\n"
        "o.write(b'half \\xe2\\x96\\n\\x88 glyph\\nlatin \\xe9\\xe8\\nnul \\x00 end\\n')\n"
        "[o.write(b'\\r%d%%' % (i // 20)) for i in range(2000)]\n"
        "o.write(b'\\n' + b'z' * (1 << 20) + b'\\nstep 10 loss 0.5\\n'); o.flush()\n"
        "f=open(os.environ['PRETRAIN_ARCHIVE_EVENTS'],'ab')\n"
        "f.write(b'\\xff\\xfe\\n\\x00\\n{\"event\":\"note\"\\n' + b'y' * (1 << 20) + b'\\n')\n"
        "f.write(json.dumps({'event':'note','text':'training complete','complete':True,'step':10}).encode())\n"
    )
    ended = job.run(job.spec(command=(sys.executable, "-c", code)))

    assert ("completed", 10) == (ended.state, ended.last_step)
    assert ["half �", "� glyph", "latin ��", "nul � end", "99%"] == job.lines[:5]
    assert max(map(len, job.lines)) < 2100
    assert "step 10 loss 0.5" == job.lines[-1]
    (problem,) = [r.payload["data"] for r in job.view().records if r.payload.get("event") == "unusable_lines"]
    assert 4 == problem["count"]


@pytest.mark.requirement("R065")
def test_the_program_reads_the_effective_configuration(job: Job) -> None:
    """What the program is started with is what the specification holds."""
    spec = job.spec(
        command=("sh", "-c", 'cat "$PRETRAIN_ARCHIVE_CONFIG"'), config={"steps": 3, "learning_rate": 0.1}
    )
    job.run(spec)

    assert dict(spec.configuration) == json.loads("\n".join(job.lines))
