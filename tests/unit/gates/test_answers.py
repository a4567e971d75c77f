"""What does not count as an answer: refused, recorded with its cause, and without a decision."""

from __future__ import annotations

import pytest
from tests.unit.gates.asked_run import CONF, policy_with

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError

OTHER = "sha256:" + "0" * 64


def refused(run, gate, outcome, cause, detail):
    """The answer was recorded as refused with its cause, and nothing was decided by it."""
    assert outcome.decision is None
    record, refusal = run.view().last(kinds.GateRefused)
    assert record.record_id == outcome.record.record_id
    assert (gate, cause) == (refusal.gate, refusal.cause)
    assert detail in refusal.detail
    assert refusal.current_digest == run.gate(gate).digest


@pytest.mark.requirement("R137", "R141")
@pytest.mark.parametrize(
    ("answer", "cause", "detail"),
    [
        pytest.param({"person": None}, "unsigned", "no authenticated person", id="nobody"),
        pytest.param({"person": ""}, "unsigned", "no authenticated person", id="empty name"),
        pytest.param({"person": "carol"}, "not_entitled", "carol may not answer; bob may", id="not entitled"),
        pytest.param({"person": "Bob"}, "not_entitled", "Bob may not answer", id="another spelling"),
        pytest.param({"person": "alice"}, "submitter", "alice may not answer", id="the submitter"),
        pytest.param({"dossier_digest": OTHER}, "stale", "the question was for other", id="stale"),
        pytest.param({"dossier_digest": None}, "stale", "names no dossier", id="no digest"),
        pytest.param({"dossier_digest": ""}, "stale", "names no dossier", id="empty digest"),
        pytest.param({"reason": None}, "invalid", "a reason of readable text is required", id="no reason"),
        pytest.param({"reason": " \n\t"}, "invalid", "a reason of readable text is required", id="blank reason"),
        pytest.param({"option": "Approve!"}, "invalid", "must be Approve or Reject", id="other option"),
        pytest.param({"option": ""}, "invalid", "must be Approve or Reject", id="no option"),
        pytest.param({"acknowledge": False}, "invalid", "not acknowledged: prepare.masking", id="not acknowledged"),
        pytest.param({"acknowledge": "true"}, "invalid", "not acknowledged", id="acknowledged as text"),
        pytest.param({"acknowledge": None}, "invalid", "not acknowledged", id="acknowledged by nothing"),
        pytest.param({"option": "Reject", "reason": ""}, "invalid", "a reason of readable", id="rejected, no reason"),
        pytest.param({"option": "Reject", "person": "alice"}, "submitter", "alice", id="rejected by the submitter"),
    ],
)  # fmt: skip
def test_prepare_refuses(run, answer, cause, detail):
    """Each fault of an answer is recorded with its cause, and nothing is decided."""
    run.until("declare").ask("prepare")

    outcome = run.answer("prepare", **answer)

    refused(run, "prepare", outcome, cause, detail)
    assert run.view().decision("prepare") is None
    assert not run.gate("prepare").approved


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        pytest.param({"outcome": None}, "an outcome is required", id="no outcome"),
        pytest.param({"outcome": ""}, "an outcome is required", id="empty outcome"),
        pytest.param({"outcome": "publish"}, "an outcome is required", id="unknown outcome"),
        pytest.param({"outcome": ["register"]}, "an outcome is required", id="outcome as a list"),
        pytest.param({"outcome": "register"}, "register needs release.rollback", id="register with gaps"),
    ],
)
def test_close_refuses(make_run, changes, detail):
    """Close needs an outcome, and one that the evidence allows."""
    made = make_run(conf=CONF | {"take_down": None}).until("run")
    made.ask("close")

    refused(made, "close", made.answer("close", **changes), "invalid", detail)


def test_gap_allows_other_outcomes(make_run):
    """With a release gap the run can still be continued or cleaned up."""
    made = make_run(conf=CONF | {"not_applicable": []}).until("run")
    made.ask("close")

    assert made.answer("close", outcome="continue").decision.outcome == "continue"


