"""What the wrapper does by itself: refuse to start, stop by rule, and not wait for tools that hang."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pretrain_archive.compute.spec import WRAPPER
from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import path_to_text

from .conftest import Job, wait_for

RULES = {"nan": True, "max_loss": 100.0, "no_progress_seconds": 60, "wall_seconds": 60}


def wrap(folder: Path, *command: str, options: tuple[str, ...] = (), **variables: str) -> Any:
    """Start a wrapper with its files in ``folder``."""
    folder.mkdir(exist_ok=True)
    argv = [sys.executable, str(WRAPPER), "--status", str(folder / "s.jsonl"), "--heartbeat", "0.2", *options]
    environment = {**os.environ, "PRETRAIN_ARCHIVE_EVENTS": str(folder / "events.jsonl"), **variables}
    return subprocess.Popen([*argv, "--", *command], env=environment, stdout=subprocess.PIPE)


def lines(folder: Path, kind: str = "") -> list[dict[str, Any]]:
    """Status lines of a kind."""
    path = folder / "s.jsonl"
    text = path.read_text() if path.exists() else ""
    return [line for line in map(json.loads, text.splitlines()) if kind in {"", line["status"]}]


def sha(content: bytes) -> str:
    """A file's digest as a signed configuration holds it."""
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program of three files, one with a name that is no text."""
    folder = tmp_path / "program"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_bytes(b"import lib.part")
    (folder / "lib" / "part.py").write_bytes(b"import pathlib; pathlib.Path('ran').touch()")
    Path(os.fsdecode(os.fsencode(folder) + b"/odd \xff%\n.txt")).write_bytes(b"odd")
    return folder


def expectation(program: Path) -> dict[str, str]:
    """Digests of the program's files as they are."""
    files = [path for path in program.rglob("*") if path.is_file()]
    return {path_to_text(os.fsencode(path.relative_to(program))): sha(path.read_bytes()) for path in files}


def run_expecting(program: Path, folder: Path, expected: dict[str, str]) -> int:
    """Start the program where its code must be the expected one."""
    folder.mkdir(exist_ok=True)
    (folder / "expect.json").write_text(json.dumps(expected))
    options = ("--expect", str(folder / "expect.json"), "--folder", str(program))
    return int(wrap(folder, sys.executable, "train.py", options=options).wait(20))


@pytest.mark.requirement("R067", "R068")
def test_the_signed_code_is_started(program: Path, tmp_path: Path) -> None:
    """Every file as signed, whatever its name."""
    assert 0 == run_expecting(program, tmp_path / "w", expectation(program))
    assert (program / "ran").exists()


def _change(program: Path) -> None:
    (program / "lib" / "part.py").write_bytes(b"import pathlib; pathlib.Path('RAN').touch()")


def _odd(program: Path) -> None:
    Path(os.fsdecode(os.fsencode(program) + b"/odd \xff%\n.txt")).write_bytes(b"even")


@pytest.mark.requirement("R067", "R068")
@pytest.mark.parametrize(
    ("change", "word"),
    [
        pytest.param(_change, "lib/part.py (changed)", id="a module changed"),
        pytest.param(_odd, "(changed)", id="a file with an odd name changed"),
        pytest.param(lambda p: (p / "train.py").unlink(), "train.py (No such file", id="a file is missing"),
        pytest.param(lambda p: (p / "torch.py").touch(), "torch.py (added)", id="a module more"),
        pytest.param(lambda p: (p / "lib" / "x.so").touch(), "lib/x.so (added)", id="an extension more"),
    ],
)
def test_another_code_is_not_started(program: Path, tmp_path: Path, change: Any, word: str) -> None:
    """The files are named, nothing runs."""
    expected = expectation(program)
    change(program)

    assert 127 == run_expecting(program, tmp_path / "w", expected)
    (refused,) = lines(tmp_path / "w", "not_started")
    assert word in refused["problem"]
    assert [] == lines(tmp_path / "w", "program_started")
    assert "not_started" == lines(tmp_path / "w", "ended")[0]["reason"]
    assert not list(program.glob("[rR][aA][nN]"))


