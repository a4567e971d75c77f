"""A log by step with a resume in it: both tellings kept, one curve that counts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain_archive.artifacts import metric_files, metric_log
from pretrain_archive.artifacts.metric_files import RepeatedMetricError
from pretrain_archive.artifacts.metrics import flag_code, read_output
from pretrain_archive.domain.errors import InputError


def lines(rows: Iterable[Any]) -> bytes:
    """JSON Lines."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def log_of(rows: Iterable[Any]) -> metric_log.MetricLog:
    """Read rows as a log."""
    return metric_log.of_parsed(metric_files.parse(lines(rows), where="log"), where="log")


def resumed(*, tagged: bool = True) -> list[dict[str, Any]]:
    """Attempt 1 tells 10 to 210, attempt 2 goes back to 160 and tells other values up to 300."""
    rows: list[dict[str, Any]] = []
    for attempt, steps, factor in ((1, range(10, 211, 10), 1.0), (2, range(160, 301, 10), 0.9)):
        for step in steps:
            row = {"attempt": attempt, "step": step, "loss": round(5 / step * factor, 6)}
            rows.append(row if tagged else {key: value for key, value in row.items() if key != "attempt"})
    return rows


BAD = [
    {"attempt": 2, "loss": 0.1},
    {"attempt": 2, "step": -5, "loss": 0.1},
    {"attempt": 2, "step": "310", "loss": 0.1},
]


@pytest.mark.case("E05")
def test_a_resume_keeps_both_attempts_and_the_later_one_counts() -> None:
    """From 160 on attempt 2 counts, six points are set aside, the end is of step 300, bad lines are located."""
    log = log_of([*resumed(), *BAD])

    assert 36 == len(log.points["loss"])
    kept = log.effective("loss")
    assert [(s, 1) for s in range(10, 160, 10)] + [(s, 2) for s in range(160, 301, 10)] == [
        (p.step, p.attempt) for p in kept
    ]
    assert (300, 0.015) == (kept[-1].step, kept[-1].value)
    assert [{"attempt": 2, "from_step": 160, "set_aside": 6}] == log.taken_over("loss")
    assert [(37, "no step"), (38, "step is -5, expected at least 0"),
            (39, "step is '310', expected a whole number")] == log.bad  # fmt: skip


@pytest.mark.case("E05")
def test_a_log_as_an_output_ends_with_the_effective_value_and_cannot_pass_with_bad_lines() -> None:
    """The metric is that of step 300; each bad line is a flag."""
    raw = lines([*resumed(), *BAD])

    reading = read_output(metric_files.parse(raw, where="log"), where="log", directions={"loss": "lower"})

    assert [("loss", 0.015)] == [(m.name, m.value) for m in reading.metrics]
    assert 3 == [flag_code(flag) for flag in reading.flags].count("bad_step")
    assert reading.log is not None
    assert 36 == reading.log["curves"]["loss"]["points"]


def test_steps_that_run_backwards_without_an_attempt_begin_one() -> None:
    """It is told where an attempt was assumed."""
    log = log_of(resumed(tagged=False))

    assert [(22, 2)] == log.assumed
    assert 300 == log.effective("loss")[-1].step


def test_a_later_attempt_that_ends_earlier_ends_the_curve() -> None:
    """What the first attempt told beyond the resume was lost work."""
    log = log_of(
        [*({"attempt": 1, "step": s, "x": s} for s in (1, 2, 3, 4)), {"attempt": 2, "step": 2, "x": 9}]
    )

    assert [(1, 1), (2, 2)] == [(p.step, p.attempt) for p in log.effective("x")]


@pytest.mark.case("E03")
def test_one_attempt_that_gives_a_step_two_values_is_refused() -> None:
    """Attempt, step and both values are named, with the line."""
    with pytest.raises(
        RepeatedMetricError, match=r"loss of attempt 1 at step 5 given twice: 1\.0, 2\.0"
    ) as raised:
        log_of([{"step": 5, "loss": 1.0}, {"step": 6, "loss": 1.0}, {"attempt": 1, "step": 5, "loss": 2.0}])
    assert "line 3" in str(raised.value)


def test_a_value_that_is_not_finite_stays_in_the_curve() -> None:
    """NaN at the end is the end."""
    log = log_of([{"step": 1, "loss": 1.0}, {"step": 2, "loss": float("nan")}])

    assert (None, "nan") == (log.effective("loss")[-1].value, log.effective("loss")[-1].not_finite)
    assert [[1, 1, 1.0], [2, 1, "nan"]] == log.to_json()["curves"]["loss"]["effective"]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30)), unique=True, max_size=60))
def test_no_point_is_lost_and_the_curve_rises(points: list[tuple[int, int]]) -> None:
    """Kept and set aside add up for any order of attempts and steps; steps of the curve rise strictly."""
    rows = [{"attempt": a, "step": s, "x": a * 100 + s} for a, s in points]
    if len(rows) < 2:
        return
    log = log_of(rows)
    kept = [point.step for point in log.effective("x")]
    aside = sum(taken["set_aside"] for taken in log.taken_over("x"))

    assert len(points) == len(log.points["x"]) == len(kept) + aside
    assert sorted(set(kept)) == kept


@pytest.mark.case("E05")
def test_a_branch_that_was_left_counts_for_no_metric() -> None:
    """Attempt 2 went back to 160 and told no accuracy: that of step 200 belongs to what was left behind."""
    rows = [
        {"attempt": 1, "step": step, "loss": 1.0, **({"acc": 0.9} if step == 200 else {})}
        for step in (100, 200)
    ]
    rows += [{"attempt": 2, "step": 160, "loss": 0.9}]
    log = log_of(rows)

    assert [(100, 1), (160, 2)] == [(p.step, p.attempt) for p in log.effective("loss")]
    assert [] == log.effective("acc")
    assert [{"attempt": 2, "from_step": 160, "set_aside": 1}] == log.taken_over("acc")
    reading = read_output(metric_files.parse(lines(rows), where="log"), where="log")
    assert (["loss"], True) == (
        [m.name for m in reading.metrics], any(f.startswith("no_value: no point of acc") for f in reading.flags),
    )  # fmt: skip
    assert log.to_json()["curves"]["acc"]["final_step"] is None


def test_a_log_that_goes_back_without_end_is_refused() -> None:
    """Each line an attempt of its own: no training does that."""
    with pytest.raises(InputError, match="at most 1000 attempts"):
        log_of({"step": 2000 - number, "loss": 1.0} for number in range(1500))
