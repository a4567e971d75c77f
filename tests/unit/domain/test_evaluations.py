"""Which evaluations decide, what they still read, and whether several measured the same thing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.unit.domain.told_run import DIGEST, START, Told, at

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost import account
from pretrain_archive.domain.definitions import compare_definitions, definition_of, named_differences
from pretrain_archive.domain.evaluations import in_use, last_deciding, last_failure, leases, scope_text
from pretrain_archive.domain.policy_evaluation import Evaluation, Suite
from pretrain_archive.domain.run_view import RunView

OTHER = "sha256:" + "1" * 64


def report(**changes: Any) -> kinds.EvaluationReported:
    """An evaluation of one metric."""
    known = {
        "evaluation_id": "eval_1", "checkpoint_id": "ckpt_1", "checkpoint_digest": DIGEST, "data_set": "held out",
        "data_set_digest": DIGEST, "definition": {"window": 8, "tasks": {"a": {"shots": 0}}},
        "definition_digest": DIGEST,
        "metrics": [{"name": "acc", "unit": "share", "direction": "higher", "value": 0.5}], "baselines": [],
        "flags": [], "passed": True, "rules": [], "report_uri": "file:///r", "report_digest": DIGEST,
        "evaluator_digest": DIGEST,
    }  # fmt: skip
    return kinds.EvaluationReported.model_validate({**known, **changes})


def started(try_id: str, checkpoint: str = "ckpt_1", *, until: float = 600) -> kinds.EvaluationStarted:
    """A try that reads until so many seconds after the start."""
    return kinds.EvaluationStarted(
        try_id=try_id, checkpoint_id=checkpoint, checkpoint_digest=DIGEST, lease_until=at(until)
    )


def failed(try_id: str, program: str = "") -> kinds.EvaluationFailed:
    """A try that gave no numbers."""
    return kinds.EvaluationFailed(
        try_id=try_id, checkpoint_id="ckpt_1", checkpoint_digest=DIGEST, cause="program", detail="exit 1",
        program=program,
    )  # fmt: skip


def view_of(*payloads: kinds.Payload) -> RunView:
    """A run in which these were recorded, a second apart."""
    told = Told()
    for number, payload in enumerate(payloads):
        told.add(payload, number)
    return RunView.of("run_x", told.records)


@pytest.mark.case("E07")
@pytest.mark.parametrize(
    ("payloads", "seconds", "used"),
    [
        pytest.param([started("t1")], 599, True, id="reading"),
        pytest.param([started("t1")], 600, False, id="its time is over"),
        pytest.param([started("t1"), failed("t1")], 10, False, id="failed"),
        pytest.param(
            [started("t1"), kinds.EvaluationFinished(try_id="t1", checkpoint_id="ckpt_1", evaluations=["e"])],
            10, False, id="finished",
        ),
        pytest.param([started("t1"), started("t2"), failed("t1")], 10, True, id="another try still reads"),
        pytest.param([started("t1", "ckpt_2")], 10, False, id="of another checkpoint"),
        pytest.param([started("t1"), report(try_id="t1")], 10, True, id="numbers are recorded, its end is not"),
    ],
)  # fmt: skip
def test_a_checkpoint_is_in_use_until_its_evaluation_has_an_end(
    payloads: list[kinds.Payload], seconds: float, used: bool
) -> None:
    """The rule that a clean-up asks."""
    assert used == (in_use(view_of(*payloads), "ckpt_1", START + timedelta(seconds=seconds)) is not None)


@given(st.lists(st.tuples(st.sampled_from(["start", "fail", "finish"]), st.integers(0, 3)), max_size=12))
def test_each_try_that_began_has_an_end_or_a_lease(events: list[tuple[str, int]]) -> None:
    """In any order of records."""
    made: list[kinds.Payload] = []
    for what, number in events:
        name = f"t{number}"
        made.append({
            "start": started(name), "fail": failed(name),
            "finish": kinds.EvaluationFinished(try_id=name, checkpoint_id="ckpt_1", evaluations=["e"]),
        }[what])  # fmt: skip
    began = [f"t{n}" for what, n in events if what == "start"]
    ended = {f"t{n}" for what, n in events if what != "start"}

    assert [name for name in began if name not in ended] == [one.try_id for one in leases(view_of(*made))]


def test_the_requests_own_program_decides() -> None:
    """Neither a further program nor an import, though they are newer."""
    own = report(evaluation_id="own")
    view = view_of(
        own, report(evaluation_id="code", program="code"), report(evaluation_id="far", imported=True)
    )

    found = last_deciding(view)
    assert found is not None
    assert "own" == found[1].evaluation_id
    assert last_deciding(view_of(report(imported=True))) is None


def test_a_failure_counts_until_its_program_measured() -> None:
    """A success of another program does not mend it."""
    assert last_failure(view_of(failed("t1"), report())) is None
    assert last_failure(view_of(report(), failed("t1"))) is not None
    assert last_failure(view_of(failed("t1", "code"), report())) is not None
    assert last_failure(view_of(failed("t1"), report(imported=True))) is not None
    assert last_failure(view_of()) is None


def test_a_failed_try_costs_what_it_took() -> None:
    """Device time of an evaluation that gave no numbers is in the bin of evaluations."""
    told = Told()
    told.open()
    told.add(failed("t1").model_copy(update={"seconds": 7.5, "devices": 2}), 30)

    assert 15_000_000 == account(told.view).bins("accelerator")["evaluation"]


@pytest.mark.requirement("R123")
def test_the_reach_is_told_in_a_line() -> None:
    """Samples, what was left out, limits; nothing where it is unrecorded."""
    scope = {"samples": 100, "not_evaluated": ["recall"], "limits": ["one language", "short texts"]}

    assert "100 samples; not evaluated: recall; limits: one language, short texts" == scope_text(
        report(scope=scope)
    )
    assert "samples unrecorded" == scope_text(report(scope={"samples": None}))
    assert "" == scope_text(report())


@pytest.mark.requirement("R124")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"definition": {"window": 9, "tasks": {"a": {"shots": 0}}}}, "definition.window", id="setting"),
        pytest.param({"definition": {"window": 8, "tasks": {"a": {"shots": 5}}}}, "definition.tasks.a.shots",
                     id="deep"),
        pytest.param({"definition": {"window": 8}}, "definition.tasks.a.shots", id="missing"),
        pytest.param({"definition": {"window": "8", "tasks": {"a": {"shots": 0}}}}, "definition.window", id="type"),
        pytest.param({"data_set_digest": OTHER}, "data_set_digest", id="data"),
        pytest.param({"metrics": [{"name": "acc", "unit": "percent", "direction": "higher", "value": 50}]},
                     "metric.acc", id="unit"),
        pytest.param({"metrics": [{"name": "acc", "unit": "share", "direction": "lower", "value": 0.5}]},
                     "metric.acc", id="direction"),
        pytest.param({"suites": [{"name": "qa", "version": "1", "objective": "o", "digest": OTHER}]}, "suite.qa",
                     id="suite"),
    ],
)  # fmt: skip
def test_what_differs_between_definitions_is_named(changes: dict[str, Any], field: str) -> None:
    """Field by field, with what each run says."""
    compared = compare_definitions({"a": report(), "b": report(**changes)})

    assert not compared.uniform
    assert [field] == [one.field for one in compared.different]
    assert {"a", "b"} == set(compared.different[0].values)
    assert named_differences(compared)[0].startswith(f"{field}: ")


@pytest.mark.requirement("R124")
def test_values_and_programs_are_no_definition() -> None:
    """Other numbers of the same definition are comparable; another program is noted."""
    other = report(
        metrics=[{"name": "acc", "unit": "share", "direction": "higher", "value": 0.9, "samples": 5}],
        evaluator_digest=OTHER, evaluation_id="eval_2",
    )  # fmt: skip
    compared = compare_definitions({"a": report(), "b": other, "c": report()})

    assert compared.uniform
    assert ["program"] == [one.field for one in compared.noted]
    assert len(definition_of(report())) == compared.equal
    with pytest.raises(ValueError, match="two evaluations"):
        compare_definitions({"a": report()})


METRIC = {"name": "acc", "unit": "share", "direction": "higher"}


@pytest.mark.parametrize(
    ("section", "words"),
    [
        pytest.param({"programs": [{"name": "a", "command": ["x"]}] * 2}, "program 'a' is given twice", id="program"),
        pytest.param({"definitions": [{"name": "s", "objective": "o", "metrics": [METRIC]}] * 2},
                     "definition 's' is given twice", id="definition"),
        pytest.param({"rules": [{"metric": "acc", "direction": "higher", "limit": 1, "program": "b"}]},
                     "names the program 'b', which is not declared", id="unknown program"),
        pytest.param({"rules": [{"metric": "acc", "direction": "higher"}]}, "has neither a limit nor", id="empty rule"),
        pytest.param({"rules": [{"metric": "acc", "direction": "higher", "limit": float("nan")}]}, "finite",
                     id="limit that is no number"),
        pytest.param({"max_minutes": 0}, "greater than 0", id="no time"),
        pytest.param({"baselines": ["a hunch"]}, "baselines.0", id="unknown baseline"),
        pytest.param({"suite": "x"}, "suite", id="unknown key"),
    ],
)  # fmt: skip
def test_a_section_that_cannot_be_carried_out_is_refused(section: dict[str, Any], words: str) -> None:
    """The fault is named."""
    with pytest.raises(ValidationError, match=words):
        Evaluation.model_validate(section)


def test_a_policy_without_the_section_asks_for_nothing() -> None:
    """Every policy of before still reads, and allows nothing new."""
    section = Evaluation()

    assert ([], [], [], "", []) == (
        section.suites, section.programs, section.rules, section.group, section.baselines,
    )  # fmt: skip
    with pytest.raises(ValidationError, match="stands for two metrics"):
        Suite.model_validate({"name": "s", "objective": "o", "metrics": [METRIC, METRIC]})
