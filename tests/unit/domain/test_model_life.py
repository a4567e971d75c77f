"""A model's state, places, open problems and how long its records are kept, from facts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pretrain_archive.domain import kinds
from pretrain_archive.domain.model_life import LIFE, Life, facts_of
from pretrain_archive.domain.records import Actor, Origin, Record

MADE = "2026-11-29T10:00:00.000000Z"


def record(position: int, kind: str, payload: dict[str, Any]) -> Record:
    """A record with this payload."""
    return Record(
        record_id=f"rec_{position}", position=position, stream="run_x", sequence=position, previous="", kind=kind,
        schema_version=1, attempt=0, ordinal=0, payload=payload, actor=Actor(type="person", name="dana"),
        recorded_at=MADE, origin=Origin(dag_id="d", dag_run_id="r", task_id="t"),
    )  # fmt: skip


RELEASE = kinds.ReleaseMade(
    release_id="rel_1", name="corpus", version="1", candidate_id="c", checkpoint_digest="sha256:" + "1" * 64,
    applicable=[], not_applicable=[], known_limits=[], rollback="r", take_down="t", usage_scope=[],
)  # fmt: skip


def life(*facts: tuple[str, dict[str, Any]], problems: int = 0) -> Life:
    """A release with these facts, in order; their ids are ``f1``, ``f2`` and so on."""
    records = []
    for number, (name, more) in enumerate(facts, 1):
        kind = f"model.{name}"
        fields = {
            "fact_id": f"f{number}", "release_id": "rel_1", "name": "corpus", "version": "1", "at": MADE, "by": "dana",
            "authentication": "user", "text": f"text {number}",
        }  # fmt: skip
        records.append(record(number, kind, LIFE[kind].model_validate(fields | more).to_json()))
    return Life(
        record=record(0, "release.made", RELEASE.to_json()), release=RELEASE, facts=facts_of(reversed(records)),
        evaluated=_evaluated(problems) if problems else None,
    )  # fmt: skip


def _evaluated(problems: int) -> tuple[Record, kinds.HumanEvaluationReported]:
    digest = "sha256:" + "1" * 64
    found = kinds.ProblemFound(
        digest=digest, line=1, category="unsafe", severity="critical", note="n", by="bob"
    )
    report = kinds.HumanEvaluationReported(
        sample_digest=digest, checkpoint_id="c", checkpoint_digest=digest, mode="single", reviewers=["bob"], items=1,
        scored=1, answers=1, points={}, problems=[found] * problems, passed=False,
    )  # fmt: skip
    return record(9, "human_evaluation.reported", report.to_json()), report


def delivered(where: str) -> tuple[str, dict[str, Any]]:
    """A delivery."""
    return "delivered", {"to": "the team", "where": where}


RETIRED = ("retired", {"records_keep_days": 10.0})


@pytest.mark.requirement("R109")
@pytest.mark.parametrize(
    ("facts", "state", "places"),
    [
        pytest.param([], "released", (), id="nothing since"),
        pytest.param([("feedback", {})], "released", (), id="feedback changes no state"),
        pytest.param([delivered("a"), delivered("b")], "delivered", ("a", "b"), id="delivered twice"),
        pytest.param(
            [delivered("a"), delivered("b"), ("taken_down", {"where": "a"})], "delivered", ("b",), id="down at one"
        ),
        pytest.param(
            [delivered("a"), ("taken_down", {"where": "a"})], "taken_down", (), id="down at its only place"
        ),
        pytest.param([delivered("a"), delivered("b"), ("taken_down", {})], "taken_down", (), id="down everywhere"),
        pytest.param([("taken_down", {}), delivered("a")], "delivered", ("a",), id="up again"),
        pytest.param([delivered("a"), RETIRED], "retired", ("a",), id="retired where it still lies"),
        pytest.param([RETIRED, delivered("a")], "retired", ("a",), id="a retirement stands for good"),
    ],
)  # fmt: skip
def test_state(facts: list[tuple[str, dict[str, Any]]], state: str, places: tuple[str, ...]) -> None:
    """State and places follow from the facts in the order in which they were recorded."""
    found = life(*facts)

    assert (state, places) == (found.state, found.places)
    assert any(name == "delivered" for name, _ in facts) is found.delivered


EARLY, LATE = "2026-12-01T00:00:00.000000Z", "2026-12-02T00:00:00.000000Z"


@pytest.mark.requirement("R109")
@pytest.mark.parametrize(
    ("facts", "state", "places"),
    [
        pytest.param(
            [("delivered", {"to": "t", "where": "a", "at": LATE}), ("taken_down", {"at": EARLY})],
            "delivered", ("a",), id="a take-down that is recorded late does not undo what came after it",
        ),
        pytest.param(
            [("taken_down", {"where": "a", "at": LATE}), ("delivered", {"to": "t", "where": "a", "at": EARLY})],
            "taken_down", (), id="a delivery that is recorded late was taken down since",
        ),
        pytest.param(
            [("taken_down", {"at": "2026-12-01T01:00:00+02:00"}),
             ("delivered", {"to": "t", "where": "a", "at": "2026-12-01T00:00:00Z"})],
            "delivered", ("a",), id="moments are compared, not their texts",
        ),
    ],
)  # fmt: skip
def test_recorded_later_than_it_happened(
    facts: list[tuple[str, dict[str, Any]]], state: str, places: tuple[str, ...]
) -> None:
    """Where the model lies follows from when things happened, whenever they were recorded."""
    found = life(*facts)

    assert (state, places) == (found.state, found.places)


def test_state_at_a_moment() -> None:
    """What happened before the take-down happened to a model in service."""
    found = life(("delivered", {"to": "t", "where": "a"}), ("taken_down", {"at": LATE}))

    assert ["delivered", "taken_down"] == [found.until(at).state for at in (EARLY, LATE)]


@pytest.mark.requirement("R111")
def test_the_baselines_problems_are_not_the_models() -> None:
    """What a reviewer found in the baseline's output is no open problem of the release; ids stay those of the log."""
    found = life(problems=3)
    assert found.evaluated is not None
    summed, report = found.evaluated
    marked = [
        one.model_copy(update={"whose": whose})
        for one, whose in zip(report.problems, ("baseline", "both", None), strict=True)
    ]
    later = replace(found, evaluated=(summed, report.model_copy(update={"problems": marked})))

    assert ["rec_9#2", "rec_9#3"] == [one["id"] for one in later.open_problems()]


