"""Real processes under the local launch: completion, failure, and what is written down."""

from __future__ import annotations

import math

import pytest

from pretrain_archive.domain import kinds

from .conftest import Job


def test_a_run_completes_with_exit_code_and_marker(job: Job) -> None:
    """A program that reaches its end marker is completed, and its metrics are in the ledger."""
    ended = job.run(job.spec(config={"steps": 30}))

    view = job.view()
    steps = [p.step for _, m in view.all(kinds.MetricsRecorded) for p in m.points if p.name == "train_loss"]
    assert ("completed", 0, 1, 30, 30) == (
        ended.state, ended.exit_code, ended.first_step, ended.last_step, ended.last_checkpoint_step,
    )  # fmt: skip
    assert list(range(1, 31)) == steps
    assert [10, 20, 30] == [event.step for event in job.accepted]
    assert ["start", "end"] == [e.moment for _, e in view.all(kinds.EnvironmentObserved)]
    assert "step 30 loss" in job.lines[-1]
