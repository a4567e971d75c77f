"""The run gate's items: failure, change and recovery are explainable (R135-R137)."""

from __future__ import annotations

import pytest
from tests.unit.domain.checklists.conftest import added, changed, drop_first, first, without

from pretrain_archive.domain.checklists import checklist
from pretrain_archive.domain.kinds import (
    AttemptEnded,
    AttemptReconciled,
    AttemptStarted,
    CheckpointRegistered,
    EnvironmentObserved,
    EvaluationReported,
    EventRecorded,
    GateDecision,
    LaunchIntended,
    MetricsRecorded,
)
from pretrain_archive.domain.policy import Environment

VERIFIED, CHANGED, UNRECORDED = "verified", "changed", "unrecorded"
NAN = {"name": "loss", "step": 101, "value": None, "not_finite": "nan"}


def loss(**point):
    """The last batches end with another loss."""
    return changed(MetricsRecorded, points=lambda old: [*old, {"name": "loss", "step": 999, **point}])


def losses(*values):
    """The only loss points of the run; None is a NaN."""
    points = [
        {"name": "loss", "step": n, "value": value, "not_finite": "nan" if value is None else ""}
        for n, value in enumerate(values)
    ]
    only, none = changed(MetricsRecorded, points=points), changed(MetricsRecorded, points=[])
    return lambda view: first(MetricsRecorded, only)(none(view))


STEPS = {"name": "steps", "verdict": "verified", "expected": "41", "found": "41"}
RECONCILED = {
    "attempt": 2, "resumed_from": "c", "resume_step": 40, "steps_lost": 12, "steps_repeated": 12, "checks": [STEPS],
}  # fmt: skip
LOADED = {"step": 40, "digest": ""}


def after(payload):
    """The recovery of the second attempt was compared."""
    return added(AttemptReconciled.model_validate(payload), attempt=2)


def said(loaded, workers, *, world=0):
    """So many workers tell what they loaded; the digest is the registered one unless given."""

    def edit(view):
        saved = next(c for _, c in view.all(CheckpointRegistered) if c.step == 40)
        view = changed(AttemptStarted, resume_from=saved.location.removeprefix("file://"))(view)
        digest = loaded["digest"] or saved.digest
        for worker in range(workers):
            data = {"worker": worker, "world_size": workers if world == 0 else world, "digest": digest}
            event = EventRecorded(
                attempt=2, event="checkpoint_loaded", at=view.records[-1].recorded_at, step=loaded["step"], data=data
            )  # fmt: skip
            view = added(event, attempt=2)(view)
        return view

    return edit


