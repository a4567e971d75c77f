"""A gate's answer acts: approval lets the run go on, rejection and expiry close it."""

from __future__ import annotations

import pytest
from tests.unit.gates.asked_run import ANSWERED

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.gates.judging import Answer
from pretrain_archive.services import gating
from pretrain_archive.services.runs import opened_of, policy_of, request_of, run_of, snapshot_of


def put(run, gate="prepare", **origin):
    """Put a gate's question."""
    caller = run.caller(f"{gate}_gate", **origin)
    return gating.put_question(run.ledger, caller, run.uid, gate, policy=run.policy, link="http://x")


def take(run, digest, gate="prepare", *, person="bob", option="Approve", **origin):
    """Take an answer."""
    answer = Answer(
        person_id=person, person_name=person, option=option, responded_at=ANSWERED, authentication="x",
        values={"dossier_digest": digest, "reason": "read", "acknowledge": True, "outcome": "continue"},
    )  # fmt: skip
    return gating.take(
        run.ledger, run.caller(f"{gate}_gate", **origin), run.uid, gate, policy=run.policy, answer=answer
    )


def test_approval_is_signed_at_once(run):
    """An approval leaves the run open, and a signed checkpoint covers it."""
    digest = put(run.until("declare")).digest

    outcome = take(run, digest)

    assert "open" == run.view().state
    assert outcome.decision.decision == "approve"
    assert run.ledger.seal().size == run.view().records[-1].position + 1
    assert run.permit().attempt == 1


@pytest.mark.case("G03")
def test_rejection_closes(run):
    """A rejection closes the run with who and why, without a package."""
    digest = put(run.until("declare")).digest

    take(run, digest, option="Reject")

    closed = run.view().latest(kinds.RunClosed)
    assert "closed" == run.view().state
    assert ("rejected", "prepare gate rejected by bob: read", None) == (
        closed.outcome, closed.reason, closed.package_digest,
    )  # fmt: skip


def test_refused_answer_leaves_the_question(run):
    """An answer that does not count closes nothing."""
    digest = put(run.until("declare")).digest

    outcome = take(run, digest, person="alice")

    assert outcome.refusal.cause == "submitter"
    assert "waiting_prepare" == run.view().state


@pytest.mark.case("G03")
def test_expiry_closes(run):
    """A deadline that passed closes the run as expired, never as approved."""
    put(run.until("declare"))

    gating.let_expire(run.ledger, run.caller("prepare_gate"), run.uid, "prepare")

    assert ("closed", "expired") == (run.view().state, run.view().latest(kinds.RunClosed).outcome)
    assert run.view().decision("prepare") is None
    assert run.view().latest(kinds.GateExpired).deadline_seconds == 72 * 3600


def test_answer_after_the_expiry(run):
    """An answer that comes after the expiry is recorded as refused."""
    digest = put(run.until("declare")).digest
    gating.let_expire(run.ledger, run.caller("prepare_gate"), run.uid, "prepare")

    outcome = take(run, digest, try_number=2)

    assert ("invalid", "the run is closed") == (outcome.refusal.cause, outcome.refusal.detail)
    assert run.view().decision("prepare") is None


ACTS = {
    "ask": put,
    "answer": lambda run, **origin: take(run, "sha256:" + "0" * 64, **origin),
    "expire": lambda run, **origin: gating.let_expire(run.ledger, run.caller("g", **origin), run.uid, "prepare"),
}  # fmt: skip


@pytest.mark.parametrize("origin", [{"dag_run_id": "manual__other"}, {"dag_id": "another_dag"}])
@pytest.mark.parametrize("act", ACTS)
def test_foreign_run(run, act, origin):
    """A run uid that was put into another DAG run's XCom by hand is refused, and nothing is written."""
    run.until("declare")
    before = run.view().records

    with pytest.raises(RefusedError, match="belongs to DAG run"):
        ACTS[act](run, **origin)
    assert before == run.view().records


@pytest.mark.parametrize("act", ["ask", "expire"])
def test_closed_run(run, act):
    """A closed run is neither asked nor expired."""
    run.until("declare")
    run.close_run()

    with pytest.raises(RefusedError, match="closed and frozen"):
        ACTS[act](run)


@pytest.mark.parametrize("act", ACTS)
def test_unknown_run(run, act):
    """A run that is not there is named with the step that makes it."""
    with pytest.raises(RefusedError, match="not in the ledger") as raised:
        ACTS[act](run)
    assert "'open_run'" in raised.value.hint


def test_readers(run):
    """Request, policy, opening and snapshot are read back from the records."""
    view = run.until("data").view()

    assert run_of(run.ledger, run.caller("x"), run.uid).records == view.records
    assert request_of(view).release_name == run.conf["release_name"]
    assert policy_of(view) == run.policy.policy
    assert ("alice", "python-stdlib") == (opened_of(view).submitter, snapshot_of(view).name)


def test_readers_of_nothing(run):
    """What is not recorded is refused, not guessed."""
    view = run.view()

    with pytest.raises(RefusedError, match="is not in the ledger"):
        opened_of(view)
    with pytest.raises(RefusedError, match="no recorded policy"):
        policy_of(view)
    with pytest.raises(RefusedError, match="has no data snapshot"):
        snapshot_of(view)


def test_closed_run_can_still_be_read(run):
    """A closed run is found where a step may follow the close."""
    run.until("open")
    run.close_run()

    assert "closed" == run_of(run.ledger, run.caller("x"), run.uid, open_only=False).state


@pytest.mark.parametrize("gate", ["run", "close"])
def test_a_gate_reads_the_run_once(run, gate):
    """However many sides of a long run a gate looks at, each of its records is fetched from the ledger once."""
    run.until("evaluation" if gate == "run" else "run")
    run.ledger = counted = Counted(run.ledger)
    digest = put(run, gate).digest
    first, counted.fetched = counted.fetched, []
    outcome = take(run, digest, gate)

    assert outcome.decision is not None, outcome.refusal
    for fetched in (first, counted.fetched):
        mine = [record.record_id for record in fetched if record.stream == run.uid]
        assert len(mine) == len(set(mine))


class Counted:
    """A ledger that notes each record that was fetched."""

    def __init__(self, ledger) -> None:
        self.ledger = ledger
        self.fetched = []

    def __getattr__(self, name) -> object:
        return getattr(self.ledger, name)

    def records(self, **question):
        """As the ledger."""
        for record in self.ledger.records(**question):
            self.fetched.append(record)
            yield record
