"""Nothing starts and nobody signs without right: every way around a gate ends without a process."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.conftest import DAG, House

from pretrain_archive.domain import kinds
from pretrain_archive.gates.service import gate_view, load_run

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1500)]


def nothing_started(house: House, dag_run_id: str) -> bool:
    """No launch token was consumed and no attempt started in any run of the DAG run."""
    kinds_of_launch = ["launch.intended", "attempt.started"]
    return not list(house.ledger().records(streams=house.runs(dag_run_id), kinds=kinds_of_launch))


@pytest.mark.requirement("R125", "R133")
def test_rejection_ends_the_run(house: House) -> None:
    """Bob rejects the prepare gate: the run closes as rejected and no process starts."""
    dag_run_id = house.trigger()
    question = house.air.wait_question(DAG, dag_run_id, "prepare_gate")
    assert house.sign(question, option="Reject", reason="too expensive for what it shows") == 200
    assert house.air.wait_run(DAG, dag_run_id) == "failed"
    closed = house.all(dag_run_id, kinds.RunClosed)[0]
    assert (closed.outcome, "too expensive" in closed.reason) == ("rejected", True)
    assert house.air.task_states(DAG, dag_run_id)["gpu_launch"] == "upstream_failed"
    assert nothing_started(house, dag_run_id)


@pytest.mark.requirement("R133")
def test_expiry_is_no_approval(house: House) -> None:
    """Nobody answers in time: recorded as expired, closed, nothing started."""
    dag_run_id = house.trigger(project="hurry")
    assert house.air.wait_run(DAG, dag_run_id) == "failed"
    assert [e.gate for e in house.all(dag_run_id, kinds.GateExpired)] == ["prepare"]
    assert house.all(dag_run_id, kinds.RunClosed)[0].outcome == "expired"
    assert house.all(dag_run_id, kinds.GateDecision) == []
    assert nothing_started(house, dag_run_id)


@pytest.mark.requirement("R178")
@pytest.mark.case("G03")
def test_only_entitled_people_answer(house: House) -> None:
    """The submitter and a person without entitlement get 403, and the gate stays open."""
    dag_run_id = house.trigger()
    question = house.air.wait_question(DAG, dag_run_id, "prepare_gate")
    assert house.sign(question, user="alice") == 403
    assert house.sign(question, user="carol") == 403
    assert house.sign(question, user="admin") == 403
    assert house.air.task_states(DAG, dag_run_id)["prepare_gate"] == "awaiting_input"
    assert house.all(dag_run_id, kinds.GateDecision) == []
    newest = max(record.position for record in house.view(dag_run_id).records)
    assert house.ledger().seal().size > newest, "what waits at a gate is anchored already"


@pytest.mark.parametrize(
    ("project", "words"),
    [
        pytest.param("alone", "nobody may answer", id="only the submitter may approve"),
        pytest.param("strangers", "none of them is a user", id="no approver exists"),
    ],
)
@pytest.mark.case("G03")
def test_gate_that_nobody_can_answer_is_an_error_at_once(house: House, project: str, words: str) -> None:
    """A gate without anybody to answer fails at its start instead of waiting for ever."""
    dag_run_id = house.trigger(project=project)
    assert house.air.wait_run(DAG, dag_run_id) == "failed"
    assert words in house.all(dag_run_id, kinds.RunFailed)[-1].reason


@pytest.mark.requirement("R125", "R141")
def test_marking_the_gate_as_success_launches_nothing(house: House) -> None:
    """A gate that is marked success by hand opens no door: the launch asks the ledger."""
    dag_run_id = house.trigger()
    house.air.wait_question(DAG, dag_run_id, "prepare_gate")
    path = house.air.task_path(DAG, dag_run_id, "prepare_gate").replace("/-1", "")
    assert house.air.request("alice", "PATCH", path, {"new_state": "success"}).status_code == 200
    assert house.air.wait_run(DAG, dag_run_id) == "failed"
    reason = house.all(dag_run_id, kinds.RunFailed)[-1].reason
    assert "the prepare gate has no decision in the ledger" in reason
    assert nothing_started(house, dag_run_id)


@pytest.mark.case("G01")
@pytest.mark.requirement("R023", "R025", "R184")
def test_cleared_run_is_a_new_run_and_its_stale_question_signs_nothing(house: House) -> None:
    """After clearing a closed DAG run the old form signs nothing; the fresh digest does; nothing is overwritten."""
    dag_run_id = house.trigger()
    question = house.air.wait_question(DAG, dag_run_id, "prepare_gate")
    assert house.sign(question, option="Reject", reason="first look: not yet") == 200
    assert house.air.wait_run(DAG, dag_run_id) == "failed"
    first = house.runs(dag_run_id)
    before = [record.stored for record in house.ledger().records(streams=first)]
    cleared = house.air.request(
        "alice",
        "POST",
        house.air.run_path(DAG, dag_run_id) + "/clear",
        {"dry_run": False, "only_failed": False},
    )
    assert cleared.status_code == 200
    again = house.air.wait_question(DAG, dag_run_id, "prepare_gate")
    second = house.runs(dag_run_id)
    assert second[1:] == first
    assert house.view(dag_run_id).opened.derived_from == first[0]  # type: ignore[union-attr]  # it waits at a gate
    assert again.params["dossier_digest"]["value"] == question.params["dossier_digest"]["value"], (
        "Airflow shows the old question"
    )
    assert house.sign(again) == 200
    refused = house.air.wait_question(DAG, dag_run_id, "prepare_gate")
    causes = [r.cause for r in house.all(dag_run_id, kinds.GateRefused)]
    assert causes == ["stale"]
    fresh = house.gate(dag_run_id, "prepare").digest
    assert (
        house.sign(refused, option="Reject", dossier_digest=fresh, reason="read the fresh one: still no")
        == 200
    )
    assert house.air.wait_run(DAG, dag_run_id) == "failed"
    assert house.all(dag_run_id, kinds.GateDecision)[0].dossier_digest == fresh
    assert [record.stored for record in house.ledger().records(streams=first)] == before
    old = gate_view(house.ledger(), load_run(house.ledger(), first[0]), "prepare")
    assert old.decision is not None


BAD: list[Any] = [
    pytest.param({"project": "no-such"}, "project", id="unknown project"),
    pytest.param({"project": "typo"}, "did you mean 'deadline_hours'", id="policy with a typo"),
    pytest.param({"licence": ""}, "licence", id="source without a licence"),
    pytest.param({"source": "/no/such/folder"}, "source", id="unreadable source"),
    pytest.param({"budget_minutes": 600}, "budget_minutes", id="above the quota"),
    pytest.param({"train_command": ["no-such-trainer"]}, "train_command", id="no such command"),
    pytest.param({"objective": "        ab"}, "objective", id="form value too short"),
]


@pytest.fixture(scope="module")
def bad_runs(house: House) -> dict[str, str]:
    """All bad requests, triggered together."""
    return {case.id: house.air.trigger("alice", DAG, _with(case.values[0])) for case in BAD}


def _with(changes: dict[str, Any]) -> dict[str, Any]:
    from tests.e2e.conftest import conf

    return conf(**changes)


@pytest.mark.requirement("R026", "R133")
@pytest.mark.parametrize(("changes", "words"), BAD)
def test_bad_input_is_a_failed_run_that_names_the_field(
    house: House,
    bad_runs: dict[str, str],
    changes: dict[str, Any],
    words: str,
    request: pytest.FixtureRequest,
) -> None:
    """Each fault ends at the earliest task, is recorded with its reason, and leaves nothing half-written."""
    assert changes
    dag_run_id = bad_runs[request.node.callspec.id]
    assert house.air.wait_run(DAG, dag_run_id) == "failed"
    failed = house.all(dag_run_id, kinds.RunFailed)[-1]
    assert words in failed.reason
    assert failed.task_id in {"open_run", "register_source"}
    assert house.view(dag_run_id).state == "failed"
