"""What counts as an answer: recorded with person, digest, reason and edges, and noticed when it goes stale."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.gates.asked_run import ANSWERED_AT, policy_with

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.identity import Ref, format_time
from pretrain_archive.domain.records import Relation
from pretrain_archive.gates.answers import expire
from pretrain_archive.ledger.canonical import digest_of

LATER = format_time(ANSWERED_AT + timedelta(minutes=1))


def test_approval(run):
    """An approval keeps who, why, what was shown, what was acknowledged and every item's verdict."""
    asked = run.until("declare").ask("prepare")

    outcome = run.answer("prepare", reason="  Small and clear.\n")

    record, decision = run.view().decision("prepare")
    assert outcome.record == record
    assert ("approve", "bob", "bob") == (decision.decision, decision.person_id, decision.person_name)
    assert decision.reason == "Small and clear."
    assert (asked.digest, asked.record.record_id) == (decision.dossier_digest, decision.dossier_record)
    assert ["prepare.masking", "prepare.collected_at"] == decision.acknowledged
    assert decision.items["prepare.quality"] == "verified"
    assert decision.items["prepare.masking"] == "unrecorded"
    assert (False, None) == (decision.self_signed, decision.outcome)
    assert ("person", "bob") == (record.actor.type, record.actor.name)
    assert run.gate("prepare").approved


def test_edges(run):
    """The decision points to the person and to the run, under the digest that was signed."""
    asked = run.until("declare").ask("prepare")
    record = run.answer("prepare").record

    subject = Ref(type="decision", id=f"{run.uid}/prepare", version=asked.digest[7:])

    assert [
        (subject, Relation.WAS_ATTRIBUTED_TO, Ref(type="person", id="bob")),
        (subject, Relation.USED, Ref(type="run", id=run.uid)),
    ] == [(edge.subject, edge.relation, edge.object) for edge in record.edges]


def test_shown_dossier_has_the_signed_digest(run):
    """The stored document hashes to the digest that the decision names."""
    run.until("prepare")
    record, dossier = run.view().dossier("prepare")
    _, decision = run.view().decision("prepare")

    assert digest_of(record.payload["document"]) == dossier.digest == decision.dossier_digest


def test_rejection(run):
    """A rejection acknowledges nothing and approves nothing."""
    run.until("declare").ask("prepare")

    decision = run.answer("prepare", option="Reject", acknowledge=False, reason="Too dear.").decision

    assert ("reject", [], None) == (decision.decision, decision.acknowledged, decision.outcome)
    assert not run.gate("prepare").approved


@pytest.mark.parametrize("outcome", ["register", "continue", "clean_up"])
@pytest.mark.requirement("R139")
def test_close_outcome(run, outcome):
    """Close keeps the outcome that was chosen."""
    run.until("run").ask("close")

    assert outcome == run.answer("close", outcome=outcome).decision.outcome


def test_rejected_close_has_no_outcome(run):
    """An outcome that stands in the form of a rejected close is not kept."""
    run.until("run").ask("close")

    assert run.answer("close", option="Reject", outcome="register").decision.outcome is None


def test_self_signed(make_run):
    """Where duties are not separated the submitter may sign, and the decision says so."""
    policy = policy_with(separation_of_duties='"off"', prepare='["alice", "bob"]')
    made = make_run(policy=policy).until("declare")

    assert (("alice", "alice"), ("bob", "bob")) == made.ask("prepare").people
    assert made.answer("prepare", person="bob").decision.self_signed is False
    assert made.answer("prepare", person="alice").decision.self_signed is True


def test_submitter_is_left_out(make_run):
    """Under separation of duties the submitter is not asked; another one's numeric id comes from the policy."""
    policy = policy_with(prepare='["alice", "bob"]', decision_valid_hours='24\nuser_ids = { bob = "17" }')
    made = make_run(policy=policy).until("declare")

    asked = made.ask("prepare")

    assert (("bob", "17"),) == asked.people
    assert asked.deadline_seconds == 72 * 3600


