"""The review is a gate like the others: what does not count, what is kept, and what ends the run."""

from __future__ import annotations

import pytest
from tests.unit.gates.asked_run import AskedRun
from tests.unit.gates.test_review import stop

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.run_view import ALL_GATES
from pretrain_archive.gates.answers import expire

OTHER = "sha256:" + "0" * 64


def standing(run: AskedRun, gate: str) -> AskedRun:
    """A run that waits at ``gate``."""
    before = {"prepare": "declare", "review": "prepare", "run": "evaluation", "close": "run"}
    run.until(before[gate])
    if gate == "review":
        stop(run)
    run.ask(gate)
    return run


@pytest.mark.case("G03")
@pytest.mark.requirement("R137")
@pytest.mark.parametrize("gate", ALL_GATES)
@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        pytest.param({"person": None}, "unsigned", id="nobody"),
        pytest.param({"person": "carol"}, "not_entitled", id="not entitled"),
        pytest.param({"person": "alice"}, "submitter", id="the submitter"),
        pytest.param({"dossier_digest": OTHER}, "stale", id="a stale question"),
        pytest.param({"dossier_digest": None}, "stale", id="no digest"),
        pytest.param({"reason": " "}, "invalid", id="no reason"),
        pytest.param(
            {"authentication": "SimpleAuthManager (all admins)"}, "unsigned", id="everybody is admin"
        ),
    ],
)
def test_every_gate_refuses_alike(run, gate, answer, cause):
    """Who may not answer, or answers something else, is refused with the cause, and the gate stays open."""
    standing(run, gate)

    outcome = run.answer(gate, **{"outcome": {"review": "resume", "close": "continue"}.get(gate)} | answer)

    assert outcome.decision is None
    assert (gate, cause) == (outcome.refusal.gate, outcome.refusal.cause)
    assert f"waiting_{gate}" == run.view().state


@pytest.mark.case("G01")
@pytest.mark.parametrize("gate", ALL_GATES)
def test_every_gate_keeps_both_answers(run, gate):
    """Asked again, a gate shows what stands now; the first approval is kept, and does not count for the second."""
    standing(run, gate)
    outcome = {"review": "resume", "close": "continue"}.get(gate)
    first = run.answer(gate, outcome=outcome).decision
    run.replace("register_source", kinds.SourceRegistered, licence="CC-BY-4.0")
    if gate == "review":
        stop(run, 2)
    run.replace("declare", kinds.ConfigurationDeclared, base_model="another")
    run.replace("snapshot", kinds.SnapshotCreated, version=2)
    again = None
    try:
        again = run.ask(gate)
    except (
        RefusedError
    ):  # an earlier gate must be signed anew first: the old approval does not count there either
        assert gate in {"run", "close"}
        return
    second = run.answer(gate, option="Reject", reason="not this", try_number=2)

    assert not run.gate(gate).approved
    assert again.digest != first.dossier_digest
    kept = [(d.decision, d.dossier_digest) for _, d in run.view().all(kinds.GateDecision) if d.gate == gate]
    assert [("approve", first.dossier_digest), ("reject", again.digest)] == kept
    assert second.decision is not None


@pytest.mark.case("G05")
@pytest.mark.parametrize("gate", ALL_GATES)
def test_every_gate_is_told_by_the_ledger_alone(run, gate):
    """Person, time, decision, comment and digest are read from the ledger: no table of Airflow is asked."""
    standing(run, gate)
    decision = run.answer(gate, outcome={"review": "resume", "close": "continue"}.get(gate)).decision

    kept = run.view().decision(gate)[1]

    assert kept == decision
    assert ("bob", "All evidence was read.") == (kept.person_name, kept.reason)
    assert kept.dossier_digest == run.view().dossier(gate)[1].digest


@pytest.mark.parametrize("gate", ALL_GATES)
def test_every_gate_expires_and_rejects_into_a_closed_run(make_run, gate):
    """A deadline or a rejection ends the run, and it says which."""
    late, no = standing(make_run(1), gate), standing(make_run(2), gate)

    expire(late.ledger, run_uid=late.uid, gate=gate, actor=late.caller(gate).actor, origin=late.origin(gate))
    no.answer(gate, option="Reject")

    assert ("expired", "rejected") == tuple(r.view().latest(kinds.RunClosed).outcome for r in (late, no))
    assert ("closed", "closed") == (late.view().state, no.view().state)
