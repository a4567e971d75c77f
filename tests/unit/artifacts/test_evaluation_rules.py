"""Rules that were fixed before the launch decide, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.memory_ledger import MemoryLedger
from tests.support.artifact_run import DIGEST, Run

from pretrain_archive.artifacts import metric_files
from pretrain_archive.artifacts.metrics import read_output
from pretrain_archive.artifacts.reading import Reading
from pretrain_archive.artifacts.rules import (
    BetterThanBaselines,
    Limit,
    contradicted,
    fixed_rules,
    rules_of,
    told,
)
from pretrain_archive.artifacts.suites import load_suite
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.storage.files import FileStore

LOSS = Limit(metric="loss", direction="lower", limit=2.0)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run that was opened; its request names a metric."""
    return Run(MemoryLedger(), FileStore(tmp_path / "store"), tmp_path).open()


def view_of(run: Run) -> RunView:
    """The run as its records tell it."""
    return RunView.of(run.uid, run.ledger.records(streams=[run.uid]))


def opened(run: Run, **evaluation: Any) -> kinds.RunOpened:
    """How the run was opened, under a policy with a section about evaluation."""
    found = view_of(run).opened
    assert found is not None
    assert found.purpose is not None
    purpose = found.purpose.model_copy(
        update={"acceptance_metric": "loss", "acceptance_direction": "lower", "acceptance_limit": 2.0}
    )
    return found.model_copy(
        update={
            "purpose": purpose,
            "policy": {"evaluation": evaluation},
            "conf": {"must_beat_baselines": False},
        }
    )


def launch(run: Run) -> None:
    """A launch token is consumed."""
    run.append(
        kinds.LaunchIntended(
            token={}, token_digest=DIGEST, target="local", checkpoint_size=1, checkpoint_root="00", signer="k"
        )
    )


def test_the_policys_rules_are_for_the_program_that_they_name(run: Run) -> None:
    """The request's own limit judges its own program alone."""
    rules = [
        {"metric": "acc", "direction": "higher", "limit": 0.5, "better_than_baselines": True},
        {"metric": "pass_rate", "direction": "higher", "limit": 0.3, "program": "code"},
    ]
    found = opened(run, rules=rules, programs=[{"name": "code", "command": ["x"]}])

    acc = Limit(metric="acc", direction="higher", limit=0.5)
    assert (LOSS, acc, BetterThanBaselines(metric="acc", direction="higher")) == rules_of(found)
    assert (Limit(metric="pass_rate", direction="higher", limit=0.3),) == rules_of(found, "code")
    assert () == rules_of(found, "unknown")


@pytest.mark.requirement("R119")
@pytest.mark.parametrize(
    ("later", "words"),
    [
        pytest.param({"rules": [{"metric": "acc", "direction": "higher", "limit": 0.1}]},
                     "added: acc at least 0.1", id="added"),
        pytest.param(None, "added: loss at most 99", id="loosened"),
        pytest.param("fewer", "a rule was taken away", id="taken away"),
    ],
)  # fmt: skip
def test_a_rule_that_came_after_the_launch_is_refused(run: Run, later: Any, words: str) -> None:
    """The rule is named; before the launch the last word counts."""
    run.append(opened(run))
    before = RunView.of(run.uid, view_of(run).records)
    assert (LOSS,) == fixed_rules(before)
    launch(run)
    assert (LOSS,) == fixed_rules(view_of(run))

    changed = opened(run, **(later if isinstance(later, dict) else {}))
    assert changed.purpose is not None
    if later is None or later == "fewer":
        limit = 99.0 if later is None else None
        changed = changed.model_copy(
            update={"purpose": changed.purpose.model_copy(update={"acceptance_limit": limit})}
        )
    run.append(changed)

    with pytest.raises(RefusedError, match=words):
        fixed_rules(view_of(run))


