"""Whatever the records say, bins add up to what was held: never negative, never twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.domain.told_run import Told, at

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost import RunAccount, account
from pretrain_archive.domain.cost_bins import MICRO, micros
from pretrain_archive.domain.training import charged_seconds

MOMENT = st.floats(-500, 1_500, allow_nan=False)
STATES = ("completed", "failed", "stopped", "interrupted", "lost")
EVENTS = ("checkpoint", "evaluation", "note", "progress")


@st.composite
def told_attempt(draw: Any, told: Told, attempt: int) -> None:
    """One attempt with any piece missing and any moment anywhere."""
    begin = draw(MOMENT)
    if draw(st.booleans()) or attempt == 1:
        told.launch(attempt, begin)
    if draw(st.booleans()):
        told.start(
            attempt,
            draw(MOMENT),
            resume=draw(st.none() | st.integers(0, 40)),
            there=draw(st.none() | st.integers(0, 9)),
        )
    for _ in range(draw(st.integers(0, 4))):
        batch = draw(st.lists(st.tuples(MOMENT, st.integers(0, 60)), min_size=1, max_size=8))
        if draw(st.booleans()):
            batch.sort()
        told.steps(attempt, *batch, late=draw(st.floats(-50, 50)))
        event, took = draw(st.sampled_from(EVENTS)), draw(st.none() | st.floats(0, 300))
        told.event(
            attempt, draw(MOMENT), event, step=draw(st.none() | st.integers(0, 60)), seconds=took,
            registered=draw(st.booleans()),
        )  # fmt: skip
    for worker in range(draw(st.integers(0, 3))):
        for _ in range(draw(st.integers(1, 3))):
            told.member(
                attempt, worker, draw(MOMENT), draw(st.sampled_from(("Pending", "Running", "Succeeded", "Failed"))),
                node=draw(st.none() | st.just("n")), uid=draw(st.none() | st.sampled_from("ab")),
                devices=draw(st.none() | st.lists(st.text(max_size=2), max_size=4)),
                **{k: draw(MOMENT) for k in ("started_at", "ended_at") if draw(st.booleans())},
            )  # fmt: skip
    if draw(st.booleans()):
        told.end(
            attempt, draw(MOMENT), took=draw(st.none() | st.floats(0, 2_000)), state=draw(st.sampled_from(STATES)),
            own=draw(st.booleans()), last_checkpoint_step=draw(st.none() | st.integers(0, 60)),
        )  # fmt: skip


@st.composite
def told_run(draw: Any) -> Told:
    """A run with up to three attempts, whose worker's clock may be off."""
    told = Told(
        accelerators=draw(st.integers(0, 7)),
        nodes=draw(st.integers(1, 3)),
        clock=draw(st.sampled_from((0.0, 3600.0, -90.0))),
    )
    if draw(st.booleans()):
        told.open(scope=draw(st.sampled_from(("full", "exploration"))))
    for attempt in range(1, draw(st.integers(1, 3)) + 1):
        draw(told_attempt(told, attempt))
    return told


def assert_conserved(found: RunAccount) -> None:
    """Bins of each attempt and of the run add up exactly to what was held."""
    for one in found.attempts:
        assert one.allocated_us == sum(one.bins.values())
        assert all(piece.device_us > 0 for piece in one.slices)
    for device in found.devices:
        assert (
            found.allocated_us(device)
            == sum(found.bins(device).values())
            == sum(found.inner(device).values())
        )
        assert (
            0
            <= found.unevidenced_us(device)
            <= found.bins(device)["idle_hold"] + found.bins(device)["exploration"]
        )
    held = sum(found.allocated_us(device) for device in found.devices)
    assert held == sum(one.allocated_us for one in found.attempts)


@settings(max_examples=150, deadline=None)
@given(told_run())
def test_bins_are_conserved(told: Told) -> None:
    """For any records, complete or not, in order or not: the sum of the bins is the held time, to the microsecond."""
    assert_conserved(account(told.view))


@settings(max_examples=60, deadline=None)
@given(told_run())
def test_the_account_is_what_the_budget_was_charged(told: Told) -> None:
    """On one machine the account of an ended attempt is what its budget was charged."""
    told.records = [r for r in told.records if r.kind != "member.observed"]
    charged = charged_seconds(told.view)

    for one in account(told.view).attempts:
        launched = any(r.kind == "launch.intended" and r.attempt == one.attempt for r in told.records)
        end = next((r for r in told.records if r.kind == "attempt.ended" and r.attempt == one.attempt), None)
        if launched and end is not None and end.payload["seconds"] is not None:
            assert micros(charged[one.attempt]) * one.devices == one.allocated_us