@pytest.mark.parametrize("content", [None, "{", "[1]", '{"train.py": 7}'])
def test_an_expectation_that_cannot_be_read_starts_nothing(
    program: Path, tmp_path: Path, content: str | None
) -> None:
    """Whatever is missing or broken means no start."""
    folder = tmp_path / "w"
    folder.mkdir()
    if content is not None:
        (folder / "expect.json").write_text(content)
    options = ("--expect", str(folder / "expect.json"), "--folder", str(program))

    assert 127 == wrap(folder, sys.executable, "train.py", options=options).wait(20)
    assert [] == lines(folder, "program_started")


@pytest.mark.parametrize(
    ("not_after", "word"),
    [
        pytest.param(timedelta(hours=1), "", id="it lasts"),
        pytest.param(timedelta(seconds=-1), "the launch token was over at", id="it is over"),
        pytest.param("tomorrow", "is no time: 'tomorrow'", id="no time"),
        pytest.param("2030-01-01T00:00:00", "is no time", id="no time zone"),
    ],
)
def test_after_its_end_a_token_starts_nothing(tmp_path: Path, not_after: Any, word: str) -> None:
    """A job that is started again later refuses; so does one whose end cannot be read."""
    if isinstance(not_after, timedelta):
        not_after = (datetime.now(UTC) + not_after).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    code = wrap(tmp_path / "w", "true", options=("--not-after", not_after)).wait(20)

    assert (0 if not word else 127) == code
    assert ([] if not word else [True]) == [
        word in r["problem"] for r in lines(tmp_path / "w", "not_started")
    ]
    assert bool(word) == (not lines(tmp_path / "w", "program_started"))


