"""The loss curve is honest: no spike is lost, restarts show, repeated steps are not counted twice."""

from __future__ import annotations

import re

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Actor, Origin, Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.web.curve import BOTTOM, HEIGHT, TOP, loss_curve


def batch(attempt: int, values: dict[int, float | None], *, name: str = "loss") -> Record:
    """A record of metrics."""
    points = [
        kinds.MetricPoint(name=name, step=step, value=value, not_finite="" if value is not None else "nan")
        for step, value in values.items()
    ]
    return Record(
        record_id=f"rec_{attempt}",
        position=attempt,
        stream="run_x",
        sequence=attempt,
        previous="",
        kind="metrics.recorded",
        schema_version=1,
        attempt=attempt,
        ordinal=0,
        payload=kinds.MetricsRecorded(attempt=attempt, points=points).to_json(),
        actor=Actor(type="task", name="gpu_launch"),
        origin=Origin(dag_id="d", dag_run_id="r", task_id="t"),
        recorded_at="2026-11-29T10:00:00.000000Z",
    )


def ordinates(path: str) -> list[float]:
    """The y values of a path."""
    return [float(pair.split()[1]) for pair in re.split("[MLZ]", path) if pair]


def test_a_spike_of_one_step_among_many_is_drawn() -> None:
    """However many steps there are, the highest and the lowest value are in the line."""
    values: dict[int, float | None] = {step: 2.0 + (step % 7) / 100 for step in range(50_000)}
    values[31_337], values[12_345] = 9.0, 0.5
    curve = loss_curve(RunView.of("run_x", [batch(1, values)]))

    assert curve is not None
    assert (TOP, HEIGHT - BOTTOM) == (min(ordinates(curve.lines[0])), max(ordinates(curve.lines[0])))
    assert (TOP, HEIGHT - BOTTOM) == (min(ordinates(curve.band)), max(ordinates(curve.band)))
    assert 0.5 == curve.low


def test_repeated_steps_are_ghosts_and_the_effective_curve_has_each_step_once() -> None:
    """What a later attempt repeated is drawn apart; the last value is the later attempt's."""
    first, second = dict.fromkeys(range(1, 53), 3.0), dict.fromkeys(range(41, 101), 2.0)
    curve = loss_curve(RunView.of("run_x", [batch(1, first), batch(2, second)]))

    assert curve is not None
    assert (1, 2) == (len(curve.ghosts), len(curve.lines))
    assert 12 == len(ordinates(curve.ghosts[0]))
    assert [40, 60] == [len(ordinates(line)) for line in curve.lines]
    assert [(2, 41)] == [(mark.attempt, mark.step) for mark in curve.marks]
    assert (1, 100) == (curve.first.step, curve.last.step)


def test_what_is_not_finite_is_counted_and_not_drawn() -> None:
    """A NaN is no point of the line, and the page says how many there were."""
    curve = loss_curve(RunView.of("run_x", [batch(1, {1: 2.0, 2: None, 3: 1.0})]))

    assert curve is not None
    assert (2, 1) == (curve.points, curve.not_finite)


def test_no_loss_gives_no_curve() -> None:
    """Other metrics, or none, draw nothing."""
    assert loss_curve(RunView.of("run_x", [batch(1, {1: 2.0}, name="tokens_per_second")])) is None
    assert loss_curve(RunView.of("run_x", [batch(1, {1: None})])) is None


def test_one_point_has_a_place() -> None:
    """A single step is drawn without dividing by nothing."""
    curve = loss_curve(RunView.of("run_x", [batch(1, {5: 2.5})]))

    assert curve is not None
    assert curve.lines[0].startswith("M56.0")
