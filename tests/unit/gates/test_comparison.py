"""Comparison with the last approved run: what differs, and that it never changes afterwards."""

from __future__ import annotations

import pytest
from tests.unit.gates.asked_run import CONF, policy_with

from pretrain_archive.domain import kinds


def fields(run):
    """What the prepare dossier names as different."""
    return {d.field: (d.left, d.right) for d in run.gate("prepare").dossier.differences}


def test_first_run(run):
    """Without an earlier approved run nothing is compared, and the form says so."""
    run.until("declare")

    assert "" == run.gate("prepare").dossier.compared_with
    assert "No earlier approved run of this project." in run.ask("prepare").form.body


def test_same_request(make_run):
    """A second run with the same request differs in nothing."""
    first = make_run(1).until("prepare")
    second = make_run(2).until("declare")

    assert first.uid == second.gate("prepare").dossier.compared_with
    assert {"split"} >= fields(second).keys()


def test_what_differs(make_run):
    """Facts and single configuration keys are named with both values."""
    make_run(1).until("prepare")
    second = make_run(2, conf=CONF | {"objective": "Something else altogether"}).until("declare")
    config = second.view().latest(kinds.ConfigurationDeclared)
    second.replace("open_run", kinds.ConfigurationDeclared,
                   configuration={**config.configuration, "width": 256, "extra": None},
                   command=["python", "other.py"])  # fmt: skip

    found = fields(second)

    assert (CONF["objective"], "Something else altogether") == found["objective"]
    assert ("128", "256") == found["configuration.width"]
    assert ("", "None") == found["configuration.extra"]
    assert "python other.py" == found["command"][1]
    assert "configuration.layers" not in found
    body = second.ask("prepare").form.body
    assert "Differs from the last approved run / 与上次批准的运行不同: objective" in body


@pytest.mark.parametrize(
    "stage",
    [pytest.param("declare", id="not answered"), pytest.param("rejected", id="rejected")],
)
def test_only_approved_runs(make_run, stage):
    """A run that was not approved is not compared with."""
    first = make_run(1).until("declare")
    if stage == "rejected":
        first.ask("prepare")
        first.answer("prepare", option="Reject")
    second = make_run(2).until("declare")

    assert "" == second.gate("prepare").dossier.compared_with


def test_only_the_own_project(make_run):
    """Another project's approved run is not compared with."""
    make_run(1).until("prepare")
    other = make_run(2)
    original = other.add
    other.add = lambda task, payload, *edges, **more: original(  # type: ignore[method-assign]
        task,
        payload.model_copy(update={"project": "other"}) if isinstance(payload, kinds.RunOpened) else payload,
        *edges,
        **more,
    )

    assert "" == other.until("declare").gate("prepare").dossier.compared_with


def test_newest_approved_run(make_run):
    """Of several approved runs the one opened last is compared with."""
    make_run(1).until("prepare")
    second = make_run(2).until("prepare")
    make_run(3).until("declare")

    assert second.uid == make_run(4).until("declare").gate("prepare").dossier.compared_with


def test_pinned_against_later_approvals(make_run):
    """Approving another run after this one was opened does not change what this one is compared with."""
    first = make_run(1).until("declare")
    second = make_run(2).until("declare")
    before = second.ask("prepare").digest

    first.pass_gate("prepare")
    make_run(3).until("prepare")

    assert before == second.gate("prepare").digest
    assert second.answer("prepare", dossier_digest=before).decision is not None


def test_pinned_against_later_facts_of_the_other(make_run):
    """Facts that the compared run records later do not change this run's dossier."""
    first = make_run(1).until("prepare")
    second = make_run(2).until("prepare")
    before = second.gate("prepare").digest

    first.replace("snapshot", kinds.SnapshotCreated, version=7)
    first.replace("open_run", kinds.ConfigurationDeclared, command=["python", "other.py"])

    assert before == second.gate("prepare").digest
    assert second.gate("prepare").approved


def test_changed_policy_differs(make_run):
    """Another policy is a difference."""
    make_run(1).until("prepare")

    assert "policy" in fields(make_run(2, policy=policy_with(max_minutes="11")).until("declare"))