CASES = {
    "completed": [
        pytest.param(without(AttemptEnded), UNRECORDED, id="no end"),
        pytest.param(without(LaunchIntended, AttemptEnded), UNRECORDED, id="never launched"),
        *(pytest.param(changed(AttemptEnded, state=state), CHANGED, id=state)
          for state in ("failed", "stopped", "interrupted", "lost")),
        pytest.param(first(AttemptEnded, changed(AttemptEnded, state="lost")), VERIFIED, id="an earlier one was lost"),
    ],
    "resources": [
        pytest.param(without(AttemptEnded), UNRECORDED, id="no end"),
        pytest.param(changed(AttemptEnded, cpu_seconds=None), UNRECORDED, id="CPU not recorded"),
        pytest.param(changed(AttemptEnded, seconds=None), UNRECORDED, id="time not recorded"),
        pytest.param(changed(AttemptEnded, seconds=0.0), UNRECORDED, id="no time"),
        pytest.param(changed(AttemptEnded, seconds=100.0, cpu_seconds=4.9), CHANGED, id="waited"),
        pytest.param(changed(AttemptEnded, seconds=100.0, cpu_seconds=5.1), VERIFIED, id="worked"),
    ],
    "moving": [
        pytest.param(without(MetricsRecorded), UNRECORDED, id="no metrics"),
        pytest.param(losses(3.0), UNRECORDED, id="one point"),
        pytest.param(losses(3.0, 2.0), VERIFIED, id="two points"),
        pytest.param(losses(1.0, 2.0, 3.0), CHANGED, id="rises"),
        pytest.param(losses(2.0, 2.0), CHANGED, id="stands still"),
        pytest.param(losses(3.0, None, 1.0), CHANGED, id="NaN between"),
    ],
    "explainable": [
        pytest.param(without(LaunchIntended), UNRECORDED, id="never launched"),
        pytest.param(drop_first(AttemptEnded), UNRECORDED, id="an attempt without an end"),
        pytest.param(changed(AttemptEnded, reason=""), CHANGED, id="no reason"),
        pytest.param(changed(AttemptEnded, steps_repeated=None), CHANGED, id="repeated steps not counted"),
        pytest.param(first(AttemptEnded, changed(AttemptEnded, steps_repeated=None)), VERIFIED,
                     id="first attempt repeats nothing"),
    ],
    "evidence_location": [
        pytest.param(without(AttemptEnded), UNRECORDED, id="no end"),
        pytest.param(changed(AttemptEnded, log_uri=None), UNRECORDED, id="no place"),
        pytest.param(first(AttemptEnded, changed(AttemptEnded, log_digest=None)), UNRECORDED,
                     id="no digest of one log"),
        pytest.param(without(AttemptStarted), UNRECORDED, id="nothing started"),
    ],
    "environment": [
        pytest.param(without(EnvironmentObserved), UNRECORDED, id="not observed"),
        pytest.param(changed(EnvironmentObserved, differences=[{"field": "torch", "grade": "major"}]), CHANGED,
                     id="drift"),
        pytest.param(first(EnvironmentObserved, changed(EnvironmentObserved, differences=[{"field": "torch"}])),
                     CHANGED, id="drift in an earlier attempt"),
        pytest.param(changed(EnvironmentObserved, differences=[{"field": "host", "grade": "info"}]), VERIFIED,
                     id="for information"),
    ],
    "changes": [
        pytest.param(without(EnvironmentObserved), UNRECORDED, id="nothing observed, nothing recorded"),
        pytest.param(changed(EnvironmentObserved, since_previous=[{"field": "torch", "grade": "major"}]), CHANGED,
                     id="drift that nobody recorded a change for"),
        pytest.param(changed(EnvironmentObserved, since_previous=[{"field": "host", "grade": "info"}]), VERIFIED,
                     id="for information"),
        pytest.param(first(EnvironmentObserved, changed(EnvironmentObserved, differences=[{"field": "torch"}])),
                     CHANGED, id="drift between attempts, by what was declared"),
    ],
    "metrics": [
        pytest.param(without(MetricsRecorded), UNRECORDED, id="none"),
        pytest.param(changed(MetricsRecorded, points=[{"name": "lr", "step": 1, "value": 1.0}]), UNRECORDED,
                     id="no loss among them"),
        pytest.param(loss(value=None, not_finite="nan"), CHANGED, id="ends in NaN"),
        pytest.param(loss(value=0.5), VERIFIED, id="finite again"),
    ],
    "checkpoints": [pytest.param(without(CheckpointRegistered), UNRECORDED, id="none")],
    "evaluated": [
        pytest.param(without(EvaluationReported), UNRECORDED, id="none"),
        pytest.param(changed(EvaluationReported, flags=[]), VERIFIED, id="no flag"),
        pytest.param(changed(EvaluationReported, flags=[], baselines=[]), CHANGED, id="no baseline"),
    ],
    "signed_apart": [
        pytest.param(without(GateDecision), CHANGED, id="launched unsigned"),
        pytest.param(without(LaunchIntended), UNRECORDED, id="not launched"),
        pytest.param(first(GateDecision, changed(GateDecision, decision="reject")), CHANGED, id="rejected"),
    ],
    "reconciled": [
        pytest.param(after(RECONCILED), VERIFIED, id="compared"),
        pytest.param(after({**RECONCILED, "attempt": 1}), UNRECORDED, id="another attempt was"),
        pytest.param(after({**RECONCILED, "checks": [{**STEPS, "verdict": "changed"}]}), CHANGED, id="steps jump"),
        pytest.param(after({**RECONCILED, "checks": [{**STEPS, "verdict": "unrecorded"}]}), UNRECORDED, id="open"),
        pytest.param(after({**RECONCILED, "checks": [{**STEPS, "name": "data", "verdict": "changed"}]}), VERIFIED,
                     id="what has an item of its own is not told twice"),
    ],
    "members_loaded": [
        pytest.param(said(LOADED, 2), VERIFIED, id="all workers"),
        pytest.param(said(LOADED, 1, world=2), CHANGED, id="a worker is silent"),
        pytest.param(said({**LOADED, "digest": "sha256:" + "0" * 64}, 2), CHANGED, id="other bytes"),
        pytest.param(said({**LOADED, "step": 30}, 2), CHANGED, id="another step"),
        pytest.param(said(LOADED, 1, world=None), UNRECORDED, id="nobody says how many there are"),
    ],
}  # fmt: skip
GOOD = {"evaluated": CHANGED, "reconciled": UNRECORDED, "members_loaded": UNRECORDED}
ADVISORY = {"environment", "evaluated", "resources", "moving", "changes", "reconciled", "members_loaded"}
REQUIREMENTS = {
    "completed": "R088", "explainable": "R135", "evidence_location": "R136", "environment": "R071", "metrics": "R091",
    "checkpoints": "R095", "evaluated": "R119", "signed_apart": "R137",
    "resources": "R090", "moving": "R090", "changes": "R093", "reconciled": "R195", "members_loaded": "R235",
}  # fmt: skip


