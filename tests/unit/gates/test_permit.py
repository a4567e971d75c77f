"""Permission to launch: derived from the ledger alone; everything that forbids it is named."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.gates.asked_run import ANSWERED, EXPIRES, NOW, policy_with

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.gates.permit import derive_permit
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.factory import open_ledger

OTHER = "sha256:" + "0" * 64
LATE = NOW + timedelta(hours=24)


def refusal(run, **changes):
    """Why no token is derived; nothing is written by asking."""
    before = [record.record_id for record in run.view().records]
    with pytest.raises(RefusedError, match="no launch") as raised:
        run.permit(**changes)
    assert before == [record.record_id for record in run.view().records]
    assert raised.value.exit_code == 4
    return "; ".join(raised.value.reasons)


@pytest.mark.parametrize("stage", ["open", "data", "declare"])
def test_no_decision(run, stage):
    """Without an answer at the prepare gate nothing is launched, however much else is there."""
    run.until(stage)
    if stage == "declare":
        run.ask("prepare")
        run.answer("prepare", person="carol")

        assert "the prepare gate has no decision in the ledger" == refusal(run)
        return
    with pytest.raises(RefusedError, match="the prepare gate has no decision"):
        derive_permit(run.ledger, run.view(), dag_run_id=run.dag_run_id, policy=run.policy, now=NOW,
                      observed=_observed())  # fmt: skip


def _observed():
    from pretrain_archive.gates.permit import Observed

    return Observed(code_digest=OTHER, environment_digest=OTHER)


def test_unknown_run(run):
    """A run that is not in the ledger is refused."""
    with pytest.raises(RefusedError, match="is not opened in the ledger"):
        derive_permit(
            run.ledger, run.view(), dag_run_id="x", policy=run.policy, now=NOW, observed=_observed()
        )


def test_rejected(run):
    """A rejection is no permission."""
    run.until("declare").ask("prepare")
    run.answer("prepare", option="Reject")

    assert "the prepare gate was rejected by bob" in refusal(run)


STALE = "stale approval, changed since bob signed: "


@pytest.mark.case("G05")
@pytest.mark.parametrize(
    ("task", "model", "changes", "named"),
    [
        pytest.param("snapshot", kinds.SnapshotCreated, {"version": 2}, f"{STALE}snapshot: ", id="snapshot version"),
        pytest.param("snapshot", kinds.SnapshotCreated, {"manifest_digest": OTHER}, f"{STALE}snapshot_digest: ",
                     id="snapshot bytes"),
        pytest.param("snapshot", kinds.SplitCreated, {"split_digest": OTHER}, f"{STALE}split: ", id="split"),
        pytest.param("open_run", kinds.ConfigurationDeclared, {"configuration_digest": OTHER},
                     f"{STALE}configuration_digest: ", id="configuration"),
        pytest.param("open_run", kinds.EnvironmentDeclared, {"environment_digest": OTHER},
                     f"{STALE}environment_digest: ", id="environment"),
        pytest.param("open_run", kinds.ConfigurationDeclared, {"command": ["sh"]}, f"{STALE}command: ", id="command"),
        pytest.param("quality_check", kinds.QualityReported, {"passed": False}, "prepare.quality is changed",
                     id="quality"),
    ],
)  # fmt: skip
def test_changed_after_signing(run, task, model, changes, named):
    """What was signed is what runs: every later change is named."""
    run.until("prepare")

    run.replace(task, model, **changes)

    assert named in refusal(run)


def test_budget_raised_after_signing(run):
    """A raised budget is not what was signed."""
    run.until("prepare")
    config = run.view().latest(kinds.ConfigurationDeclared)
    run.replace(
        "open_run", kinds.ConfigurationDeclared, budget=config.budget.model_copy(update={"minutes": 9999.0})
    )

    assert f"{STALE}budget: " in refusal(run)


def test_code_changed(run):
    """Code that is not what was declared is refused."""
    run.until("prepare")

    assert "the training code changed after it was signed" == refusal(run, code_digest=OTHER)


def test_environment_drift(make_run):
    """Drift of the environment stops a launch where the policy says so, and only there."""
    strict = make_run(1, policy=policy_with(drift='"stop"')).until("prepare")
    lenient = make_run(2).until("prepare")

    assert "the environment changed after it was signed" == refusal(strict, environment_digest=OTHER)
    assert OTHER == lenient.permit(environment_digest=OTHER).token["environment_digest"]


def test_policy_changed(run):
    """A policy file that changed after the run was opened is refused."""
    run.until("prepare")

    assert "the policy demo.toml changed since the run was opened" == refusal(
        run, policy=policy_with(max_minutes="9")
    )


def test_approver_not_entitled(run):
    """A decision that stands in the name of somebody who may not sign counts for nothing."""
    run.until("prepare")
    record, decision = run.view().decision("prepare")
    forged = decision.model_copy(update={"person_name": "alice", "person_id": "alice"})
    run.add("by_hand", forged, person="alice")

    assert "alice is not entitled to sign" in refusal(run)
    assert record.position < run.view().decision("prepare")[0].position


def test_decision_about_no_dossier(run):
    """A decision whose dossier is not in the ledger is stale."""
    run.until("declare").ask("prepare")
    digest = run.gate("prepare").digest
    run.add("prepare_gate", kinds.GateDecision(
        gate="prepare", decision="approve", person_id="bob", person_name="bob", reason="yes", dossier_digest=digest,
        dossier_record="rec_none", responded_at=ANSWERED), person="bob")  # fmt: skip

    assert "the dossier that was signed is not in the ledger" in refusal(run)


def test_expired_before_the_first_attempt(run):
    """An approval that nobody used in time is no permission any more."""
    run.until("prepare")

    assert f"the approval expired at {EXPIRES}" == refusal(run, now=LATE)
    run.permit(now=LATE - timedelta(hours=1))


def test_expiry_binds_later_attempts_too(run):
    """A resumed attempt needs an approval that still holds."""
    run.until("prepare")
    run.launched(1)
    run.ended(1)

    assert "the approval expired" in refusal(run, now=LATE)


def test_attempts_used_up(run):
    """Not more attempts than were signed."""
    run.until("prepare")
    for attempt in (1, 2, 3):
        run.launched(attempt)
        run.ended(attempt)

    assert "all 3 attempts are used" == refusal(run)


def test_budget_used_up(run):
    """Not more minutes than were signed."""
    run.until("prepare")
    run.launched()
    run.ended(seconds=599.9)
    assert run.permit().token["minutes_left"] == pytest.approx(0.002, abs=0.001)
    run.launched(2)
    run.ended(2, seconds=0.1)

    assert "the budget of 10 minutes is used up" == refusal(run)


def test_open_attempt(run):
    """While an attempt has no end nothing else is started."""
    run.until("prepare")
    run.launched()

    assert "attempt 1 has no recorded end" == refusal(run)


def test_other_dag_run(run):
    """A run uid that was put into another DAG run's XCom is refused."""
    run.until("prepare")

    assert f"the run belongs to DAG run {run.dag_run_id!r}" == refusal(run, dag_run_id="manual__other")


