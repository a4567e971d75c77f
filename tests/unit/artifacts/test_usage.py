"""Last use is derived from the records that rest on a checkpoint."""

from __future__ import annotations

import shutil

import pytest
from tests.support.artifact_run import Run

from pretrain_archive.artifacts.classes import effective_class
from pretrain_archive.artifacts.location import to_path
from pretrain_archive.artifacts.registration import reclassify
from pretrain_archive.artifacts.usage import last_used, uses
from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.storage.files import FileStore


@pytest.fixture
def run(ledger, tmp_path) -> Run:
    """An open run with a folder of checkpoints."""
    return Run(ledger, FileStore(str(tmp_path / "store")), tmp_path / "checkpoints").open()


def view(run: Run) -> RunView:
    """The run as it is recorded now."""
    return RunView.of(run.uid, run.ledger.records(streams=[run.uid]))


def resumed(run: Run, checkpoint: kinds.CheckpointRegistered, attempt: int) -> None:
    """An attempt that went on from a checkpoint."""
    folder = str(to_path(checkpoint.location))
    run.append(
        kinds.AttemptStarted(
            attempt=attempt,
            host="here",
            requested={},
            allocated={},
            resume_from=folder,
            resume_step=checkpoint.step,
        ),
        attempt=attempt,
    )


@pytest.mark.requirement("R101")
def test_the_last_use_is_the_newest_record_that_rests_on_it(run):
    """Registration, then a resume, an evaluation: each takes the place of the one before."""
    first, second = run.checkpoint(100), run.checkpoint(200)
    assert ["registration"] * 2 == [use.how for use in last_used(view(run)).values()]

    resumed(run, first, 2)
    assert "resume" == last_used(view(run))[first.checkpoint_id].how
    run.evaluate(first, 1.5)
    used = last_used(view(run))

    assert ("evaluation", "registration") == (used[first.checkpoint_id].how, used[second.checkpoint_id].how)
    newest = [record for record in view(run).records if record.kind == "evaluation.reported"][-1]
    assert (newest.record_id, newest.recorded_at) == (
        used[first.checkpoint_id].record_id,
        used[first.checkpoint_id].at,
    )


def test_a_change_of_class_is_no_use(run):
    """It is a word about the checkpoint, not a use of it."""
    made = run.checkpoint(100)
    before = last_used(view(run))

    reclassify(
        run.ledger, run_uid=run.uid, checkpoint=made.checkpoint_id, artifact_class="evaluation", purpose="x",
        actor=run.ledger.log[0].actor, origin=run.origin(),
    )  # fmt: skip

    assert before == last_used(view(run))
    assert "evaluation" == effective_class(view(run), made)


def test_a_use_in_another_run_counts(run, ledger, tmp_path):
    """A later run that compares with it, or goes on from it, keeps it in use."""
    made = run.checkpoint(100)
    other = Run(ledger, run.store, tmp_path / "other").open()
    (tmp_path / "other").mkdir()
    resumed(other, made, 1)
    other_view = RunView.of(other.uid, ledger.records(streams=[other.uid]))

    assert "registration" == last_used(view(run))[made.checkpoint_id].how
    used = last_used(view(run), other_view)[made.checkpoint_id]
    assert ("resume", other.uid) == (used.how, used.run_uid)


def test_a_resume_from_an_overwritten_folder_is_of_the_generation_that_lay_there(run):
    """The one that was registered there before the attempt began, not the one that took its place."""
    first = run.checkpoint(100)
    resumed(run, first, 2)
    shutil.rmtree(run.folder / "step_00000100")
    second = run.checkpoint(100, attempt=2, content=b"\x07" * 16)
    assert first.location == second.location
    known = list(view(run).all(kinds.CheckpointRegistered))

    assert [first.checkpoint_id] == [
        use.checkpoint_id for use in uses(view(run), known) if use.how == "resume"
    ]


@pytest.mark.requirement("R100")
def test_a_checkpoint_can_be_classified_late(run):
    """The newest record that states its class counts, whichever kind it is of."""
    made = run.checkpoint(100)
    assert "recovery" == effective_class(view(run), made)
    run.append(
        kinds.CheckpointClassified(
            checkpoint_id=made.checkpoint_id, artifact_class="candidate", purpose="best", reason="lowest loss",
            by="alice", previous_class="recovery", previous_purpose="",
        )
    )  # fmt: skip
    assert "candidate" == effective_class(view(run), made)
