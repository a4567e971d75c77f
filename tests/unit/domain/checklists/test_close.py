"""The close gate's items: the last file is not the model (R138-R142), and what a release needs (R113)."""

from __future__ import annotations

import pytest
from tests.unit.domain.checklists.conftest import around, changed, conf, first, nobody_looked, without

from pretrain_archive.domain.checklists import checklist
from pretrain_archive.domain.gates import RELEASE_REQUIRED
from pretrain_archive.domain.kinds import (
    AttemptEnded,
    CandidateNamed,
    CheckpointRegistered,
    ConfigurationDeclared,
    EvaluationReported,
    GateDecision,
    LaunchIntended,
    RunOpened,
    SnapshotCreated,
    SourceRegistered,
)

OTHER = "sha256:" + "0" * 64
VERIFIED, CHANGED, UNRECORDED = "verified", "changed", "unrecorded"


def said(field, *, other=""):
    """Cases of a field of the form: absent, None, empty or blank is unrecorded."""
    cases = [
        ("none", None),
        ("empty", ""),
        ("blank", " \n"),
        ("an empty list", []),
        ("blank lines", ["", "  "]),
    ]
    return [pytest.param(conf(**{field: value}), UNRECORDED, id=f"{other}{name}") for name, value in cases]


def measured_by(digest):
    """The prepare gate signed one evaluation program, and ``digest`` measured."""
    signed = changed(ConfigurationDeclared, evaluate_code_digest=OTHER)
    ran = changed(EvaluationReported, evaluator_digest=digest)
    return lambda view: ran(signed(view))


CASES = {
    "close.candidate": [
        pytest.param(without(CandidateNamed), UNRECORDED, id="none"),
        pytest.param(changed(CandidateNamed, kept=False), UNRECORDED, id="only dropped ones"),
        pytest.param(
            changed(CandidateNamed, checkpoint_id="ckpt_other"), UNRECORDED, id="of no checkpoint here"
        ),
        pytest.param(without(CheckpointRegistered), UNRECORDED, id="no checkpoint"),
        pytest.param(changed(CandidateNamed, checkpoint_digest=OTHER), CHANGED, id="other bytes"),
        pytest.param(changed(CandidateNamed, reason=""), CHANGED, id="no reason"),
    ],
    "close.evaluation": [
        pytest.param(without(EvaluationReported), UNRECORDED, id="none"),
        pytest.param(without(CandidateNamed), UNRECORDED, id="no candidate"),
        pytest.param(
            changed(CandidateNamed, evaluation_id="eval_other"), UNRECORDED, id="another evaluation"
        ),
        pytest.param(changed(EvaluationReported, passed=False), CHANGED, id="not passed"),
        pytest.param(
            changed(ConfigurationDeclared, evaluate_code_digest=OTHER), CHANGED, id="by an unrecorded program"
        ),
        pytest.param(measured_by("sha256:" + "1" * 64), CHANGED, id="by another program"),
        pytest.param(measured_by(OTHER), VERIFIED, id="by the signed program"),
    ],
    "close.limits": said("known_limits"),
    "close.links": [
        pytest.param(without(CandidateNamed), UNRECORDED, id="no candidate"),
        pytest.param(without(SnapshotCreated), UNRECORDED, id="no snapshot"),
        pytest.param(without(ConfigurationDeclared), UNRECORDED, id="no configuration"),
        pytest.param(
            changed(CheckpointRegistered, snapshot="python-stdlib@2"), CHANGED, id="another snapshot"
        ),
        pytest.param(
            changed(CheckpointRegistered, configuration_digest=OTHER), CHANGED, id="another configuration"
        ),
        pytest.param(
            changed(CheckpointRegistered, snapshot="python-stdlib@11"), CHANGED, id="a version that begins so"
        ),
    ],
    "close.further_use": [
        pytest.param(changed(RunOpened, purpose=None), UNRECORDED, id="no purpose"),
        pytest.param(
            changed(RunOpened, purpose=lambda p: {**p, "intended_use": ""}), UNRECORDED, id="no use"
        ),
    ],
    "close.gates_signed": [
        pytest.param(without(GateDecision), UNRECORDED, id="none signed"),
        pytest.param(
            first(GateDecision, changed(GateDecision, decision="reject")), CHANGED, id="prepare rejected"
        ),
        pytest.param(
            first(GateDecision, changed(GateDecision, gate="close")), UNRECORDED, id="only run signed"
        ),
    ],
    "close.tracks": [
        pytest.param(without(SnapshotCreated), UNRECORDED, id="no data"),
        pytest.param(without(AttemptEnded), UNRECORDED, id="no compute"),
        pytest.param(without(CheckpointRegistered), UNRECORDED, id="no artifact"),
    ],
    "close.conclusion": [pytest.param(without(), UNRECORDED, id="nobody concluded")],
    "close.walkthrough": [pytest.param(without(), UNRECORDED, id="nobody walked through")],
    "release.version": said("release_version"),
    "release.origin": [pytest.param(without(SourceRegistered), UNRECORDED, id="no source")],
    "release.rights": [
        pytest.param(nobody_looked, UNRECORDED, id="nobody looked beyond the run"),
        pytest.param(without(SourceRegistered), UNRECORDED, id="no source"),
        pytest.param(
            around(
                "source.withdrawn", name="x", reason="licence ended", by="dana", at="2026-11-12T00:00:00Z"
            ),
            CHANGED,
            id="withdrawn",
        ),
        pytest.param(changed(SourceRegistered, usage_scope=["internal"]), CHANGED, id="outside its scope"),
    ],
    "release.evaluation": [pytest.param(without(EvaluationReported), UNRECORDED, id="no report")],
    "release.applicable": said("applicable"),
    "release.not_applicable": said("not_applicable"),
    "release.rollback": [*said("rollback"), *said("take_down", other="take-down: ")],
    "release.registry": [pytest.param(without(), UNRECORDED, id="no registry is connected")],
}
OPEN = {"close.walkthrough", "close.conclusion", "release.registry"}


