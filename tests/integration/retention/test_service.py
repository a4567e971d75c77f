"""Plan, approval, deletion and tombstones on a real ledger and real folders."""

from __future__ import annotations

import os
import shutil
import threading
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.artifact_files import write_checkpoint
from tests.support.artifact_run import ACTOR, CONFIGURATION, Run, policies

from pretrain_archive.artifacts.candidates import name_candidate
from pretrain_archive.artifacts.location import to_path
from pretrain_archive.artifacts.verification import find_newest_verified
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.records import Edge, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.retention import service
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.reconcile import reconcile


def plan(run: Run, **policy) -> kinds.RetentionPlanned:
    """A recorded plan."""
    return service.plan(run.ledger, policies(**policy), actor=ACTOR, origin=run.origin())


def approve(run: Run, planned, *, person: str | None = None, **policy) -> kinds.RetentionApproved:
    """A recorded approval."""
    return service.approve(
        run.ledger,
        planned,
        policies(**policy),
        person=person,
        reason="by policy",
        actor=ACTOR,
        origin=run.origin(),
    )


def carry_out(run: Run, planned, approval, *, ledger=None, **policy):
    """Apply, from a task try of its own."""
    return service.apply(
        ledger or run.ledger, planned, approval, policies(**policy), actor=ACTOR, origin=run.origin()
    )


def outcomes(applied) -> list[str]:
    """What happened, in the order of the plan."""
    return [result.outcome for result in applied.results]


def stones(run: Run) -> list[kinds.TombstoneWritten]:
    """The run's tombstones."""
    view = RunView.of(run.uid, run.ledger.records(streams=[run.uid]))
    return [stone for _, stone in view.all(kinds.TombstoneWritten)]


def actions(planned) -> dict[int, str]:
    """Action by step."""
    return {item["step"]: item["action"] for item in planned.items}


def folders(run: Run) -> list[str]:
    """What is in the checkpoint folder now."""
    return sorted(path.name for path in run.folder.iterdir() if path.name.startswith((".", "step")))


@pytest.mark.requirement("R116", "R147", "R149", "R150")
def test_expired_recovery_checkpoints_go_and_leave_tombstones(run):
    """The last one stays; digest, size, class, reason, policy and approver of the others stay, too."""
    planned = plan(run)
    assert {100: "delete", 200: "delete", 300: "keep"} == actions(planned)
    assert not planned.needs_approval
    facts = {f.step: f for _, f in RunView.of(run.uid, run.ledger.records()).all(kinds.CheckpointRegistered)}

    applied = carry_out(run, planned, approve(run, planned))

    assert ["deleted", "deleted"] == outcomes(applied)
    assert planned.total_bytes == applied.bytes_released
    assert applied.complete
    assert ["step_00000300"] == folders(run)
    for stone, step in zip(stones(run), (100, 200), strict=True):
        size = sum(file.size for file in facts[step].files)
        assert (facts[step].digest, size, size) == (stone.digest, stone.size, stone.bytes_released)
        assert ("recovery", True, False) == (
            stone.artifact_class,
            stone.verified_absent,
            stone.already_missing,
        )
        assert policies()["demo"].digest == stone.policy_digest
        assert "older than 0 days" in stone.reason
        trace = run.ledger.trace(Ref.parse(stone.ref), direction="backward")
        assert {"run", "snapshot", "tombstone"} <= {node.type for node in trace.nodes}


@pytest.mark.case("R09")
def test_a_second_pass_adds_nothing(run):
    """Applied again, the plan finds its tombstones."""
    planned = plan(run)
    approval = approve(run, planned)
    carry_out(run, planned, approval)

    again = carry_out(run, planned, approval)

    assert ["already_deleted", "already_deleted"] == outcomes(again)
    assert 0 == again.bytes_released
    assert 2 == len(stones(run))
    assert {300: "keep"} == actions(plan(run))


