"""A platform change: who is touched comes from the ledger, no stage skips the check, upgraded is not accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.governed import Grounds, by

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError, InputError, RefusedError, StreamMovedError
from pretrain_archive.domain.governance_changes import ChangeView
from pretrain_archive.services.platform_changing import (
    Proposal,
    accept,
    change_document,
    change_of,
    changes,
    propose,
    roll_back,
    verify,
    widen,
)

OLD, NEW = {"packages": {"torch": "2.9.0"}, "node": "n1"}, {"packages": {"torch": "2.10.0"}, "node": "n1"}
SUPPORT = """
[platform.support.framework]
supplier = "ACME"
covers = "faults of the framework within two working days"
until = 2020-01-31
warn_days = 30
inside = "bob"
"""


@pytest.fixture
def grounds(tmp_path: Path) -> Grounds:
    """A ledger; project p is touched, project lab is where changes are tried."""
    made = Grounds(tmp_path)
    made.policy("p", SUPPORT, model_owner='"owen"')
    made.policy("lab")
    return made


def proposal(**changes: Any) -> Proposal:
    """A complete proposal, with changes."""
    values: dict[str, Any] = {
        "component": "framework", "where": "packages.torch", "before": "2.9.0", "after": "2.10.0", "key": True,
        "reason": "a fault in the collectives is mended", "regression": "drill:worker_exit", "stages": (0.2, 1.0),
        "projects": ("lab",), "rollback": "the image of before", "limits": ("not tried on more than 8 nodes",),
    }  # fmt: skip
    return Proposal(**values | changes)


def proposed(grounds: Grounds, **changes: Any) -> ChangeView:
    """A change that is on record."""
    record = propose(grounds.ledger, grounds.lookup, proposal(**changes), by("pat"))
    return change_of(grounds.ledger, str(record.payload["change_id"]))


def again(grounds: Grounds, change: ChangeView) -> ChangeView:
    """The change as it stands now."""
    return change_of(grounds.ledger, change.change_id)


def drilled(grounds: Grounds, environment: dict[str, Any] | None = NEW, *, injected: str = "worker_exit",
            passed: bool = True, project: str = "lab", nodes: tuple[str, ...] = (), state: str | None = "completed",
            **changes: Any) -> str:  # fmt: skip
    """A drill of two attempts on an environment."""
    uid = grounds.open(project)
    grounds.attempt(uid, environment, state="failed", nodes=nodes)
    grounds.attempt(uid, environment, number=2, nodes=nodes, state=state)
    grounds.drill(uid, injected, passed=passed, **changes)
    return uid


def verified(grounds: Grounds, **changes: Any) -> ChangeView:
    """A change whose scenario came through."""
    change = proposed(grounds, **changes)
    verify(grounds.ledger, change, grounds.view(drilled(grounds)), by("pat"))
    return again(grounds, change)


@pytest.mark.requirement("R228", "R229", "R230", "R233")
def test_from_the_proposal_to_acceptance(grounds: Grounds) -> None:
    """Each step stands on the one before; the platform is upgraded before anybody accepted, and says so."""
    grounds.attempt(grounds.open("p"), OLD)
    change = proposed(grounds)
    assert ("proposed", ("p",)) == (change.state, change.projects)
    verify(grounds.ledger, change, grounds.view(drilled(grounds)), by("pat"))
    for share in (0.2, 1.0):
        widen(grounds.ledger, again(grounds, change), by("pat"), share=share)
    upgraded = change_document(again(grounds, change))
    assert ("upgraded", ["p"], []) == tuple(upgraded[k] for k in ("state", "not_accepted", "accepted"))
    uid = grounds.open("p")
    grounds.attempt(uid, NEW)
    accept(grounds.ledger, grounds.lookup, again(grounds, change), grounds.view(uid), by("owen"), project="p")
    done = change_document(again(grounds, change))

    assert ([], "model_owner", uid) == (
        done["not_accepted"], done["accepted"][0]["role"], done["accepted"][0]["run_uid"]
    )  # fmt: skip
    assert [change.change_id] == [c.change_id for c in changes(grounds.ledger)]
    states = {s["project"]: s["state"] for s in done["proposed"]["support"]}
    assert {"p": "expired", "lab": "unrecorded"} == states
    assert {f"attempt {n}: packages.torch 2.10.0 in 2 places" for n in (1, 2)} <= set(
        done["verified"]["found"]
    )


@pytest.mark.requirement("R229")
def test_who_is_touched(grounds: Grounds) -> None:
    """Runs last seen on the old value are touched, others not; of whom nobody looked at nothing is claimed."""
    touched, moved, unseen, declared = (grounds.open("p") for _ in range(4))
    closed = grounds.open("q")
    grounds.attempt(touched, OLD, state=None)
    grounds.attempt(moved, OLD, state="failed")
    grounds.attempt(moved, NEW, number=2)
    grounds.attempt(unseen, None)
    grounds.add(declared, kinds.EnvironmentDeclared(environment=OLD, environment_digest="sha256:" + "0" * 64))
    grounds.attempt(closed, OLD)
    grounds.add(closed, kinds.RunClosed(outcome="rejected", reason="x"))
    told = proposed(grounds).proposed

    assert {touched: True, declared: True, closed: False} == {a.run_uid: a.open for a in told.affected}
    assert [unseen] == told.unrecorded_runs
    assert 5 == told.looked_at
    assert [0, 1] == next(a.workers for a in told.affected if a.run_uid == touched)


@pytest.mark.requirement("R229")
def test_old_closed_runs_are_not_asked(grounds: Grounds) -> None:
    """A closed run from before the span is left out, an open one never."""
    for close in (False, True):
        uid = grounds.open("p")
        grounds.attempt(uid, OLD)
        if close:
            grounds.add(uid, kinds.RunClosed(outcome="rejected", reason="x"))

    told = proposed(grounds, recent_days=-1).proposed

    assert ([True], 1) == ([a.open for a in told.affected], told.looked_at)


@pytest.mark.requirement("R228")
@pytest.mark.parametrize(
    ("component", "where", "before", "environment"),
    [
        pytest.param("scheduling_policy", "policy.quotas.max_minutes", "10", {}, id="scheduling policy"),
        pytest.param(
            "image", "", "r/t@sha256:aa", {"image": "mirror/t@sha256:aa"}, id="image, by its digest"
        ),
        pytest.param("framework", "packages.torch", "2.9.0", OLD, id="framework"),
        pytest.param("driver", "", "550.1", {"stack": {"driver": "550.1"}}, id="driver"),
        pytest.param("storage", "limits.a.b/c", "7", {"limits": {"a.b/c": 7}}, id="storage, a key with dots"),
        pytest.param("network", "stack.nccl", "2.20", {"stack": {"nccl": "2.20"}}, id="network"),
        pytest.param("platform", "platform.release", "6.1", {"platform": {"release": "6.1"}}, id="platform"),
    ],
)
def test_every_component(
    grounds: Grounds, component: str, where: str, before: str, environment: dict[str, Any]
) -> None:
    """Each kind of change finds the runs that it touches."""
    uid = grounds.open("p")
    grounds.attempt(uid, environment or OLD)

    told = proposed(grounds, component=component, where=where, before=before, after="new").proposed

    assert [uid] == [a.run_uid for a in told.affected]


@pytest.mark.requirement("R229", "R230")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param({"after": "2.9.0"}, "the same value", id="nothing changes"),
        pytest.param({"stages": (1.0,)}, "at least two rising shares", id="no gradual roll-out"),
        pytest.param({"stages": (0.5, 0.2, 1.0)}, "rising", id="stages that fall"),
        pytest.param({"stages": (0.2, 0.9)}, "the last one is 1", id="stages that never end"),
        pytest.param({"projects": ()}, "no controlled scope", id="tried nowhere"),
        pytest.param({"key": False}, "a key upgrade: .*--key", id="a key upgrade that is none"),
        pytest.param({"rollback": ""}, "how it is taken back: --rollback", id="no way back"),
        pytest.param({"limits": ()}, "known not to work.*: --limit", id="no limits"),
        pytest.param({"component": "weather"}, "is none of", id="no component"),
        pytest.param({"where": ""}, "is not known by itself", id="no place"),
        pytest.param({"regression": "drill:rain"}, "neither drill", id="no such fault"),
        pytest.param({"regression": "run:run_x"}, "is not in the ledger", id="no such run"),
        pytest.param({"reason": " "}, "says nothing", id="no reason"),
        pytest.param({"recent_days": 1e18}, "is no span of days", id="more days than there are"),
        pytest.param({"recent_days": float("nan")}, "is no span of days", id="no number of days"),
        pytest.param({"stages": (float("nan"), 1.0)}, "rising", id="a stage that is no number"),
    ],
)
def test_proposals_that_are_refused(grounds: Grounds, changes: dict[str, Any], told: str) -> None:
    """What a proposal lacks is named, and nothing is recorded."""
    with pytest.raises(ArchiveError, match=told):
        proposed(grounds, **changes)

    assert [] == list(grounds.ledger.records(kinds=["platform.proposed"]))


@pytest.mark.requirement("R229")
def test_evidence_that_does_not_verify(grounds: Grounds) -> None:
    """A drill of another fault, half on the old value, half unseen, failed, empty, earlier or elsewhere: nothing."""
    early = drilled(grounds)
    change = proposed(grounds)
    mixed = grounds.open("lab")
    grounds.attempt(mixed, OLD, number=2, workers=1, state="completed")
    grounds.add(mixed, kinds.EnvironmentObserved(
        moment="start", worker=1, environment=NEW, environment_digest="sha256:" + "0" * 64
    ), 2)  # fmt: skip
    grounds.drill(mixed)
    half, moved, silent, alone = (grounds.open("lab") for _ in range(4))
    grounds.attempt(half, OLD, state="failed")
    grounds.attempt(half, NEW, number=2)
    for uid, first, second in ((moved, OLD, NEW), (silent, NEW, {"node": "n1"})):
        grounds.attempt(uid, NEW, state="failed")
        grounds.attempt(uid, first, number=2, workers=1)
        grounds.look(uid, second, number=2, worker=int(uid == silent))
    for uid in (half, moved, silent):
        grounds.drill(uid)
    grounds.attempt(alone, NEW, state="failed")
    grounds.drill(alone, recovered_attempt=None)
    unfinished, empty = drilled(grounds, state=None), drilled(grounds, checks=[])
    cases = {
        "attempt 1 was launched before the change was proposed": early,
        "worker 0 of attempt 1 had packages.torch 2.9.0": half,
        "worker 0 of attempt 2 had packages.torch 2.9.0": moved,
        "packages.torch of attempt 2 is unrecorded in worker 1": silent,
        "no attempt took over": alone,
        "its attempt 2 has no end": unfinished,
        "did not pass: detected, stopped, rescheduled, loaded, continued, reconciled": empty,
        "injected node_lost, and worker_exit was named": drilled(grounds, injected="node_lost"),
        "did not pass: detected": drilled(grounds, passed=False),
        "had packages.torch 2.9.0, not 2.10.0": drilled(grounds, OLD),
        "packages.torch of attempt 2 is unrecorded": drilled(grounds, None),
        "worker 0 of attempt 2 had": mixed,
        "outside the controlled scope": drilled(grounds, project="p"),
        "no drill was filed": grounds.open("lab"),
    }
    for told, uid in cases.items():
        with pytest.raises(RefusedError) as raised:
            verify(grounds.ledger, change, grounds.view(uid), by("pat"))
        assert any(told in reason for reason in raised.value.reasons), (told, raised.value.reasons)

    assert "proposed" == again(grounds, change).state


@pytest.mark.requirement("R229")
def test_scope_of_nodes(grounds: Grounds) -> None:
    """Where the scope names nodes, evidence ran on these and no others."""
    change = proposed(grounds, projects=(), nodes=("n1",))
    elsewhere = grounds.view(drilled(grounds, nodes=("n2", "n1")))

    with pytest.raises(RefusedError, match="nodes outside the controlled scope: n2"):
        verify(grounds.ledger, change, elsewhere, by("pat"))
    verify(grounds.ledger, change, grounds.view(drilled(grounds, nodes=("n1", "n1"))), by("pat"))

    assert "verified" == again(grounds, change).state


@pytest.mark.requirement("R229")
def test_a_reference_run_done_again(grounds: Grounds) -> None:
    """The same run on the new value verifies; one that differs in more than the environment does not."""
    reference = grounds.open("lab")
    grounds.attempt(reference, OLD)
    change = proposed(grounds, regression=f"run:{reference}")
    other, failed, good = (grounds.open("lab", configuration={"lr": lr}) for lr in (0.2, 0.1, 0.1))
    for uid, state in ((other, "completed"), (failed, "failed"), (good, "completed")):
        grounds.attempt(uid, NEW, state=state)
    for uid, told in (
        (other, "differs from the reference run in configuration"),
        (failed, "attempt 1 failed"),
    ):
        with pytest.raises(RefusedError, match=told):
            verify(grounds.ledger, change, grounds.view(uid), by("pat"))

    verify(grounds.ledger, change, grounds.view(good), by("pat"))

    assert "verified" == again(grounds, change).state


@pytest.mark.requirement("R229")
def test_no_stage_skips_anything(grounds: Grounds) -> None:
    """Before the verification there is no stage; then one after the other; after the last there is none."""
    change = proposed(grounds)
    with pytest.raises(RefusedError, match="no stage skips it"):
        widen(grounds.ledger, change, by("pat"), share=0.2)
    verify(grounds.ledger, change, grounds.view(drilled(grounds)), by("pat"))
    with pytest.raises(RefusedError, match=r"the next stage is 0\.2"):
        widen(grounds.ledger, again(grounds, change), by("pat"), share=1.0)
    first = again(grounds, change)
    widen(grounds.ledger, first, by("pat"), share=0.2)
    with pytest.raises(StreamMovedError):  # two persons at once: one of them has not seen the other
        widen(grounds.ledger, first, by("eve"), share=0.2)
    with pytest.raises(RefusedError, match="is being rolled out already"):
        verify(grounds.ledger, again(grounds, change), grounds.view(drilled(grounds)), by("pat"))
    widen(grounds.ledger, again(grounds, change), by("pat"), share=1.0)
    with pytest.raises(RefusedError, match="every stage is reached"):
        widen(grounds.ledger, again(grounds, change), by("pat"), share=1.0)

    assert [0.2, 1.0] == [w.share for w in again(grounds, change).widened]


@pytest.mark.requirement("R229")
def test_failures_on_the_new_value_hold_a_stage_up(grounds: Grounds) -> None:
    """An attempt that broke off on the new value is seen; going on needs a reason, which is kept."""
    change = verified(grounds)
    uid = grounds.open("p")
    grounds.attempt(uid, NEW, state="failed")
    with pytest.raises(RefusedError, match=rf"attempt 1 of {uid} on 2\.10\.0 failed"):
        widen(grounds.ledger, change, by("pat"), share=0.2)

    record = widen(grounds.ledger, change, by("pat"), share=0.2, despite="the program's own fault")

    assert "the program's own fault" == record.payload["despite"]
    assert [(uid, "failed")] == [(s["run_uid"], s["state"]) for s in record.payload["seen"]]


@pytest.mark.requirement("R229")
def test_failures_that_come_later_hold_a_stage_up(grounds: Grounds) -> None:
    """What still ran at the stage before and broke off since is not passed over, nor is a run of long ago."""
    old = grounds.open("p")
    change = proposed(grounds, recent_days=-1)
    grounds.attempt(old, NEW, state="failed")
    grounds.add(old, kinds.RunClosed(outcome="rejected", reason="x"))
    uid = grounds.open("p")
    grounds.attempt(uid, NEW, state=None)
    verify(grounds.ledger, change, grounds.view(drilled(grounds)), by("pat"))
    with pytest.raises(RefusedError) as raised:
        widen(grounds.ledger, again(grounds, change), by("pat"), share=0.2)
    assert (f"attempt 1 of {old} on 2.10.0 failed",) == raised.value.reasons
    first = widen(grounds.ledger, again(grounds, change), by("pat"), share=0.2, despite="a full disk")
    assert {old: "failed", uid: None} == {s["run_uid"]: s["state"] for s in first.payload["seen"]}
    grounds.end(uid, "failed")

    with pytest.raises(RefusedError) as raised:
        widen(grounds.ledger, again(grounds, change), by("pat"), share=1.0)
    assert (f"attempt 1 of {uid} on 2.10.0 failed",) == raised.value.reasons


@pytest.mark.requirement("R228", "R229")
def test_a_policy_that_is_the_change(grounds: Grounds) -> None:
    """Every attempt under the new policy is seen, not the newest alone."""
    change = proposed(grounds, component="scheduling_policy", where="policy.quotas.max_minutes", before="10",
                      after="7", key=False)  # fmt: skip
    grounds.policy("lab", max_minutes="7")
    verify(grounds.ledger, change, grounds.view(drilled(grounds)), by("pat"))
    grounds.policy("p", max_minutes="7")
    uid = grounds.open("p")
    grounds.attempt(uid, None, state="failed")
    grounds.attempt(uid, None, number=2)

    with pytest.raises(RefusedError, match=f"attempt 1 of {uid} on 7 failed"):
        widen(grounds.ledger, again(grounds, change), by("pat"), share=0.2)


@pytest.mark.requirement("R229")
def test_members_that_never_reported(grounds: Grounds) -> None:
    """On a cluster every member that was asked for has to have shown the new value."""
    change = proposed(grounds)
    for target, refused in (("kubernetes", True), ("local", False)):
        uid = grounds.open("lab", nodes=3)
        for number, state in ((1, "failed"), (2, "completed")):
            grounds.attempt(uid, NEW, number=number, state=state, target=target)
        grounds.drill(uid)
        if refused:
            with pytest.raises(RefusedError, match="attempt 1 is unrecorded in worker 2"):
                verify(grounds.ledger, change, grounds.view(uid), by("pat"))
        else:
            verify(grounds.ledger, change, grounds.view(uid), by("pat"))


@pytest.mark.requirement("R230")
def test_who_accepts_and_on_what(grounds: Grounds) -> None:
    """The owner of the tasks, on a run of theirs that came through on the new value; nobody and nothing else."""
    grounds.attempt(grounds.open("p"), OLD)
    change = proposed(grounds)
    with pytest.raises(RefusedError, match="has not come through"):
        accept(
            grounds.ledger, grounds.lookup, change, grounds.view(grounds.open("p")), by("owen"), project="p"
        )
    verify(grounds.ledger, change, grounds.view(drilled(grounds)), by("pat"))
    change = again(grounds, change)
    old, broken, other, drill = (grounds.open(name) for name in ("p", "p", "lab", "p"))
    grounds.attempt(old, OLD)
    grounds.attempt(broken, NEW, state="failed")
    grounds.attempt(other, NEW)
    grounds.attempt(drill, NEW)
    grounds.drill(drill)
    for uid, person, told in (
        (old, "owen", r"had packages\.torch 2\.9\.0"),
        (broken, "owen", "attempt 1 failed"),
        (other, "owen", "is no run of project p"),
        (drill, "owen", "is a drill"),
        (other, "bob the platform owner", "neither model_owner nor acceptance"),
    ):
        with pytest.raises(RefusedError, match=told):
            accept(grounds.ledger, grounds.lookup, change, grounds.view(uid), by(person), project="p")

    assert ("p",) == again(grounds, change).not_accepted


@pytest.mark.requirement("R230")
def test_rolled_back(grounds: Grounds) -> None:
    """The way back of the proposal is kept with what ran meanwhile; then nothing goes on, and a new try may begin."""
    change = verified(grounds)
    grounds.attempt(grounds.open("p"), NEW)
    with pytest.raises(RefusedError, match="is under way"):
        proposed(grounds)

    record = roll_back(grounds.ledger, change, by("pat"), reason="steps took twice as long")

    assert "the image of before" == record.payload["way"]
    assert 1 == len(record.payload["seen"])  # the project's, and nothing of the drill
    gone = again(grounds, change)
    with pytest.raises(RefusedError, match="was rolled back by pat"):
        widen(grounds.ledger, gone, by("pat"), share=0.2)
    with pytest.raises(RefusedError, match="was rolled back by pat"):
        roll_back(grounds.ledger, gone, by("pat"), reason="again")
    assert "proposed" == proposed(grounds).state


def test_no_way_back_is_known(grounds: Grounds) -> None:
    """Where the proposal names no way back the person says it."""
    change = proposed(grounds, component="image", where="image", key=False, rollback="", limits=())

    with pytest.raises(InputError, match="names no way back"):
        roll_back(grounds.ledger, change, by("pat"), reason="x")
    assert "by hand" == roll_back(grounds.ledger, change, by("pat"), reason="x", way="by hand").payload["way"]


def test_names_of_changes(grounds: Grounds) -> None:
    """A change is found by its id or its end; anything else is no change."""
    change = proposed(grounds)

    assert change.change_id == change_of(grounds.ledger, change.change_id[-8:]).change_id
    with pytest.raises(InputError, match="is not in the ledger"):
        change_of(grounds.ledger, "change_x")
