"""Rules that were fixed before the launch decide, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.memory_ledger import MemoryLedger
from tests.support.artifact_run import DIGEST, Run

from pretrain_archive.artifacts.reading import Reading
from pretrain_archive.artifacts.rules import BetterThanBaselines, Limit, fixed_rules, rules_of, told
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
