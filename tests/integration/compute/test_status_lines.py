"""Status lines that no wrapper would write: a program may write there too, and the attempt must still be closed."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from pretrain_archive.compute.environment import declare_environment
from pretrain_archive.compute.spec import attempt_folder
from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Draft

from .conftest import ACTOR, Job, origin

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e999,
    10**400,
    "",
    "²",
    "9" * 500,
    "\ud800",
    [],
    [1],
    {},
    {"": 1},
    [[]],
    [{}],
)
FIELDS = {
    "environment": ("moment", "environment", "problem"),
    "program_started": ("pid", "start", "wrapper", "boot", "worker"),
    "heartbeat": ("at", "accelerators", "rss_bytes", "cpu_seconds", "processes"),
    "stop": ("rule", "observed", "limit", "last_step", "last_checkpoint_step"),
    "signal": ("signal", "reason"),
    "not_started": ("problem",),
    "ended": ("exit_code", "signal", "reason", "hidden_failures", "seconds", "cpu_seconds", "max_rss_bytes",
              "program_ended_at", "network", "oom_kills", "left_behind", "at"),
}  # fmt: skip
GROUPS = ("python", "packages", "platform", "cpu", "memory_bytes", "limits", "container", "image", "variables",
          "accelerators", "git", "topology", "stack", "libraries")  # fmt: skip


def closed(job: Job, *lines: dict[str, Any], declared: bool = False) -> kinds.AttemptEnded:
    """How a lost attempt with these status lines is closed."""
    if declared:
        payload = declare_environment(sys.executable, (), job.root)
        told = {"stream": job.run_uid, "kind": "environment.declared", "payload": payload.to_json()}
        job.ledger.append([Draft(**told, actor=ACTOR, origin=origin(1), attempt=1, unique="declared")])
    job.intend()
    folder = attempt_folder(job.root / "work", job.run_uid, 1)
    folder.mkdir(parents=True)
    text = "".join(json.dumps({"at": "2026-01-01T00:00:00.000000Z", **line}) + "\n" for line in lines)
    (folder / "status.jsonl").write_text(text)
    (ended,) = job.recover()
    return ended


@pytest.mark.parametrize("status", FIELDS)
def test_odd_values_close_the_attempt(job: Job, status: str) -> None:
    """Every field of every line with every odd value: nothing of it keeps a run open."""
    lines = [{"status": status, name: value} for name in FIELDS[status] for value in ODD]

    assert closed(job, *lines).state in {"lost", "failed", "interrupted", "stopped"}


def test_odd_environments_close_the_attempt(job: Job) -> None:
    """A part that has another shape is unrecorded, not compared."""
    lines = [
        {"status": "environment", "moment": moment, "environment": {name: value}}
        for name in GROUPS for value in ODD for moment in ("start", "end")
    ]  # fmt: skip

    assert "lost" == closed(job, *lines, declared=True).state


@pytest.mark.parametrize(
    "at",
    [
        pytest.param("0001-01-01T00:00:00+14:00", id="before all time"),
        pytest.param("9999-12-31T23:59:59-14:00", id="after all time"),
        pytest.param("2026-13-01T00:00:00Z", id="no month"),
        pytest.param("2025-12-31T00:00:00Z", id="a clock that went back"),
    ],
)
def test_times_that_cannot_be(job: Job, at: str) -> None:
    """A moment outside of time is none; a clock that went back does not make a negative duration."""
    beats = [{"status": "heartbeat"}, {"status": "heartbeat", "at": at}]
    ended = closed(job, *beats)

    assert "lost" == ended.state
    assert ended.seconds is None or ended.seconds >= 0