def test_scheduled_run_has_no_submitter(make_run):
    """Where nobody is known to have submitted, nobody can be told apart: an error at once."""
    made = make_run(submitter=None).until("declare")

    with pytest.raises(RefusedError, match="who submitted the run is unknown"):
        made.ask("prepare")


def test_answer_without_a_question(run):
    """Signed in the gate view on evidence that was never asked about: what was shown is recorded first."""
    run.until("declare").ask("prepare")
    run.replace("quality_check", kinds.QualityReported, documents=61)

    decision = run.answer("prepare").decision

    record, dossier = run.view().dossier("prepare")
    assert decision.dossier_record == record.record_id
    assert dossier.digest == decision.dossier_digest
    assert run.gate("prepare").approved


def test_repeated_answer_is_one_decision(run):
    """The same answer taken again by the same task try is the same fact."""
    run.until("declare").ask("prepare")
    first = run.answer("prepare")

    again = run.answer("prepare")

    assert first.record == again.record
    assert len(list(run.view().all(kinds.GateDecision))) == 1


def test_repeated_refusal_is_one_record(run):
    """The same refused answer taken again by the same task try is the same fact."""
    run.until("declare").ask("prepare")

    assert run.answer("prepare", person="carol").record == run.answer("prepare", person="carol").record


def test_answer_after_a_decision(run):
    """A later answer is a decision of its own: both stay, the newest stands."""
    run.until("declare").ask("prepare")
    run.answer("prepare")
    run.answer("prepare", option="Reject", reason="I looked again.", at=LATER)

    decisions = [decision.decision for _, decision in run.view().all(kinds.GateDecision)]

    assert ["approve", "reject"] == decisions
    assert not run.gate("prepare").approved


@pytest.mark.parametrize(
    ("task", "model", "changes", "named"),
    [
        pytest.param("snapshot", kinds.SnapshotCreated, {"version": 2}, "snapshot: python-stdlib@1 → python-stdlib@2",
                     id="data"),
        pytest.param("open_run", kinds.ConfigurationDeclared, {"command": ["python", "other.py"]},
                     "command: python docker/trainer/train.py → python other.py", id="command"),
        pytest.param("open_run", kinds.EnvironmentDeclared, {"environment_digest": "sha256:" + "e" * 64},
                     "environment_digest: ", id="environment"),
        pytest.param("quality_check", kinds.QualityReported, {"passed": False}, "prepare.quality: verified",
                     id="quality"),
        pytest.param("quality_check", kinds.QualityReported, {}, "prepare.quality: evidence replaced", id="evidence"),
    ],
)  # fmt: skip
def test_stale(run, task, model, changes, named):
    """A bound fact that changes after the signature makes it stale, and the change is named."""
    run.until("prepare")

    run.replace(task, model, **changes)

    view = run.gate("prepare")
    assert not view.approved
    assert any(part.startswith(named) for part in view.stale), view.stale


def test_expiry(run):
    """An expiry is recorded once per try, says since when it was asked, and approves nothing."""
    asked = run.until("declare").ask("prepare")
    caller = run.caller("prepare_gate")

    first = expire(run.ledger, run_uid=run.uid, gate="prepare", actor=caller.actor, origin=caller.origin)
    again = expire(run.ledger, run_uid=run.uid, gate="prepare", actor=caller.actor, origin=caller.origin)

    assert first == again
    view = run.gate("prepare")
    assert view.expired[1].asked_at == asked.record.recorded_at
    assert view.expired[1].deadline_seconds == 72 * 3600
    assert (False, False, None) == (view.waiting, view.approved, view.decision)


def test_waiting(run):
    """A gate waits from its question to its decision; a refusal lets it wait on."""
    run.until("declare").ask("prepare")
    asked = run.gate("prepare").waiting
    run.answer("prepare", person="carol")
    refused = run.gate("prepare").waiting
    run.answer("prepare")

    assert (True, True, False) == (asked, refused, run.gate("prepare").waiting)
