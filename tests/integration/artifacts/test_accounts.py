"""What a candidate and a release state of themselves, and that nothing but the close makes a release."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.integration.artifacts.test_candidates_and_releases import name, release, run, view
from tests.support.artifact_run import CONFIGURATION, Run

from pretrain_archive.artifacts.registration import registered
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds.release import ASPECTS

__all__ = ["run"]


def losses(run: Run, **by_step: float) -> None:
    """The training loss that the program reported at each step."""
    points = [kinds.MetricPoint(name="loss", step=int(s.strip("s")), value=v) for s, v in by_step.items()]
    run.append(kinds.MetricsRecorded(attempt=1, points=points), attempt=1)


@pytest.mark.requirement("R103", "R138")
def test_a_candidate_states_data_configuration_and_evaluations(run):
    """From the record alone: which data, which configuration, every evaluation of these bytes."""
    fact = name(run, 200)
    report = next(
        e for _, e in view(run).all(kinds.EvaluationReported) if e.evaluation_id == fact.evaluation_id
    )

    assert ("stdlib@1", CONFIGURATION) == (fact.account.snapshot, fact.account.configuration_digest)
    [evaluation] = fact.account.evaluations
    assert (report.evaluation_id, True, {"loss": 1.5}) == (
        evaluation.evaluation_id, evaluation.passed, evaluation.metrics,
    )  # fmt: skip


@pytest.mark.requirement("R103", "R138")
def test_why_this_one_and_not_the_lowest_training_loss(run):
    """The checkpoint with the lowest training loss is named with both values, and what decides instead."""
    losses(run, s100=1.9, s200=1.2, s300=1.1)
    fact = name(run, 200)

    assert (1.2, 300) == (fact.account.loss_at, fact.account.lowest_loss_step)
    assert "step 300 had the lower training loss (1.1 against 1.2)" in fact.account.not_lowest_loss
    assert fact.account.not_lowest_loss in fact.reason


def test_the_lowest_training_loss_needs_no_excuse(run):
    """Nothing is said where the chosen one has it, nor where nobody recorded losses."""
    assert name(run, 200).account.not_lowest_loss is None
    losses(run, s100=1.9, s200=1.0, s300=1.1)
    assert name(run, 200).account.not_lowest_loss is None


@pytest.mark.requirement("R104", "R105", "R106", "R107", "R108", "R110", "R112")
def test_a_release_carries_everything_that_a_serving_team_needs(run):
    """Identity, data, configuration, evaluation, files by digest, and gaps with their reasons."""
    made = release(run, run.decide(), name(run, 200)).release
    account = made.account
    checkpoint = next(fact for _, fact in registered(run.ledger, run.uid) if fact.step == 200)

    assert {file.path: file.sha256 for file in checkpoint.files} == {f.path: f.sha256 for f in account.files}
    assert (200, "stdlib@1", CONFIGURATION, "alice", "research") == (
        account.step, account.snapshot, account.configuration_digest, account.responsible, account.intended_use,
    )  # fmt: skip
    assert account.evaluation.passed
    assert account.conclusion.startswith("passed on validation: loss at most 2")
    assert "tokens" not in account.unrecorded or checkpoint.tokens is None
    assert account.unrecorded["dependencies.packages"] == "no worker reported its installed packages"
    assert account.dependencies.packages is None


@pytest.mark.requirement("R105")
def test_dependencies_are_those_that_a_worker_observed(run):
    """The newest word on each counts; a dirty tree is told."""
    for moment, facts in (
        ("start", {"packages": {"torch": "2.13.0"}, "git": {"commit": "abc", "dirty": True}, "image": "i@x"}),
        ("end", {"libraries": {"libm.so": None}, "packages": None}),
    ):
        run.append(
            kinds.EnvironmentObserved(moment=moment, environment=facts, environment_digest=CONFIGURATION)
        )
    known = release(run, run.decide(), name(run, 200)).release.account.dependencies

    assert ({"torch": "2.13.0"}, {"libm.so": None}, "abc-dirty", "i@x") == (
        known.packages, known.libraries, known.code_version, known.image,
    )  # fmt: skip


def test_what_is_observed_after_the_release_does_not_make_it_another_one(run):
    """A retried close finds the release that stands, though the run tells more by now."""
    candidate, decision = name(run, 200), run.decide()
    first = release(run, decision, candidate)
    run.append(
        kinds.EnvironmentObserved(
            moment="end", environment={"packages": {"a": "1"}}, environment_digest=CONFIGURATION
        )
    )

    again = release(run, decision, candidate)
    assert not again.created
    assert first.release == again.release


@pytest.mark.requirement("R114")
def test_a_model_that_is_to_serve_is_not_released_without_its_checks(ledger, store, tmp_path):
    """The gate's own item once more, where the release is made: the reasons name every aspect."""
    run = Run(ledger, store, tmp_path / "product").open(use="product")
    run.evaluate(run.checkpoint(200), 1.5)
    candidate = name(run, 200)

    with pytest.raises(RefusedError, match="serving, safety boundary: nobody declared or measured it"):
        release(run, run.decide(), candidate)
    for aspect in ASPECTS:
        run.append(kinds.ServingCheck(aspect=aspect, value="agreed", how="declared", by="dana"))
    made = release(run, run.decide(), candidate).release

    assert made.account.serves
    assert list(ASPECTS) == [check.aspect for check in made.account.serving]


def test_only_the_close_makes_a_release():
    """No other module of the program calls it, and nothing else writes the record."""
    root = Path(kinds.__file__).parents[3]
    calls, writes = set(), set()
    for path in [*root.glob("pretrain_archive/**/*.py"), *root.parent.glob("operators/**/*.py")]:
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            name = (
                getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            )
            calls |= {path.name} if name == "make_release" else set()
            writes |= {path.name} if name == "ReleaseMade" else set()

    assert {"closing.py"} == calls
    assert {"releases.py"} == writes