@pytest.mark.case("R09")
@pytest.mark.requirement("R149")
def test_each_state_of_the_disk_has_its_outcome(ledger, tmp_path, run):
    """Present, removed by hand, half removed, unmounted: others go on, reruns add no second tombstone."""
    other = Run(ledger, run.store, tmp_path / "volume" / "checkpoints").open()
    other.checkpoint(100)
    other.checkpoint(200)
    other.close()
    planned = plan(run)
    approval = approve(run, planned)
    shutil.rmtree(run.folder / "step_00000100")
    (run.folder / "step_00000200" / "state.json").unlink()
    (tmp_path / "volume").rename(tmp_path / "away")

    found = {(r.id, r.outcome) for r in carry_out(run, planned, approval).results}

    ids = {(item["run"], item["step"]): item["id"] for item in planned.items}
    assert {
        (ids[run.uid, 100], "already_missing"),
        (ids[run.uid, 200], "deleted"),
        (ids[other.uid, 100], "kept_for_later"),
    } == found
    assert [True, False] == [stone.already_missing for stone in stones(run)]
    assert [] == stones(other)

    (tmp_path / "away").rename(tmp_path / "volume")
    assert sorted(["already_deleted", "already_deleted", "deleted"]) == sorted(
        outcomes(carry_out(run, planned, approval))
    )
    assert 1 == len(stones(other))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user than the files' owner")