def ten_steps(clock: float = 0.0, *, own: bool = True) -> Told:
    """Ten steps of a second after five of start-up; the worker's clock is ``clock`` ahead of the ledger's."""
    told = Told(clock=clock)
    told.open()
    told.launch(1, 0)
    told.start(1, 1)
    told.steps(1, *[(5 + s, s) for s in range(1, 11)])
    told.save(1, 15, 10, took=0)
    told.end(1, 15, took=15, own=own)
    return told


@pytest.mark.parametrize("own", [True, False], ids=["with its own end", "without its own end"])
@pytest.mark.parametrize(
    "clock", [0.0, 3600.0, -3600.0, 86_400.0 * 400], ids=["equal", "ahead", "behind", "a year"]
)
def test_two_clocks(clock: float, own: bool) -> None:
    """How far the worker's clock is from the ledger's does not matter."""
    found = account(ten_steps(clock, own=own).view).bins("machine")

    assert (5 * MICRO, 10 * MICRO) == (found["start_up"], found["productive"])


def test_a_clock_that_is_set_back() -> None:
    """A worker's clock that is set back within the attempt costs the moments, not the sum, and is said."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 0)
    told.steps(1, *[(s, s) for s in range(1, 6)], *[(s - 4, s) for s in range(6, 9)], (20, 9))
    told.save(1, 20, 9, took=0)
    told.end(1, 20, took=20)

    found = account(told.view)

    assert_conserved(found)
    assert 20 * MICRO == found.allocated_us("machine")
    assert any("moments went back" in note.text() for note in found.attempts[0].notes)


def test_a_lost_attempt_without_any_time() -> None:
    """Where nobody wrote how long it took, the ledger's moments stand; what was done then is unknown, and said."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.end(1, 50, took=None, own=False, state="lost")

    found = account(told.view)

    assert (50 * MICRO, 50 * MICRO) == (found.bins("machine")["idle_hold"], found.unevidenced_us("machine"))


def test_moments_that_are_none() -> None:
    """A program may write anything as a moment: such a point is placed by the ledger's clock, and that is said."""
    told = ten_steps()
    batch = next(r for r in told.records if r.kind == "metrics.recorded")
    for point, odd in zip(
        batch.payload["points"], ("yesterday", None, "", "9999-99-99T00:00:00Z"), strict=False
    ):
        point["at"] = odd

    found = account(told.view)

    assert_conserved(found)
    assert any("gave no moments" in note.text() for note in found.attempts[0].notes)


def test_a_second_pod_of_a_worker_does_not_hold_its_place_twice() -> None:
    """A replaced member ends before its successor begins, also where the records overlap."""
    told = Told(accelerators=1)
    told.open()
    told.launch(1, 0, target="kubernetes")
    for uid, first, last in (("a", 0, 60), ("b", 50, 100)):
        told.member(1, 0, first, "Running", node="n", uid=uid, started_at=first)
        told.member(1, 0, last, "Failed", node="n", uid=uid, ended_at=last)
    told.add(
        kinds.JobRemoved(
            attempt=1, name="j", namespace="n", reason="", pods_before=1, verified_absent=True, at=at(101)
        ),
        101,
        1,
    )
    told.end(1, 100, took=100, state="failed")

    assert 100 * MICRO == account(told.view).allocated_us("accelerator")


@pytest.mark.parametrize("told_end", [True, False], ids=["requeued at 40", "nobody saw its end"])
def test_a_pod_that_was_taken_back_and_came_again(told_end: bool) -> None:
    """A member that a queue took back holds nothing until its successor gets a node; unseen, until then."""
    told = Told(accelerators=2)
    told.open()
    told.launch(1, 0, target="kubernetes")
    told.member(1, 0, 10, "Running", node="n", uid="a", started_at=10)
    if told_end:
        told.member(1, 0, 40, "Running", node="n", uid="a", exit_class="requeued")
    told.member(1, 0, 100, "Running", node="n", uid="b", started_at=100)
    told.member(1, 0, 160, "Succeeded", node="n", uid="b", ended_at=160, exit_class="completed")
    told.end(1, 160, took=150)

    found = account(told.view)

    assert_conserved(found)
    assert 2 * (60 + (30 if told_end else 90)) * MICRO == found.allocated_us("accelerator")
