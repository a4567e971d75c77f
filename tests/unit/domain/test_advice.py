"""Advice on the checkpoint interval: formulas against a simulation, and never from nothing."""

from __future__ import annotations

import random

import pytest
from tests.unit.domain.told_run import Told

from pretrain_archive.domain.advice import (
    Advice,
    History,
    advise,
    daly,
    history_of,
    overhead,
    rate_limits,
    young,
)
from pretrain_archive.domain.cost import account


def simulated(interval: float, save: float, mtbf: float, restart: float, *, work: float, seed: int) -> float:
    """Wall time of ``work`` seconds with failures drawn one by one: during work, saves and restarts alike."""
    rng = random.Random(seed)
    failure, wall, done = rng.expovariate(1 / mtbf), 0.0, 0.0
    while done < work:
        took = min(interval, work - done) + save
        if wall + took <= failure:
            wall, done = wall + took, done + took - save
            continue
        wall = failure
        while True:  # a restart may fail, too
            failure = wall + rng.expovariate(1 / mtbf)
            if failure > wall + restart:
                wall += restart
                break
            wall = failure
    return wall


def best_simulated(save: float, mtbf: float, restart: float) -> tuple[float, dict[float, float]]:
    """The interval with the least simulated wall time, the mean of several seeds, on a grid of 4 %."""
    grid = [daly(save, mtbf) * 1.04**power for power in range(-20, 21)]
    walls = {
        interval: sum(simulated(interval, save, mtbf, restart, work=400 * mtbf, seed=s) for s in range(6))
        / (6 * 400 * mtbf)
        for interval in grid
    }
    return min(walls, key=walls.__getitem__), walls


@pytest.mark.parametrize(
    ("save", "mtbf", "restart"),
    [
        pytest.param(10.0, 3600.0, 60.0, id="cheap saves"),
        pytest.param(120.0, 3600.0, 300.0, id="dear saves"),
        pytest.param(300.0, 1200.0, 60.0, id="failing often"),
    ],
)
def test_daly_is_near_the_best_of_a_simulation(save: float, mtbf: float, restart: float) -> None:
    """With simulated failures no interval does more than a percent of the work better than Daly's."""
    best, walls = best_simulated(save, mtbf, restart)
    advised = daly(save, mtbf)

    assert walls[min(walls, key=lambda i: abs(i - advised))] - walls[best] < 0.01
    assert abs(best / advised - 1) < 0.35, "the minimum is flat, but not elsewhere"


def test_the_overhead_is_that_of_the_simulation() -> None:
    """What is said to be saved is what a simulation shows, within two percent of the work."""
    for interval in (100.0, 268.0, 900.0, 2_400.0):
        walls = [simulated(interval, 10, 3600, 60, work=400 * 3600, seed=s) / (400 * 3600) for s in range(8)]
        assert sum(walls) / len(walls) - 1 == pytest.approx(overhead(interval, 10, 3600, 60), abs=0.02)


def test_young_and_daly_agree_where_saves_are_cheap() -> None:
    """The first order is the limit of the higher one; beyond twice the mean time there is nothing to choose."""
    assert young(1, 1e8) == pytest.approx(daly(1, 1e8), rel=1e-3)
    assert 50 == daly(100, 50)
    assert 100 == pytest.approx(daly(200, 100.0001), rel=0.13), "the formula's own jump of a ninth"


@pytest.mark.parametrize(
    ("events", "low", "high"),
    [(0, 0, 3), (1, 0.0253, 5.572), (2, 0.2422, 7.225), (10, 4.795, 18.39), (100, 81.36, 121.63)],
)
def test_limits_of_few_failures(events: int, low: float, high: float) -> None:
    """The limits are those of the tables of the Poisson distribution."""
    found = rate_limits(events)

    assert (low, high) == (pytest.approx(found[0], rel=2e-3), pytest.approx(found[1], rel=2e-3))


def trained(*, took: float | None = 2.0, fail: bool = True) -> Told:
    """A thousand seconds of steps, a save each ten of them."""
    told = Told()
    told.open(every=10)
    told.launch(1, 0)
    told.start(1, 1)
    now = 10.0
    for step in range(1, 51):
        now += 1
        told.steps(1, (now, step))
        if step % 10 == 0:
            now += took or 0
            if took is not None:
                told.save(1, now, step, took=took)
    told.end(1, now, took=now, state="failed" if fail else "completed")
    return told


def advice_of(told: Told, *others: History) -> Advice:
    """What is advised for a told run."""
    return advise(told.view, account(told.view), others)


def test_advice_tells_what_it_is_made_of() -> None:
    """One failure in seventy seconds, saves of two: the interval, its limits, and the saving."""
    found = advice_of(trained())

    assert (70.0, 1, 2.0, 1.0) == (found.mtbf, found.failures, found.save_seconds, found.step_seconds)
    assert round(daly(2, 70)) == found.interval_steps
    assert found.interval_low is not None
    assert found.interval_high is not None
    assert found.interval_low < (found.interval_seconds or 0) < found.interval_high
    assert found.saving is not None
    assert 0 < found.saving < 0.2
    assert "95 % limits" in "\n".join(found.text())


def test_no_failure_is_a_bound_and_no_optimum() -> None:
    """Where nothing failed, only the shortest sensible interval is told, and no saving is claimed."""
    found = advice_of(trained(fail=False))

    assert found.bound_only
    assert (None, None, None) == (found.mtbf_high, found.interval_high, found.saving)
    assert daly(2, 70 / 3) == pytest.approx(found.interval_seconds)
    assert "is not known" in found.text()[2]


def test_the_project_counts_too() -> None:
    """Failures and time of other runs of the project widen what is known."""
    found = advice_of(trained(fail=False), History(seconds=930, failures=4))

    assert (1_000.0, 4, 250.0) == (found.observed_seconds, found.failures, found.mtbf)


def test_no_advice_from_nothing() -> None:
    """What is missing is named, and no number is told."""
    found = advice_of(Told())

    assert None is found.interval_steps
    assert {"the seconds of a save are unrecorded", "no attempt has ended"} < set(found.missing)
    assert found.text()[0].startswith("no advice")


@pytest.mark.parametrize(
    ("state", "exit_class", "failures"),
    [
        ("failed", "oom", 1), ("lost", "node_lost", 1), ("interrupted", "preempted", 1), ("stopped", None, 0),
        ("failed", "user_error", 0), ("completed", None, 0),
    ],
)  # fmt: skip
def test_what_counts_as_a_failure(state: str, exit_class: str | None, failures: int) -> None:
    """A rule's stop and a fault of the program itself would have come with any interval."""
    told = Told()
    told.launch(1, 0)
    told.end(1, 10, took=10, state=state, exit_class=exit_class)

    assert History(seconds=10.0, failures=failures) == history_of(told.view)