@pytest.mark.case("R09")
def test_what_may_not_be_deleted_fails_and_the_others_go_on(run, tmp_path):
    """A folder of another user stays whole and is named; the rest is deleted."""
    denied = run.folder / "step_00000100"
    planned = plan(run)
    approval = approve(run, planned)
    nobody = 65534
    for path in (*tmp_path.parents[:2], tmp_path, run.folder, *run.folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in (tmp_path, run.folder, *tmp_path.rglob("*")):
        if denied not in (path, path.parent):
            os.chown(path, nobody, nobody)
    child = os.fork()
    if child == 0:
        os.setgid(nobody)
        os.setuid(nobody)
        own = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", signing_key=None, anchors=())
        done = carry_out(run, planned, approval, ledger=own)
        expected = ["failed", "deleted"]
        named = "denied" in done.results[0].reason.lower()
        os._exit(0 if outcomes(done) == expected and named and not done.complete else 1)
    _, status = os.waitpid(child, 0)

    assert 0 == os.waitstatus_to_exitcode(status)
    assert (denied / ".complete").exists()
    assert not (run.folder / "step_00000200").exists()
    assert not (run.folder / ".step_00000100.retention.json").exists()


@pytest.mark.requirement("R151")
def test_an_open_run_keeps_everything(ledger, run, tmp_path):
    """Nothing of a run that may be resumed is deleted."""
    other = Run(ledger, run.store, tmp_path / "open").open()
    for step in (1, 2, 3):
        other.checkpoint(step)

    items = [item for item in plan(run).items if item["run"] == other.uid]

    assert ["keep"] * 3 == [item["action"] for item in items]


@pytest.mark.requirement("R151")
def test_what_became_a_candidate_after_the_plan_is_kept(run):
    """The ledger is asked again before each deletion."""
    planned = plan(run)
    approval = approve(run, planned)
    fact = next(f for _, f in RunView.of(run.uid, run.ledger.records()).all(kinds.CheckpointRegistered))
    run.evaluate(fact, 1.0)
    name_candidate(
        run.ledger,
        run_uid=run.uid,
        checkpoint_id=fact.checkpoint_id,
        kept=True,
        reason="best",
        actor=ACTOR,
        origin=run.origin(),
    )

    applied = carry_out(run, planned, approval)

    assert ["kept", "deleted"] == outcomes(applied)
    assert "since the plan: source of candidate:" in applied.results[0].reason


@pytest.mark.requirement("R151")
def test_what_becomes_live_between_two_deletions_is_kept(run):
    """Even while a pass is under way."""
    planned = plan(run)
    approval = approve(run, planned)
    facts = [f for _, f in RunView.of(run.uid, run.ledger.records()).all(kinds.CheckpointRegistered)]
    user = Run(run.ledger, run.store, run.folder).open()

    def meanwhile(step: str) -> None:
        if step == "rmdir":
            started = kinds.AttemptStarted(
                attempt=1, host="h", resume_from=facts[1].checkpoint_id, requested={}, allocated={}
            )
            user.append(started, attempt=1)

    places = (FolderFiles(on_step=meanwhile),)
    applied = service.apply(
        run.ledger, planned, approval, policies(), actor=ACTOR, origin=run.origin(), places=places
    )

    assert ["deleted", "kept"] == outcomes(applied)
    assert f"used by run:{user.uid}" in applied.results[1].reason


@pytest.mark.requirement("R151")
@pytest.mark.parametrize("how", ["resume", "base model", "edge", "open child"])
def test_another_run_that_rests_on_a_checkpoint_protects_it(run, how):
    """By resumption, as base model, by any edge, or by descent while it is open."""
    fact = next(f for _, f in RunView.of(run.uid, run.ledger.records()).all(kinds.CheckpointRegistered))
    user = Run(run.ledger, run.store, run.folder).open(derived_from=run.uid if how == "open child" else None)
    if how == "resume":
        path = str(to_path(fact.location))
        started = kinds.AttemptStarted(attempt=1, host="h", resume_from=path, requested={}, allocated={})
        user.append(started, attempt=1)
    elif how == "base model":
        user.append(configuration(fact.checkpoint_id))
    elif how == "edge":
        edge = Edge(
            subject=Ref(type="run", id=user.uid),
            relation=Relation.USED,
            object=Ref(type="checkpoint", id=fact.checkpoint_id),
        )
        user.append(kinds.NoteAdded(topic="note", text="warm start"), edges=(edge,))

    item = next(item for item in plan(run).items if item["id"] == f"checkpoint:{fact.checkpoint_id}")

    assert ("keep", f"run:{user.uid}") == (item["action"], item["blocked_by"])


def configuration(base_model: str) -> kinds.ConfigurationDeclared:
    """A declaration that starts from another run's checkpoint."""
    return kinds.ConfigurationDeclared(
        configuration={},
        configuration_digest=CONFIGURATION,
        command=["python"],
        code_digest=None,
        base_model=base_model,
        budget=kinds.Budget(minutes=1, owner="bob"),
        stop=kinds.StopConditions(wall_minutes=1, no_progress_minutes=1),
        checkpoints=kinds.CheckpointPlan(
            location="x", every_steps=1, keep_last=1, restore_owner="alice", retention_rule="r"
        ),
    )


def test_a_later_checkpoint_at_the_same_place_is_not_deleted_for_the_older_one(ledger, run, tmp_path):
    """A rewound attempt wrote over the folder: only the newer record owns the bytes."""
    rewound = Run(ledger, run.store, tmp_path / "rewound").open()
    rewound.checkpoint(100)
    shutil.rmtree(rewound.folder / "step_00000100")
    rewound.checkpoint(100, attempt=2, content=b"\x05" * 16)
    rewound.close()

    planned = plan(run)
    carry_out(run, planned, approve(run, planned))

    assert (rewound.folder / "step_00000100" / ".complete").exists()
    older, newer = [item for item in planned.items if item["run"] == rewound.uid]
    assert ("keep", newer["id"]) == (older["action"], older["blocked_by"])
    assert "keep" == newer["action"]


@pytest.mark.parametrize(
    ("person", "words"),
    [
        pytest.param(None, "need a person's approval", id="nobody"),
        pytest.param("alice", "'alice' may not approve", id="not entitled"),
    ],
)
def test_above_the_limit_an_entitled_person_is_needed(run, person, words):
    """The policy lets small plans pass; large ones wait for a person."""
    planned = plan(run, limit=10)
    assert planned.needs_approval

    with pytest.raises(RefusedError, match=words):
        approve(run, planned, person=person, limit=10)

    approval = approve(run, planned, person="dora", limit=10)
    assert "dora" == approval.approved_by
    assert carry_out(run, planned, approval, limit=10).complete
    assert {"dora"} == {stone.approved_by for stone in stones(run)}


def test_an_approval_covers_one_exact_plan(run):
    """A forged, altered or foreign approval or plan deletes nothing."""
    planned = plan(run)
    approval = approve(run, planned)
    altered = planned.model_copy(update={"items": [{**item, "action": "delete"} for item in planned.items]})
    foreign = approval.model_copy(update={"plan_digest": CONFIGURATION})
    forged = approval.model_copy(update={"approved_by": "dora", "person": True})

    for bad_plan, bad_approval in (
        (altered, approval),
        (planned, foreign),
        (planned, forged),
        (planned, None),
    ):
        with pytest.raises(RefusedError):
            carry_out(run, bad_plan, bad_approval)
    assert 3 == len(folders(run))


def test_an_equal_plan_is_recorded_once(run):
    """And so is its approval."""
    assert plan(run) == plan(run)
    assert approve(run, plan(run)) == approve(run, plan(run))
    assert 2 == len(list(run.ledger.records(kinds=["retention.planned", "retention.approved"])))


@pytest.mark.case("R07")
def test_a_clock_behind_the_newest_record_plans_and_deletes_nothing(run):
    """Ages cannot be trusted then."""
    planned = plan(run)
    approval = approve(run, planned)
    early = datetime.now(UTC) - timedelta(hours=2)

    with pytest.raises(RefusedError, match="clock"):
        service.make_plan(run.ledger, policies(), now=early)
    with pytest.raises(RefusedError, match="clock"):
        service.apply(run.ledger, planned, approval, policies(), actor=ACTOR, origin=run.origin(), now=early)
    assert 3 == len(folders(run))


@pytest.mark.case("R07")
@pytest.mark.parametrize("mtimes", [(3, 2, 1), (5, 5, 5), (-300, -300, -300), (20000, 20000, 20000)])
def test_file_times_decide_nothing(run, mtimes):
    """Reversed, equal, future or ancient: order and age come from the ledger."""
    now = datetime.now(UTC).timestamp()
    for step, days in zip((100, 200, 300), mtimes, strict=True):
        for path in (run.folder / f"step_{step:08d}").iterdir():
            os.utime(path, (max(0, now - days * 86400),) * 2)

    assert {100: "delete", 200: "delete", 300: "keep"} == actions(plan(run))
    assert {"keep"} == set(actions(plan(run, age=7)).values())


def test_parallel_passes_delete_once(run, ledger_url):
    """Two passes over one plan: each artifact has one tombstone."""
    planned = plan(run)
    approval = approve(run, planned)
    start, found = threading.Barrier(3), []

    def work() -> None:
        own = open_ledger(ledger_url, signing_key=None, anchors=())
        start.wait()
        found.append(carry_out(run, planned, approval, ledger=own))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = carry_out(run, planned, approval)

    assert 3 == len(found)
    assert ["already_deleted"] * 2 == outcomes(last)
    assert 2 == len(stones(run))
    assert ["step_00000300"] == folders(run)


@pytest.mark.requirement("R152")
def test_reconcile_tells_what_is_not_as_recorded(run):
    """Missing, changed and ownerless folders, and deleted ones that came back."""
    planned = plan(run)
    carry_out(run, planned, approve(run, planned))
    write_checkpoint(run.folder, 100)
    (run.folder / "step_00000300" / "model.safetensors").write_bytes(b"cut")
    write_checkpoint(run.folder, 900)

    found = {item.id.rpartition("/")[2]: item for item in reconcile(run.ledger).items}
    ids = {item["step"]: item["id"] for item in planned.items}

    assert "changed" == found[ids[100]].verdict
    assert "verified" == found[ids[200]].verdict
    assert "model.safetensors" in found[ids[300]].found
    assert ("unrecorded", False) == (found["step_00000900"].verdict, found["step_00000900"].blocking)
    assert 0 < reconcile(run.ledger).ownerless_bytes


@pytest.mark.requirement("R101")
def test_the_newest_that_holds_is_found_again_on_disk(run):
    """A damaged or deleted one is passed over, and why is said."""
    view = RunView.of(run.uid, run.ledger.records(streams=[run.uid]))
    weights = run.folder / "step_00000300" / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)

    found = find_newest_verified(view)

    assert (200, run.folder / "step_00000200") == (found.checkpoint.step, found.folder)
    assert 1 == len(found.skipped)
    assert found.skipped[0].startswith("step 300 does not hold: model.safetensors")