def test_a_launch_passes_on_what_was_signed(job: Job) -> None:
    """A local launch whose program was edited after the signature fails before anything runs."""
    folder = job.root / "program"
    folder.mkdir()
    (folder / "train.py").write_text("open('ran', 'w')")
    signed = {"train.py": sha(b"print('signed')")}
    ended = job.run(job.spec(command=(sys.executable, "train.py"), program_folder=folder, code_files=signed))

    assert "failed" == ended.state
    assert "train.py (changed)" in ended.reason
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("first", ["environment", "not_started"])
def test_a_refusal_is_told_however_slow_the_probe_was(job: Job, first: str) -> None:
    """The reason is in the attempt's end, also where the environment was known only after it."""
    job.intend()
    folder = job.spec().work_folder
    folder.mkdir(parents=True)
    told = {
        "environment": {"status": "environment", "moment": "start", "environment": {}},
        "not_started": {"status": "not_started", "problem": "the token was over"},
    }
    order = sorted(told, key=lambda name: name != first)
    rest = [told[name] for name in order] + [{"status": "ended", "reason": "not_started"}]
    before = [
        told["environment"],
        {"status": "program_started"},
        {"status": "ended", "reason": "exited", "exit_code": 1},
    ]
    lines_of = [{"at": "2026-01-01T00:00:00.000000Z", **line} for line in [*before, *rest]]
    (folder / "status.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines_of))
    (ended,) = job.recover()

    assert "failed" == ended.state
    assert "could not be started: the token was over" in ended.reason


# -- stop rules ----------------------------------------------------------------------------------------


WRITE = """
import json, os, sys, time
file = open(os.environ["PRETRAIN_ARCHIVE_EVENTS"], "ab", buffering=0)
def tell(name, step, value):
    file.write((json.dumps({"event": "metric", "name": name, "step": step, "value": value}) + "\\n").encode())
tell("loss", 1, 2.0)
file.write(json.dumps({"event": "checkpoint", "step": 1, "path": "/c/1"}).encode() + b"\\n")
exec(sys.argv[1])
time.sleep(60)
"""


START = WRITE.replace('tell("loss", 1, 2.0)', "").replace(
    '"event": "checkpoint"', '"event": "checkpoint_loaded"'
)


def stopped(folder: Path, body: str, *, options: tuple[str, ...] = (), **rules: Any) -> dict[str, Any]:
    """Run a program that goes wrong and return the status line of the stop."""
    argv = ("--stop", json.dumps({**RULES, **rules}), *options)
    process = wrap(folder, sys.executable, "-c", WRITE, body, options=argv)
    process.wait(20)
    (line,) = lines(folder, "stop")
    assert "stop_rule" == lines(folder, "ended")[0]["reason"]
    return line


@pytest.mark.requirement("R094", "R096")
@pytest.mark.parametrize(
    ("body", "rules", "rule", "observed"),
    [
        pytest.param("tell('train_loss', 2, float('nan'))", {}, "nan_loss", "nan at step 2", id="NaN"),
        pytest.param("tell('loss', 2, float('inf'))", {}, "nan_loss", "inf at step 2", id="infinite"),
        pytest.param("tell('loss', 2, 1e9)", {}, "divergence", "1e+09 at step 2", id="diverged"),
        pytest.param("tell('loss', 2, 10**400)", {"nan": False}, "divergence", "inf at step 2", id="too large"),
        pytest.param("", {"no_progress_seconds": 1}, "no_progress", "no step after 1 for", id="stalled"),
        pytest.param(
            "[(tell('loss', 1, 1.0), time.sleep(.05)) for _ in range(999)]", {"no_progress_seconds": 1},
            "no_progress", "no step after 1 for", id="the same step again and again",
        ),
        pytest.param(
            "[(tell('loss', n, 1.0), time.sleep(.05)) for n in range(2, 999)]", {"wall_seconds": 1},
            "wall_time", "1.", id="too long",
        ),
        pytest.param(
            "file.write(b'\\xff\\n{\\n[1]\\n\"x\"\\n' + b'y' * (1 << 21) + b'\\n{\"step\": 1e999}\\n'"
            " + b'[' * 100_000 + b'\\n{\"event\": \"metric\", \"step\": true, \"name\": \"loss\"'"
            " + b', \"value\": NaN}\\n')\n"
            "tell('loss', 7, float('nan'))", {}, "nan_loss", "nan at step 7", id="behind garbage",
        ),
    ],
)  # fmt: skip
def test_the_wrapper_stops_by_its_own_rules(
    tmp_path: Path, body: str, rules: dict[str, Any], rule: str, observed: str
) -> None:
    """Nobody else is there; rule, observation and the last steps are in the status."""
    line = stopped(tmp_path / "w", body, **rules)

    assert (rule, 1) == (line["rule"], line["last_checkpoint_step"])
    assert line["observed"].startswith(observed)


@pytest.mark.requirement("R096")
@pytest.mark.parametrize(
    ("program", "limit"),
    [
        pytest.param(WRITE, "0.5 s", id="a metric ends the start"),
        pytest.param(START, "2.0 s", id="what was loaded does not"),
    ],
)
def test_the_start_has_a_time_of_its_own(tmp_path: Path, program: str, limit: str) -> None:
    """Imports, rendezvous and loading are no lack of progress; a start that never ends is one."""
    rules = {**RULES, "no_progress_seconds": 0.5, "first_step_seconds": 2}
    process = wrap(tmp_path, sys.executable, "-c", program, "", options=("--stop", json.dumps(rules)))
    process.wait(20)
    (line,) = lines(tmp_path, "stop")

    assert ("no_progress", limit) == (line["rule"], line["limit"])


def test_only_worker_0_judges(tmp_path: Path) -> None:
    """Another worker sees no program's events of its own and leaves the judgement to the first."""
    options = ("--stop", json.dumps({**RULES, "wall_seconds": 0.5}), "--worker", "1")
    process = wrap(tmp_path / "w", "sleep", "2", options=options)

    assert 0 == process.wait(20)


def test_an_event_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """The rules of time still hold."""
    folder = tmp_path / "w"
    body = "os.unlink(file.name); os.mkfifo(os.environ['PRETRAIN_ARCHIVE_EVENTS'])"
    line = stopped(folder, body, wall_seconds=1.5)

    assert "wall_time" == line["rule"]


@pytest.mark.requirement("R094")
@pytest.mark.parametrize(
    ("config", "rule"),
    [pytest.param({"nan_at": 15}, "nan_loss", id="NaN"), pytest.param({"diverge_at": 15}, "divergence", id="diverged")],
)  # fmt: skip
def test_one_stop_is_recorded_whoever_noticed_it(job: Job, config: dict[str, Any], rule: str) -> None:
    """Launcher and wrapper judge by the same rules: exactly one record, with a verified checkpoint."""
    spec = job.spec(config={"steps": 4000, "step_seconds": 0.01, **config}, stop={"max_loss": 1000.0})
    ended = job.run(spec)

    fired = [stop for _, stop in job.view().all(kinds.StopFired)]
    assert [rule] == [stop.rule for stop in fired]
    assert (fired[0].last_checkpoint_step or 0) >= 10
    assert "stopped" == ended.state
    assert rule in ended.reason


@pytest.mark.requirement("R094")
def test_a_stop_of_the_wrapper_alone_is_recorded(job: Job) -> None:
    """A launcher that has no rules of its own (or was not there) finds the stop in the status, also a recovery."""
    spec = job.spec(config={"steps": 4000, "step_seconds": 0.01, "nan_at": 25})
    launch = job.launch(spec)
    launch.rules = ()
    ended = launch.run()

    (fired,) = [stop for _, stop in job.view().all(kinds.StopFired)]
    assert ("nan_loss", "nan at step 25") == (fired.rule, fired.observed)
    assert ended.last_checkpoint_step is not None
    assert 20 <= (fired.last_checkpoint_step or 0) <= ended.last_checkpoint_step
    assert "stopped" == ended.state
    assert "stop rule nan_loss" in ended.reason

    other = Job(ledger=job.ledger, root=job.root)
    other.intend()
    (job.root / "work" / job.run_uid).rename(job.root / "work" / other.run_uid)
    (found,) = other.recover()
    assert ("stopped", ended.reason) == (found.state, found.reason)
    assert 1 == len(list(other.view().all(kinds.StopFired)))


# -- slow tools ----------------------------------------------------------------------------------------


def tool(folder: Path, text: str) -> str:
    """A PATH whose first nvidia-smi is a script."""
    folder.mkdir()
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.requirement("R069")
def test_a_tool_that_hangs_costs_its_answer_only(tmp_path: Path) -> None:
    """The program starts without waiting, its end is its own, what was not told is unrecorded; nothing is left."""
    folder, mark = tmp_path / "w", "61.73"
    path = tool(tmp_path / "bin", f"sleep {mark}")
    begin = time.monotonic()
    process = wrap(folder, "sleep", "0.1", PATH=path)
    wait_for(lambda: lines(folder, "program_started"))
    started = time.monotonic() - begin

    assert 0 == process.wait(20)
    assert started < 6
    moments = {line["moment"]: line["environment"] for line in lines(folder, "environment")}
    assert {"start", "end"} == set(moments)
    assert [None, None] == [environment["accelerators"] for environment in moments.values()]
    assert all(environment["cpu"]["count"] for environment in moments.values())
    (ended,) = lines(folder, "ended")
    assert ([], []) == (ended["left_behind"], ended["hidden_failures"])
    assert (
        mark not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    )


def test_a_slow_tool_is_heard_later(tmp_path: Path) -> None:
    """The program runs when the answer comes; the environment of the start is complete then."""
    folder = tmp_path / "w"
    path = tool(tmp_path / "bin", "sleep 2; echo '0, GPU-1, H100, 550.54, 81559, 00000000:18:00.0'")
    wrap(folder, "sleep", "4", PATH=path).wait(20)
    kinds_in_order = [
        line["status"] for line in lines(folder) if line["status"] in {"environment", "program_started"}
    ]

    assert ["program_started", "environment", "environment"] == kinds_in_order
    start = lines(folder, "environment")[0]
    assert ("start", "GPU-1") == (start["moment"], start["environment"]["accelerators"][0]["uuid"])


def test_the_programs_resources_are_its_own(tmp_path: Path) -> None:
    """CPU seconds and memory of the probe are not the program's."""
    folder = tmp_path / "w"
    wrap(folder, "true").wait(20)
    (ended,) = lines(folder, "ended")

    assert ended["cpu_seconds"] < 0.1
    assert ended["max_rss_bytes"] < 24 << 20


@pytest.mark.requirement("R065")
def test_the_effective_configuration_is_recorded(job: Job) -> None:
    """What a program made of its configuration: digest, and what is changed, added or missing."""
    code = (
        "import json, os, pathlib\n"
        "path = pathlib.Path(os.environ['PRETRAIN_ARCHIVE_CONFIG'])\n"
        "found = json.loads(path.read_text())\n"
        "found['model']['width'] = 64; found['seed'] = 1; del found['old']\n"
        "path.with_name('config.effective.json').write_text(json.dumps(found))\n"
    )
    config = {"model": {"width": 96, "layers": 2}, "old": True}
    job.run(job.spec(command=(sys.executable, "-c", code), config=config))

    (told,) = [e.data for _, e in job.view().all(kinds.EventRecorded) if e.event == "config_effective"]
    assert [{"field": "model.width", "declared": 96, "effective": 64}] == told["changed"]
    assert [{"field": "seed", "effective": 1}] == told["added"]
    assert [{"field": "old", "declared": True}] == told["missing"]
    assert told["digest"].startswith("sha256:")