@pytest.mark.requirement("R111")
def test_open_problems() -> None:
    """Problems of human evaluation and feedback stay open until an adjustment or retraining names them."""
    problem = ("feedback", {"severity": "major", "source": "a user"})
    found = life(problem, ("feedback", {}), problem, problems=2)
    later = life(
        problem, ("feedback", {}), problem, ("adjusted", {"resolves": ["f1", "rec_9#2"]}),
        ("retraining", {"run_uid": "run_y", "resolves": ["f3"]}), problems=2,
    )  # fmt: skip

    assert ["rec_9#1", "rec_9#2", "f1", "f3"] == [one["id"] for one in found.open_problems()]
    assert [("rec_9#1", "critical", "human evaluation")] == [
        (one["id"], one["severity"], one["from"]) for one in later.open_problems()
    ]


@pytest.mark.requirement("R156")
@pytest.mark.parametrize(
    ("then", "now", "until"),
    [
        pytest.param(10.0, 10.0, "2026-12-09T10:00:00.000000Z", id="the policy's days after the retirement"),
        pytest.param(10.0, 20.0, "2026-12-19T10:00:00.000000Z", id="a later policy keeps longer"),
        pytest.param(10.0, 1e300, None, id="longer than any calendar: without end"),
        pytest.param(10.0, 4e6, None, id="behind the year 9999: without end"),
        pytest.param(10.0, 1.0, "2026-12-09T10:00:00.000000Z", id="a later policy shortens nothing"),
        pytest.param(None, 10.0, None, id="no end was set then"),
        pytest.param(10.0, None, None, id="no end is set now"),
    ],
)
def test_records_are_kept(then: float | None, now: float | None, until: str | None) -> None:
    """From the retirement on at least for the policy's days; nothing set is without end."""
    assert until == life(("retired", {"records_keep_days": then})).records_kept_until(now)


def test_records_of_a_living_model_are_kept_without_end() -> None:
    """Before the retirement no time runs, whatever the policy says."""
    assert life(delivered("a"), ("taken_down", {})).records_kept_until(0.0) is None


def test_the_first_retirement_counts() -> None:
    """A second one, however it came to be there, changes nothing."""
    found = life(RETIRED, ("retired", {"records_keep_days": 99.0}))

    assert found.retired is not None
    assert "f1" == found.retired[1].fact_id
