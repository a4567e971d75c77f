"""What somebody needs is not deleted, however it is spelled, moved, linked to or said while a plan is carried out."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.integration.retention.planned_runs import begin_from, plan, steps
from tests.integration.retention.planned_runs import carry_out as apply_plan
from tests.support.artifact_files import write_checkpoint
from tests.support.artifact_run import ACTOR, POLICY, Run, policies
from tests.support.deleting import carry_out, plan_over, rule, ruled, stones
from tests.unit.retention.subjects import policy_with

from pretrain_archive.artifacts.registration import Claim, register_checkpoint
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import EvaluationStarted
from pretrain_archive.retention import holding, service
from pretrain_archive.retention.deletion import Applied
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.subjects_strays import Strays
from pretrain_archive.retention.trees import TreeFiles
from pretrain_archive.storage.files import FileStore

TEXT = POLICY.format(keep_last=1, age=0, limit=10**9, hold="[]")
LEFTOVERS = ruled(TEXT, rule("rest", ["leftover"], more="younger_than_days = 0"))


@pytest.fixture
def run(ledger, tmp_path):
    """An open run that writes below ``tmp_path``."""
    return Run(ledger, FileStore(tmp_path / "store"), tmp_path / "runs" / "a").open()


def strays(ledger, run: Run, **more: Any) -> list[dict[str, Any]]:
    """What a plan says of folders that no record names."""
    finder = Strays(store=run.store, owner="demo", **more)
    return [item for item in plan_over(ledger, LEFTOVERS, [finder]) if item["kind"] == "leftover"]


@pytest.mark.requirement("R151")
def test_a_folder_that_holds_registered_checkpoints_is_no_leftover(ledger, run):
    """``checkpoints`` has a name like a checkpoint's and lies beside a registered one."""
    home = run.folder
    run.folder = home / "checkpoints"
    run.checkpoint(100)
    run.folder = home
    run.checkpoint(200)
    write_checkpoint(home / "step_00000200" / "inner", 7)
    run.close()

    assert [] == strays(ledger, run)
    assert [] == strays(ledger, run, roots=[home / "step_00000200"]), "inside a registered one"


@pytest.mark.requirement("R151")
def test_what_lies_beside_the_checkpoints_of_an_open_run_stays(ledger, run):
    """The training has written it and nobody has registered it yet."""
    run.checkpoint(100)
    write_checkpoint(run.folder, 200)

    told = strays(ledger, run)
    run.close()

    assert [("keep", True)] == [(item["action"], run.uid in item["reason"]) for item in told]
    assert ["delete"] == [item["action"] for item in strays(ledger, run)]


@pytest.mark.requirement("R151")
def test_a_folder_without_a_record_from_which_another_run_began_stays(ledger, run):
    """No record registers it, and one names it."""
    run.checkpoint(100)
    folder = write_checkpoint(run.folder, 200)
    run.close()
    begin_from(Run(ledger, run.store, run.folder).open(), str(folder / "weights.safetensors"))

    assert [("keep", True)] == [(i["action"], "used by run:" in i["reason"]) for i in strays(ledger, run)]


def claim(run: Run, step: int) -> Claim:
    """What a task says of a checkpoint of the run."""
    return Claim(
        run_uid=run.uid, attempt=1, step=step, tokens=None, snapshot="stdlib@1",
        configuration_digest="sha256:" + "c" * 64, responsible="alice", artifact_class="recovery",
    )  # fmt: skip


@pytest.mark.requirement("R151")
def test_a_leftover_that_is_registered_while_the_plan_is_carried_out_stays(ledger, run):
    """Between the look at the batch and the removal of this one."""
    run.checkpoint(100)
    for step in (200, 300):
        write_checkpoint(run.folder, step)
    run.close()
    items = strays(ledger, run)
    done: list[str] = []

    def on_step(step: str) -> None:
        if step == "journal" and not done:
            done.append(step)
            other = next(path for path in run.folder.glob("step_*00") if not path.name.endswith("100")
                         and path.as_uri() == items[1]["location"])  # fmt: skip
            step_number = int(other.name.removeprefix("step_"))
            register_checkpoint(ledger, other, claim(run, step_number), actor=ACTOR, origin=run.origin())

    finder = Strays(store=run.store, owner="demo", files=TreeFiles(on_step=on_step))
    applied = carry_out(ledger, LEFTOVERS, items, [finder])

    assert ["deleted", "kept"] == [result.outcome for result in applied.results]
    assert Path(items[1]["location"].removeprefix("file://")).is_dir()