@pytest.mark.requirement("R133")
def test_blocked_dossier_is_not_approved(run):
    """A blocking item that is not verified refuses approval, and takes rejection."""
    run.until("declare")
    run.replace("quality_check", kinds.QualityReported, passed=False)
    run.ask("prepare")

    refused(run, "prepare", run.answer("prepare"), "invalid", "not verified: prepare.quality")
    assert run.answer("prepare", option="Reject").decision.decision == "reject"


def test_changed_after_the_question(run):
    """An answer to what was shown before a fact changed is stale."""
    run.until("declare")
    asked = run.ask("prepare")
    run.replace("snapshot", kinds.SnapshotCreated, manifest_digest=OTHER)

    outcome = run.answer("prepare", dossier_digest=asked.digest)

    refused(run, "prepare", outcome, "stale", "answer again from the gate view")
    assert outcome.refusal.shown_digest == asked.digest


def test_changed_policy(run):
    """A policy file that changed since the run was opened refuses every answer."""
    run.until("declare").ask("prepare")

    outcome = run.answer("prepare", policy=policy_with(deadline_hours="1"))

    refused(run, "prepare", outcome, "stale", "the policy demo.toml changed")


def test_closed_run(run):
    """A closed run takes no decision; the try is recorded."""
    run.until("declare").ask("prepare")
    run.close_run()

    refused(run, "prepare", run.answer("prepare"), "invalid", "the run is closed")


def test_everybody_is_admin_is_said(run):
    """Where Airflow authenticates nobody, the refusal says so."""
    run.until("declare").ask("prepare")

    outcome = run.answer("prepare", person="Anonymous", authentication="Simple (all admins: nobody)")

    refused(run, "prepare", outcome, "unsigned", "(Simple (all admins: nobody))")


def test_refusals_are_kept_one_by_one(run):
    """Several refused answers of one task try are several records."""
    run.until("declare").ask("prepare")
    for person in ("carol", "dave", "alice"):
        run.answer("prepare", person=person)

    found = [refusal.person_name for _, refusal in run.gate("prepare").refusals]

    assert ["carol", "dave", "alice"] == found


@pytest.mark.parametrize(
    ("gate", "stage", "text"),
    [
        pytest.param("run", "declare", "the run gate comes after the prepare gate", id="run before prepare"),
        pytest.param("close", "prepare", "the close gate comes after the run gate", id="close before run"),
        pytest.param("close", "declare", "comes after the prepare gate", id="close before all"),
    ],
)
def test_order(run, gate, stage, text):
    """A gate is not asked before those that come first."""
    run.until(stage)

    with pytest.raises(RefusedError, match=text):
        run.ask(gate)
    assert run.view().dossier(gate) is None


def test_stale_earlier_gate(run):
    """A prepare approval that is stale does not open the run gate."""
    run.until("evaluation")
    run.replace("snapshot", kinds.SnapshotCreated, version=2)

    with pytest.raises(RefusedError, match="prepare gate, which is not signed for what stands now"):
        run.ask("run")


def test_closed_run_is_not_asked(run):
    """A closed run puts no question."""
    run.until("declare")
    run.close_run()

    with pytest.raises(RefusedError, match="is closed"):
        run.ask("prepare")


def test_changed_policy_is_not_asked(run):
    """A changed policy refuses the question, not only the answer."""
    run.until("declare")

    with pytest.raises(RefusedError, match=r"policy demo\.toml changed") as raised:
        run.ask("prepare", policy=policy_with(max_minutes="99"))
    assert "new run" in raised.value.hint


def test_nobody_may_answer(make_run):
    """A gate whose only approver is the submitter is an error at once."""
    made = make_run(policy=policy_with(prepare='["alice"]')).until("declare")

    with pytest.raises(RefusedError, match=r"nobody may answer the prepare gate.*'alice'"):
        made.ask("prepare")
    assert made.view().waiting_gate() is None
