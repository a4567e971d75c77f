"""The daily clean-up: policy approves below its limit, a person above it, and only exactly the plan is deleted."""

from __future__ import annotations

import pytest
from tests.support.artifact_run import Run, policies
from tests.unit.services.open_runs import Opener

from pretrain_archive.domain.errors import InputError, RefusedError
from pretrain_archive.domain.kinds import RetentionApproved, TombstoneWritten
from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.gates.service import load_run
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.services import cleanup
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.cleanup_form import KINDS

SAID: list[str] = []


def caller(task="plan", run="scheduled__1", try_number=1):
    """A try of a task of the clean-up."""
    origin = Origin(dag_id="retention_cleanup", dag_run_id=run, task_id=task, try_number=try_number)
    return Caller(origin=origin, actor=Actor(type="task", name=task), say=SAID.append)


def room(**rules):
    """One project's rules, and the folders of this machine."""
    return cleanup.Room(policies=policies(**rules), places=(FolderFiles(),))


@pytest.fixture
def closed(ledger, store, tmp_path) -> Run:
    """A closed run with seven recovery checkpoints, of which policy keeps the last."""
    run = Run(ledger, store, tmp_path / "checkpoints").open()
    for step in range(100, 800, 100):
        run.checkpoint(step)
    run.close()
    return run


def folders(run):
    """The checkpoints that are still on disk."""
    return sorted(path.name for path in run.folder.iterdir() if path.is_dir())


def tombstones(ledger, run):
    """How many deletions are recorded."""
    return len(list(load_run(ledger, run.uid).all(TombstoneWritten)))


def test_below_the_limit(ledger, closed):
    """Policy approves, the bytes go, the tombstones stay, the newest checkpoint is kept."""
    here = room()
    planned = cleanup.make_plan(ledger, caller(), here)
    assert not planned.needs_approval

    approval = cleanup.approve(
        ledger, caller("approve"), here, planned, person=None, reason="below the limit"
    )
    done = cleanup.carry_out(ledger, caller("apply"), here, planned.plan_digest)

    assert (False, "policy: below approval_above_bytes") == (approval.person, approval.approved_by)
    assert done.complete
    assert planned.total_bytes == done.bytes_released
    assert (1, 6) == (len(folders(closed)), tombstones(ledger, closed))


def test_above_the_limit(ledger, closed):
    """Above the limit policy alone deletes nothing; an entitled person does."""
    here = room(limit=10)
    planned = cleanup.make_plan(ledger, caller(), here)
    assert planned.needs_approval
    with pytest.raises(RefusedError):
        cleanup.approve(ledger, caller("approve"), here, planned, person=None, reason="no")
    with pytest.raises(RefusedError, match="has no recorded approval"):
        cleanup.carry_out(ledger, caller("apply"), here, planned.plan_digest)
    assert (7, 0) == (len(folders(closed)), tombstones(ledger, closed))

    cleanup.approve(ledger, caller("approve"), here, planned, person="dora", reason="seen")
    cleanup.carry_out(ledger, caller("apply"), here, planned.plan_digest)

    [stone] = {t.approved_by for _, t in load_run(ledger, closed.uid).all(TombstoneWritten)}
    assert ("dora", 1) == (stone, len(folders(closed)))


@pytest.mark.parametrize(
    ("person", "reason", "kind"),
    [
        pytest.param("mallory", "let me", RefusedError, id="not entitled"),
        pytest.param("alice", "mine", RefusedError, id="the submitter"),
        pytest.param("bob", "  ", InputError, id="no reason"),
    ],
)
def test_not_approved(ledger, closed, person, reason, kind):
    """Nobody else and no blank reason approves a plan."""
    here = room(limit=10)
    planned = cleanup.make_plan(ledger, caller(), here)

    with pytest.raises(kind):
        cleanup.approve(ledger, caller("approve"), here, planned, person=person, reason=reason)
    assert not list(ledger.records(kinds=["retention.approved"]))
    assert len(folders(closed)) == 7


@pytest.mark.case("L07")
def test_repeated(ledger, closed):
    """Plan, approval and deletion repeated by a retry write and delete nothing more."""
    here = room(limit=10)
    planned = cleanup.make_plan(ledger, caller(), here)
    assert planned == cleanup.make_plan(ledger, caller(try_number=2), here)
    first = cleanup.approve(ledger, caller("approve"), here, planned, person="bob", reason="seen")
    again = cleanup.approve(
        ledger, caller("approve", try_number=2), here, planned, person="dora", reason="too"
    )
    cleanup.carry_out(ledger, caller("apply"), here, planned.plan_digest)
    before = tombstones(ledger, closed)

    cleanup.carry_out(ledger, caller("apply", try_number=2), here, planned.plan_digest)

    assert first == again
    assert (
        RetentionApproved(plan_digest=planned.plan_digest, approved_by="bob", person=True, reason="seen")
        == first
    )
    assert (6, 6) == (before, tombstones(ledger, closed))


def test_unknown_plan(ledger):
    """A plan that is not recorded is not carried out."""
    with pytest.raises(RefusedError, match="no plan sha256:x is recorded"):
        cleanup.carry_out(ledger, caller("apply"), room(), "sha256:x")


def test_approvers(ledger, closed):
    """Who may approve are the people entitled in every project that the plan deletes from."""
    planned = cleanup.make_plan(ledger, caller(), room(limit=10))

    assert ["bob", "dora"] == cleanup.approvers(planned, room())
    with pytest.raises(RefusedError, match="nobody may approve the clean-up of demo"):
        cleanup.approvers(planned, cleanup.Room(policies={}, places=()))
    assert len(folders(closed)) == 7


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_form(ledger, closed, language):
    """The form says how much goes, names a few, is bound to the plan and has no section."""
    planned = cleanup.make_plan(ledger, caller(), room(limit=10))

    form = cleanup.approval_form(planned, language)

    lines = [line for line in form.body.splitlines() if line]
    assert len(lines) <= 12
    assert f"6 checkpoints, {planned.total_bytes:,} bytes are to be deleted." in form.body
    assert f"将删除 6 个检查点，共 {planned.total_bytes:,} 字节。" in form.body
    assert "(+2)" in form.body
    assert ("Approve", "Reject") == form.options
    assert planned.plan_digest == form.fields["plan_digest"]["const"]
    assert all("section" not in field for field in form.fields.values())
    assert len(folders(closed)) == 7


def test_nothing_to_delete(ledger, tmp_path):
    """An empty plan needs nobody."""
    Opener(ledger=ledger, folder=tmp_path).open()

    planned = cleanup.make_plan(ledger, caller(), room())

    assert ([], False) == ([i for i in planned.items if i["action"] == "delete"], planned.needs_approval)


def test_the_form_calls_every_log_a_log():
    """A rule about logs reaches ordinary ones, too: the word promises nothing of the class."""
    assert ("logs", "份日志") == KINDS["log"]
