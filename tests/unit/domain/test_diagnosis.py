"""Hints come from signals that were seen together, and say what they do not show."""

from __future__ import annotations

import string

import pytest
from tests.unit.domain.told_run import Told, at

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost import account
from pretrain_archive.domain.diagnosis import Hint, diagnose
from pretrain_archive.domain.diagnosis_inspection import inspection
from pretrain_archive.domain.diagnosis_texts import HINTS, REASONS


def hints(told: Told) -> dict[str, Hint]:
    """Hints by code."""
    return {hint.code: hint for hint in diagnose(told.view, account(told.view))}


def trained(accelerators: int = 1, **more: object) -> Told:
    """Twenty steps of a second."""
    told = Told(accelerators=accelerators)
    told.open(**more)  # type: ignore[arg-type]
    told.launch(1, 0)
    told.start(1, 0)
    told.steps(1, *[(1 + s, s) for s in range(1, 21)])
    return told


def observe(told: Told, name: str, *values: float) -> None:
    """Points of a metric that the wrapper or the program reported."""
    points = [kinds.MetricPoint(name=name, step=i + 1, value=v, at=at(2 + i)) for i, v in enumerate(values)]
    told.add(kinds.MetricsRecorded(attempt=1, points=points), 21, 1)


@pytest.mark.requirement("R246")
def test_low_use_with_slow_reads() -> None:
    """Idle accelerators and reading that takes a third of the steps point to the reading."""
    told = trained()
    observe(told, "system/accelerator0/percent", 20, 30)
    observe(told, "data_read_seconds", 3.0, 4.0)
    told.save(1, 21, 20, took=0)
    told.end(1, 21, took=21)

    found = hints(told)["slow_reads"]

    assert {"busy": "25%", "read": "35%"} == found.values
    assert found.records
    assert "not shown" in found.text()


@pytest.mark.parametrize(
    ("percent", "reads", "code"),
    [
        pytest.param(95, (7.0,), None, id="busy"),
        pytest.param(20, (0.5,), "low_use", id="reads fast"),
        pytest.param(20, (), "low_use_unread", id="reads unrecorded"),
    ],
)
def test_reads_are_not_blamed_alone(percent: float, reads: tuple[float, ...], code: str | None) -> None:
    """Neither signal alone says that reading is slow."""
    told = trained()
    observe(told, "system/accelerator0/percent", percent)
    if reads:
        observe(told, "data_read_seconds", *reads)
    told.end(1, 21, took=21)

    assert {"slow_reads", "low_use", "low_use_unread"} & set(hints(told)) == ({code} if code else set())


@pytest.mark.requirement("R246")
def test_out_of_memory_with_batch_and_length() -> None:
    """An end out of memory is told with batch and sequence length wherever the configuration has them."""
    told = trained(configuration={"optimisation": {"batch": 64}, "model": {"context": 4096, "layers": 3}})
    told.end(1, 21, took=21, state="failed", exit_class="oom")

    found = hints(told)["out_of_memory"]

    assert "optimisation.batch = 64, model.context = 4096" == found.values["settings"]
    assert {"rec_1", "rec_5"} == set(found.records)


def test_exit_code_137_is_not_out_of_memory() -> None:
    """A kill alone is no hint at memory."""
    told = trained()
    told.end(1, 21, took=21, state="failed", exit_class="killed", signal=9)

    assert "out_of_memory" not in hints(told)


def two_attempts(slow: float) -> Told:
    """One attempt on one node with steps of a second, one on two nodes with steps of ``slow`` seconds."""
    told = Told(accelerators=4)
    told.open()
    for attempt, nodes, step in ((1, ("a",), 1.0), (2, ("a", "b"), slow)):
        begin = 1000 * attempt
        told.launch(attempt, begin)
        for worker, node in enumerate(nodes):
            told.member(attempt, worker, begin, "Running", node=node, started_at=begin)
        told.start(attempt, begin)
        told.steps(attempt, *[(begin + step * s, s) for s in range(1, 11)])
        told.end(attempt, begin + 10 * step, took=10 * step, state="failed")
    return told


@pytest.mark.requirement("R246")
@pytest.mark.parametrize(("slow", "expected"), [(1.5, True), (1.05, False)], ids=["slower", "alike"])
def test_slow_across_nodes(slow: float, expected: bool) -> None:
    """Steps that take longer on more nodes point to the communication, with both numbers."""
    found = hints(two_attempts(slow))

    assert expected == ("across_nodes" in found)
    if expected:
        assert {"many": "2", "few": "1", "slow": "1.5", "fast": "1"} == found["across_nodes"].values