def other_word(run: Run, what: str, checkpoint: Any) -> None:
    """Somebody says something about the checkpoint."""
    if what == "purpose":
        holding.classify(
            run.ledger, checkpoint.checkpoint_id, artifact_class=None, purpose="milestone", person="dora",
            reason="the paper", actor=ACTOR, origin=run.origin(),
        )  # fmt: skip
    elif what == "hold":
        holding.place_hold(
            run.ledger, policies(), f"checkpoint:{checkpoint.checkpoint_id}", person="dora", reason="an audit",
            actor=ACTOR, origin=run.origin(),
        )  # fmt: skip
    else:
        run.append(
            EvaluationStarted(
                checkpoint_id=checkpoint.checkpoint_id, checkpoint_digest=checkpoint.digest, try_id="try_1",
                lease_until="2999-01-01T00:00:00.000000Z",
            )
        )  # fmt: skip


@pytest.mark.requirement("R151")
@pytest.mark.parametrize("what", ["purpose", "hold", "evaluation"])
def test_a_word_said_within_a_batch_is_heard_by_the_rest_of_it(ledger, run, what):
    """The first is being removed when somebody names the second."""
    made = [run.checkpoint(step) for step in (100, 200, 300)]
    run.close()
    known = ruled(TEXT, rule("milestones", ["checkpoint"], action="keep", more='purposes = ["milestone"]'))
    items = [item for item in plan_over(ledger, known, ()) if item["action"] == "delete"]
    assert [100, 200] == [item["step"] for item in items]
    done: list[str] = []

    def on_step(step: str) -> None:
        if step == "journal" and not done:
            done.append(step)
            other_word(run, what, made[1])

    applied = carry_out(ledger, known, items, (), places=(FolderFiles(on_step=on_step),))

    assert ["deleted", "kept"] == [result.outcome for result in applied.results]
    assert (run.folder / "step_00000200").is_dir()


@pytest.mark.requirement("R151")
@pytest.mark.parametrize("how", ["parent link", "another run's"])
def test_bytes_of_another_run_at_the_recorded_address_stay(ledger, tmp_path, run, how):
    """All checkpoints of one model have files of the same names and sizes."""
    for step in (100, 200):
        run.checkpoint(step)
    run.close()
    other = Run(ledger, run.store, tmp_path / "runs" / "b").open()
    kept = other.checkpoint(100, content=b"z" * 16)
    other.checkpoint(200)
    planned = plan(run)
    assert {100} == steps(planned)
    if how == "parent link":
        run.folder.rename(tmp_path / "away")
        run.folder.symlink_to(other.folder)
        where = other.folder / "step_00000100"
    else:
        where = run.folder / "step_00000100"
        where.rename(tmp_path / "away")
        (other.folder / "step_00000100").rename(where)

    applied = apply_plan(run, planned)

    assert {"deleted", "partly_deleted", "already_missing"}.isdisjoint(applied.outcomes()), applied
    assert all((where / file.path).is_file() for file in kept.files)
    assert {} == stones(ledger)


@pytest.mark.requirement("R149")
def test_a_plan_with_nothing_to_delete_is_carried_out(run):
    """A day without anything to clean is no failure."""
    run.checkpoint(100)
    run.close()
    planned = plan(run)

    applied = apply_plan(run, planned)

    assert (True, ()) == (applied.complete, applied.results)