@pytest.mark.requirement("R113", "R138", "R139", "R140", "R141", "R142")
@pytest.mark.parametrize("name", CASES)
def test_of_a_good_run(whole, name):
    """A whole run: verified but for the walk-through and the registry, which are advisory."""
    item = whole.item("close", name)

    assert (UNRECORDED if name in OPEN else VERIFIED) == item.verdict
    assert (name.startswith("release.") or name in OPEN) == (not item.blocking)
    assert item.owner
    assert name.startswith("release.") == (item.requirement == "R113")


@pytest.mark.parametrize(
    ("name", "edit", "verdict"),
    [
        pytest.param(name, *case.values, id=f"{name}: {case.id}")
        for name, cases in CASES.items()
        for case in cases
    ],
)
def test_cases(whole, name, edit, verdict):
    """What is missing is unrecorded, what contradicts is changed."""
    item = whole.item("close", name, edit)

    assert verdict == item.verdict
    if verdict == UNRECORDED:
        assert "" == item.found


def test_every_item_has_cases(whole):
    """No item is left out of the tables."""
    assert set(CASES) == {item.id for item in checklist("close", whole.view, whole.policy)}


def test_release_items_that_registering_needs(whole):
    """What registering needs are release items, all but the registry itself."""
    names = {item.id for item in checklist("close", whole.view, whole.policy) if item.requirement == "R113"}

    # asked of explorations, of models that are to serve, and where the policy asks for persons
    sometimes = {"release.scope", "release.serving", "close.human_evaluation"}
    assert names - {"release.registry"} == RELEASE_REQUIRED - sometimes


def test_an_exploration_releases_nothing(whole):
    """What forbids the outcome *register* to an exploration is asked there, and blocks that outcome."""
    explored = changed(LaunchIntended, scope="exploration")
    asked = {item.id: item.verdict for item in checklist("close", explored(whole.view), whole.policy)}

    assert CHANGED == asked["release.scope"]
    assert RELEASE_REQUIRED - {"release.serving", "close.human_evaluation"} <= asked.keys()


@pytest.mark.requirement("R142")
def test_missing_track_is_named(whole):
    """The hint names the track that is missing."""
    assert "Missing track: compute." == whole.item("close", "close.tracks", without(AttemptEnded)).hint


@pytest.mark.requirement("R141")
def test_unsigned_gate_is_named(whole):
    """The hint names the gate that is not signed."""
    edit = first(GateDecision, changed(GateDecision, gate="close"))

    assert "Not signed: prepare." == whole.item("close", "close.gates_signed", edit).hint


def test_failed_rules_are_named(whole):
    """An evaluation that did not pass names rules and flags."""
    edit = changed(
        EvaluationReported,
        passed=False,
        rules=[{"name": "below 4.2", "passed": False}],
        flags=["no sample record"],
    )

    assert "not passed: below 4.2, no sample record" in whole.item("close", "close.evaluation", edit).found


def test_rollback_names_both(whole):
    """How to roll back and how to take down stand together."""
    assert "use the release before; remove the folder" == whole.item("close", "release.rollback").found