def test_closed_run(run):
    """A closed run launches nothing."""
    run.until("prepare")
    run.close_run()

    assert "the run is closed" == refusal(run)


def test_every_fault_is_named(run):
    """One refusal names everything at once."""
    run.until("prepare")
    run.launched()

    found = refusal(run, code_digest=OTHER, dag_run_id="x", policy=policy_with(max_minutes="9"))

    for part in (
        "belongs to DAG run",
        "training code changed",
        "policy demo.toml changed",
        "no recorded end",
    ):
        assert part in found


def test_decision_not_signed_yet(run, house):
    """Where the key is out of reach, a decision counts only once the signer covered it."""
    run.until("declare")
    run.ledger.seal()
    run.pass_gate("prepare")
    reader = open_ledger(house.url, signing_key=None, anchors=[], public_keys=[house.public])
    house.opened.append(reader)

    def derive():
        return derive_permit(reader, load_run(reader, run.uid), dag_run_id=run.dag_run_id, policy=run.policy,
                             observed=run.observed(), now=NOW)  # fmt: skip

    with pytest.raises(RefusedError, match="no signed checkpoint covers the prepare decision yet"):
        derive()
    covered = run.ledger.seal()
    assert covered.root == derive().checkpoint.root


def test_no_signature_at_all(run, house):
    """A log that nobody signed permits nothing."""
    run.until("prepare")
    reader = open_ledger(house.url, signing_key=None, anchors=[])
    house.opened.append(reader)

    with pytest.raises(RefusedError, match="no signed checkpoint covers the prepare decision yet"):
        derive_permit(reader, load_run(reader, run.uid), dag_run_id=run.dag_run_id, policy=run.policy,
                      observed=run.observed(), now=NOW)  # fmt: skip