def test_a_rule_may_use_the_name_that_its_suite_gives_a_metric() -> None:
    """``accuracy`` is found where the program calls it ``acc``; two of them are one too many."""
    acc = kinds.MetricResult(
        name="acc", unit="share", direction="higher", value=0.7, defined_by="question-answering-1@1/accuracy"
    )
    rule = Limit(metric="accuracy", direction="higher", limit=0.5)

    assert rule.decide(Reading(metrics=(acc,)))["passed"]
    two = rule.decide(Reading(metrics=(acc, acc.model_copy(update={"name": "b.acc"}))))
    assert (False, "accuracy is given 2 times: acc, b.acc") == (two["passed"], two["reason"])


def test_rules_are_told_in_words() -> None:
    """As a refusal names them."""
    assert "loss at most 2" == told(LOSS)
    assert "acc better than every baseline" == told(BetterThanBaselines(metric="acc", direction="higher"))


def metric(name: str, value: float, **more: Any) -> kinds.MetricResult:
    """A metric of a share, higher is better."""
    return kinds.MetricResult(
        **{"name": name, "unit": "share", "direction": "higher", "value": value, **more}
    )


@pytest.mark.requirement("R117")
def test_another_name_of_the_same_metric_cannot_hide_a_value() -> None:
    """The suite calls both names accuracy: with two values nothing is picked; of another task it is another number."""
    rule = Limit(metric="accuracy", direction="higher", limit=0.5)
    defined = {"defined_by": "question-answering-1@1/accuracy"}
    best = metric("accuracy", 0.9, **defined)

    told_twice = rule.decide(Reading(metrics=(metric("acc", 0.1, **defined), best)))

    assert (False, "accuracy is given 2 times: accuracy, acc") == (told_twice["passed"], told_twice["reason"])
    assert rule.decide(Reading(metrics=(metric("acc", 0.9, **defined), best)))["passed"]
    assert rule.decide(Reading(metrics=(metric("arc.acc", 0.1, **defined), best)))["passed"]


def test_a_part_does_not_stand_for_the_whole() -> None:
    """Few errors of one kind are not few errors."""
    parsed = metric_files.parse(b'{"errors.syntax": 0.01}', where="x")
    reading = read_output(parsed, where="x", suites=(load_suite("code-1"),))

    outcome = Limit(metric="errors", direction="lower", limit=0.1).decide(reading)

    assert (False, "errors was not measured") == (outcome["passed"], outcome["reason"])
    assert Limit(metric="errors.syntax", direction="lower", limit=0.1).decide(reading)["passed"]
    assert "code-1@1/errors.syntax" == reading.metrics[0].defined_by


@pytest.mark.parametrize(
    ("value", "limit", "unit", "passed"),
    [
        pytest.param(35.0, 0.9, "", False, id="percentage against a share"),
        pytest.param(35.0, 0.9, "percent", False, id="and it says so"),
        pytest.param(0.95, 0.9, "", True, id="two shares"),
        pytest.param(95.0, 90.0, "", True, id="two percentages"),
        pytest.param(35.0, 0.9, "points", True, id="another unit"),
    ],
)
def test_a_limit_judges_a_value_of_its_own_scale(value: float, limit: float, unit: str, passed: bool) -> None:
    """35 percent is no accuracy of at least 0.9."""
    rule = Limit(metric="acc", direction="higher", limit=limit)

    outcome = rule.decide(Reading(metrics=(metric("acc", value, unit=unit),)))

    assert (passed, passed) == (outcome["passed"], not outcome["reason"])


def test_rules_that_point_the_other_way_are_named() -> None:
    """Also under the suite's name for a metric, and where two rules point both ways."""
    acc = metric("acc", 0.7, defined_by="question-answering-1@1/accuracy")
    lower = Limit(metric="accuracy", direction="lower", limit=0.9)
    higher = Limit(metric="acc", direction="higher", limit=0.5)

    flag = "contradictory: acc is reported as higher is better, the rule says lower"
    assert [flag] == contradicted([lower, higher], [acc])