def test_network_events_are_named() -> None:
    """Members on several nodes and an event that names the network are told together."""
    told = two_attempts(1.0)
    event = told.event(2, 1005, "network_hint", text="NCCL timeout")

    assert (event.record_id,) == hints(told)["network_events"].records


def test_saves_that_stall_and_saves_that_are_dear() -> None:
    """One save that took long stands out, and saves that take much of the time are told."""
    told = trained()
    for number, took in enumerate((0.5, 0.5, 0.5, 6.0)):
        told.save(1, 30 + 10 * number, 20, took=took)
    told.end(1, 60, took=60)

    found = hints(told)

    assert {"longest": "6", "median": "0.5"} == found["save_stall"].values
    assert "12%" == found["saves_dear"].values["share"]


@pytest.mark.parametrize(
    ("hosts", "expected"), [("aab", "a"), ("abc", None), ("ab", None), ("aaA", None), ("aaB", "a")]
)
def test_restarts_on_one_node(hosts: str, expected: str | None) -> None:
    """Two of three failures on one node are a hint; failures everywhere, and a node that did it (capital), are none."""
    told = Told()
    told.open()
    for attempt, host in enumerate(hosts, 1):
        told.launch(attempt, attempt * 100)
        told.add(
            kinds.AttemptStarted(attempt=attempt, host=host.lower(), requested={}, allocated={}),
            attempt * 100,
            attempt,
        )
        told.end(attempt, attempt * 100 + 10, took=10, state="failed" if host.islower() else "completed")

    found = hints(told).get("one_node")

    assert expected == (found.values["node"] if found else None)


@pytest.mark.requirement("R224")
def test_waits_by_cause() -> None:
    """The longest wait names its reason in both languages."""
    told = Told(accelerators=1)
    told.open()
    told.launch(1, 0)
    for seconds, reason in ((0, "quota"), (100, "image")):
        told.add(kinds.WaitObserved(attempt=1, reason=reason, message="", at=at(seconds)), seconds, 1)  # type: ignore[arg-type]
    told.start(1, 110)
    told.end(1, 120, took=10)

    found = hints(told)["waited"]

    assert ("110", "100") == (found.values["seconds"], found.values["most"])
    assert ("the quota" in found.text(), "配额" in found.text("zh")) == (True, True)


def test_standing_still_and_missing_evidence() -> None:
    """Devices held without a step, and time of which nothing is known, are told apart."""
    told = trained()
    told.end(1, 80, took=80, state="stopped")
    blind = Told()
    blind.open()
    blind.launch(1, 0)
    blind.end(1, 80, took=80, state="lost")

    assert ({"stood_still"}, {"without_evidence"}) == (set(hints(told)), set(hints(blind)))


@pytest.mark.requirement("R090")
@pytest.mark.parametrize(
    ("state", "percent", "asked"),
    [
        ("failed", 90, [("alive", False)]),
        ("completed", 10, [("alive", True), ("resources", False)]),
        ("completed", 90, [("alive", True), ("resources", True), ("metrics", False)]),
    ],
)
def test_the_order_of_the_questions(state: str, percent: float, asked: list[tuple[str, bool]]) -> None:
    """The first no ends the inspection: what comes after it says nothing yet."""
    told = trained()
    observe(told, "system/accelerator0/percent", percent)
    told.end(1, 21, took=21, state=state)

    assert asked == [(look.question, look.holds) for look in inspection(told.view, account(told.view))]


def test_nothing_recorded_is_unrecorded() -> None:
    """Without any record there is no hint, and no question has an answer."""
    found = inspection(Told().view, account(Told().view))

    assert [None, None, None] == [look.holds for look in found]
    assert {} == hints(Told())


def test_both_languages_fill_the_same_blanks() -> None:
    """Each text has the same blanks in both languages."""
    for en, zh in (*HINTS.values(), *REASONS.values()):
        blanks = [{name for _, name, _, _ in string.Formatter().parse(text) if name} for text in (en, zh)]
        assert blanks[0] == blanks[1]


@pytest.mark.parametrize("name", ["loss", "train_loss", "train/loss"])
def test_the_loss_by_any_of_its_names(name: str) -> None:
    """Whether metrics move is read from the loss, whatever the program calls it."""
    told = Told()
    told.open()
    told.launch(1, 0)
    told.start(1, 1)
    points = [kinds.MetricPoint(name=name, step=step, value=9.0 - step, at=at(step)) for step in range(1, 6)]
    told.add(kinds.MetricsRecorded(attempt=1, points=points), 6, 1)

    assert (True, "loss") == next(
        (o.holds, o.code) for o in inspection(told.view, account(told.view)) if o.question == "metrics"
    )
