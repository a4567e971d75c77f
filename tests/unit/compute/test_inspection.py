"""The fixed order of inspection."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pretrain_archive.compute.cost import cost_of
from pretrain_archive.compute.inspection import inspect_run
from pretrain_archive.domain.kinds import (
    BY_MODEL,
    AttemptEnded,
    AttemptStarted,
    MetricPoint,
    MetricsRecorded,
    Payload,
)
from pretrain_archive.domain.records import Actor, Origin, Record
from pretrain_archive.domain.run_view import RunView


def view_of(*payloads: tuple[int, Payload]) -> RunView:
    """A run from payloads, each with its attempt."""
    records = [
        Record(
            record_id=f"rec_{index}", position=index, stream="run_1", sequence=index, previous="",
            kind=BY_MODEL[type(payload)], schema_version=1, attempt=attempt, ordinal=index,
            payload=payload.to_json(), actor=Actor(type="task", name="t"),
            origin=Origin(dag_id="d", dag_run_id="r", task_id="t"), recorded_at="2026-01-01T00:00:00.000000Z",
        )
        for index, (attempt, payload) in enumerate(payloads)
    ]  # fmt: skip
    return RunView.of("run_1", records)


def started(attempt: int = 1) -> tuple[int, Payload]:
    """An attempt began."""
    return attempt, AttemptStarted(attempt=attempt, host="h", requested={}, allocated={})


def ended(state: str, *, cpu: float | None = 90.0, attempt: int = 1) -> tuple[int, Payload]:
    """An attempt of 100 seconds ended."""
    return attempt, AttemptEnded.model_validate(
        {
            "attempt": attempt,
            "state": state,
            "exit_code": 0,
            "reason": "r",
            "seconds": 100.0,
            "cpu_seconds": cpu,
        }
    )


def losses(values: Sequence[float | None]) -> tuple[int, Payload]:
    """Losses step by step; None is a NaN."""
    points = [
        MetricPoint(name="train_loss", step=i, value=v, not_finite="nan" if v is None else "")
        for i, v in enumerate(values)
    ]
    return 1, MetricsRecorded(attempt=1, points=points)


@pytest.mark.requirement("R090")
@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param([], ["unrecorded", "unrecorded", "unrecorded"], id="nothing"),
        pytest.param([started()], ["verified", "unrecorded", "unrecorded"], id="running"),
        pytest.param(
            [started(), losses([5, 4, 3, 2, 1]), ended("completed")],
            ["verified", "verified", "verified"],
            id="well",
        ),
        pytest.param([started(), ended("failed")], ["changed", "verified", "unrecorded"], id="failed"),
        pytest.param(
            [started(), ended("completed", cpu=1)], ["verified", "changed", "unrecorded"], id="idle"
        ),
        pytest.param(
            [started(), ended("lost", cpu=None)], ["changed", "unrecorded", "unrecorded"], id="lost"
        ),
        pytest.param([started(), losses([1, 2, 3])], ["verified", "unrecorded", "changed"], id="loss rises"),
        pytest.param([started(), losses([3, None, 1])], ["verified", "unrecorded", "changed"], id="NaN"),
        pytest.param(
            [started(), ended("failed"), started(2)], ["verified", "verified", "unrecorded"], id="again"
        ),
    ],
)
def test_task_then_resources_then_metrics(facts: list[tuple[int, Payload]], expected: list[str]) -> None:
    """Always the same three questions in the same order."""
    items = inspect_run(view_of(*facts))

    assert ["inspection.task", "inspection.resources", "inspection.metrics"] == [item.id for item in items]
    assert expected == [item.verdict.value for item in items]


def test_an_unrecorded_cost_is_not_zero() -> None:
    """An attempt without a recorded time is named, not counted as free."""
    cost = cost_of(view_of(started(), ended("failed"), started(2), ended("lost", attempt=2)))

    assert (1, 2) == cost.unrecorded
    assert [None, None] == [attempt.accelerator_seconds for attempt in cost.attempts]