def test_hard_links_release_nothing_and_harm_nobody(ledger, tmp_path, run):
    """A copy by links keeps its bytes, and the tombstone counts none."""
    first = run.checkpoint(100)
    run.checkpoint(200)
    run.close()
    for file in first.files:
        os.link(run.folder / "step_00000100" / file.path, tmp_path / Path(file.path).name)

    applied = apply_plan(run, plan(run))

    assert {"deleted": 1} == applied.outcomes()
    assert [0] == [stone.bytes_released for stone in stones(ledger).values()]
    assert all((tmp_path / Path(file.path).name).stat().st_size == file.size for file in first.files)


class CutError(Exception):
    """The process ends here."""


@pytest.mark.requirement("R151")
def test_what_is_written_where_a_removal_was_cut_is_not_taken_for_its_rest(ledger, run):
    """The same plan again finds a journal of its own, and bytes that nobody planned to delete."""
    run.checkpoint(100)
    folder = write_checkpoint(run.folder, 200)
    run.close()
    items = strays(ledger, run)

    def cut(step: str) -> None:
        if step == "rmdir":
            raise CutError

    with pytest.raises(CutError):
        carry_out(
            ledger, LEFTOVERS, items, [Strays(store=run.store, owner="demo", files=TreeFiles(on_step=cut))]
        )
    time.sleep(0.2)  # two changes within one tick of the kernel's clock have one time
    (folder / "new.bin").write_bytes(b"another run's")

    applied = carry_out(ledger, LEFTOVERS, items, [Strays(store=run.store, owner="demo")])

    assert ["kept_for_later"] == [result.outcome for result in applied.results]
    assert (folder / "new.bin").is_file()


@pytest.mark.requirement("R149")
def test_the_journal_of_what_lay_there_before_does_not_count_for_what_lies_there_now(run):
    """It stayed behind when the pass that had written the tombstone was killed."""
    run.checkpoint(100)
    run.checkpoint(200)
    run.close()
    stale = run.folder / ".step_00000100.retention.json"
    stale.write_text(json.dumps({"ref": "checkpoint:ckpt_before", "plan_digest": "x", "bytes": 10**9}))

    applied = apply_plan(run, plan(run))

    assert {"deleted": 1} == applied.outcomes()
    assert applied.bytes_released < 10**4


@pytest.mark.requirement("R149")
def test_two_passes_at_once_bury_each_thing_once_and_count_its_bytes_once(run):
    """The second one begins in the middle of the first one's removal, with the same plan."""
    for step in (100, 200, 300):
        run.checkpoint(step)
    run.close()
    planned = plan(run)
    others: list[Applied] = []

    def on_step(step: str) -> None:
        if step == "unlink model.safetensors" and not others:
            others.append(apply_plan(run, planned))

    applied = apply_plan(run, planned, places=(FolderFiles(on_step=on_step),))

    again = apply_plan(run, planned)
    written = list(run.ledger.records(kinds=["tombstone.written"]))
    assert 2 == len(written), (applied, others)
    assert planned.total_bytes == sum(record.payload["bytes_released"] for record in written)
    assert {"already_deleted": 2} == again.outcomes()
    assert [] == [path.name for path in run.folder.iterdir() if path.name.startswith(".")]


@pytest.mark.requirement("R151")
@pytest.mark.parametrize("answer", ["lower limit", "other approvers"])
def test_a_policy_that_became_stricter_after_the_approval_counts(run, answer):
    """Who may say yes, and up to what size nobody needs to, is asked when it is carried out."""
    run.checkpoint(100)
    run.checkpoint(200)
    run.close()
    known = policy_with()
    planned = plan(run, known)
    by = None if answer == "lower limit" else "dora"
    approval = service.approve(
        run.ledger, planned, known, person=by, reason="small", actor=ACTOR, origin=run.origin()
    )
    text = POLICY.format(keep_last=1, age=0, limit=0, hold="[]")
    text = text if by is None else text.replace('retention = ["bob", "dora"]', 'retention = ["bob"]')
    stricter = ruled(text)

    with pytest.raises(RefusedError, match="is not approved"):
        service.apply(run.ledger, planned, approval, stricter, actor=ACTOR, origin=run.origin())

    assert {100} == steps(planned)
    assert (run.folder / "step_00000100").is_dir()