@pytest.mark.requirement("R090", "R135", "R136", "R137")
@pytest.mark.parametrize("name", CASES)
def test_of_a_good_run(whole, name):
    """A resumed, evaluated run: verified but for the evaluation's flag, each with evidence and owner."""
    item = whole.item("run", f"run.{name}")

    assert GOOD.get(name, VERIFIED) == item.verdict
    assert (name in ADVISORY, REQUIREMENTS[name]) == (not item.blocking, item.requirement)
    assert item.evidence or item.verdict == UNRECORDED
    assert item.owner


@pytest.mark.requirement("R090")
def test_order_of_inspection(whole):
    """Always the same three questions in the same order: alive, used, moving."""
    names = [item.id for item in checklist("run", whole.view, whole.policy)]

    assert ["run.completed", "run.resources", "run.metrics", "run.moving"] == names[:4]


@pytest.mark.parametrize(
    "reason", ["exit code 0 and the end marker", "exit code 0 and the configured step 40"]
)
def test_how_it_completed_is_said(whole, reason):
    """What is signed says what showed the end, not what could have shown it."""
    item = whole.item("run", "run.completed", changed(AttemptEnded, reason=reason))

    assert item.found.endswith(f", {reason}")
    assert "at the configured last step" in item.check


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
    item = whole.item("run", f"run.{name}", edit)

    assert verdict == item.verdict
    if verdict == UNRECORDED:
        assert "" == item.found


def test_every_item_has_cases(whole):
    """No item is left out of the tables."""
    assert {f"run.{name}" for name in CASES} == {
        item.id for item in checklist("run", whole.view, whole.policy)
    }


def test_drift_blocks_where_the_policy_stops(whole):
    """Under ``drift = "stop"`` the environment's item blocks."""
    drifted = changed(EnvironmentObserved, differences=[{"field": "torch"}])

    assert whole.item("run", "run.environment", drifted, environment=Environment(drift="stop")).blocking
    assert "torch" == whole.item("run", "run.environment", drifted).found


def test_losses_are_counted(whole):
    """What was lost and repeated is said in numbers."""
    found = whole.item("run", "run.explainable").found

    assert "2 attempt(s), 12 steps lost, 12 repeated, 0 stop rule(s) fired" == found


def test_attempt_without_an_end_is_named(whole):
    """The hint names the attempt."""
    item = whole.item("run", "run.explainable", drop_first(AttemptEnded))

    assert "Attempts without an end: 1." == item.hint


def test_signed_after_the_launch(whole):
    """A prepare decision that was made after the launch is no permission."""

    def later(view):
        decision = next(r for r in view.records if r.kind == "gate.decision")
        from dataclasses import replace

        from pretrain_archive.domain.run_view import RunView

        return RunView.of(
            view.run_uid, [*view.records, replace(decision, position=view.records[-1].position + 1)]
        )

    assert CHANGED == whole.item("run", "run.signed_apart", later).verdict
