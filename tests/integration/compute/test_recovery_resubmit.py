"""A run that cannot go on: what is asked for again, what may be removed, and when nothing is resubmitted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.main_line import Line
from tests.support.recovering_program import recovering_line

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.services.resubmitting import resubmission_of

pytestmark = pytest.mark.requirement("R196")


@pytest.fixture
def failed(tmp_path: Path) -> Line:
    """A run whose last attempt failed; it has verified checkpoints of step 10 and 20."""
    line = recovering_line(Line(folder=tmp_path), die_at={"1": 25})
    assert "failed" == line.launch().state
    return line


def test_the_new_run_asks_for_the_same_and_names_the_old(failed: Line) -> None:
    """The printed form opens a run that is derived from the old one, with what was changed and nothing else."""
    made = resubmission_of(failed.view(), failed.runs_folder, {"max_attempts": 2})
    old = failed.view().opened
    assert old is not None
    failed.dag_run_id = "manual__again"
    opened = failed.open(**made.conf)

    assert (old.run_uid, 20) == (opened.derived_from, made.resume_step)
    assert {"derived_from", "max_attempts"} == {
        name for name in opened.conf if opened.conf[name] != old.conf.get(name)
    }
    assert 0 == failed.view().attempts
    assert failed.run_uid == opened.run_uid != old.run_uid


def test_the_clean_up_lists_what_may_go_and_what_stays(failed: Line) -> None:
    """The copy of the data may go; checkpoints of an open run and the evidence of its attempts stay, with reasons."""
    made = resubmission_of(failed.view(), failed.runs_folder)

    assert ["laid out data"] == [item["what"] for item in made.removable]
    assert {"checkpoint of step 10", "checkpoint of step 20", "evidence of an attempt"} == {
        item["what"] for item in made.kept
    }
    assert all(Path(item["path"]).exists() and item["reason"] for item in (*made.removable, *made.kept))


def test_without_a_checkpoint_that_holds_no_resume_is_offered(failed: Line) -> None:
    """A run none of whose checkpoints verifies can only begin anew."""
    shutil.rmtree(failed.runs_folder / failed.run_uid / "checkpoints")

    assert resubmission_of(failed.view(), failed.runs_folder).resume_step is None


def test_a_completed_run_is_not_made_again(tmp_path: Path) -> None:
    """Its result is judged at the run gate."""
    line = recovering_line(Line(folder=tmp_path), steps=10)
    assert "completed" == line.launch().state

    with pytest.raises(RefusedError) as refusal:
        resubmission_of(line.view(), line.runs_folder)
    assert "an attempt completed" in refusal.value.reasons[0]


def test_a_run_whose_attempt_has_no_end_is_not_resubmitted(failed: Line) -> None:
    """What may be running must be stopped first, or two runs work on the same thing."""
    view = failed.view()
    kept = tuple(record for record in view.records if record.kind != "attempt.ended")

    with pytest.raises(RefusedError) as refusal:
        resubmission_of(type(view).of(view.run_uid, kept), failed.runs_folder)
    assert "attempt 1 may be running" in refusal.value.reasons[0]


def test_a_form_that_would_not_open_is_refused_here(failed: Line) -> None:
    """Above the policy's quota: told now, not by a failed task."""
    with pytest.raises(RefusedError) as refusal:
        resubmission_of(failed.view(), failed.runs_folder, {"budget_minutes": 1e6})
    assert "budget_minutes" in refusal.value.reasons[0]


def test_an_unknown_run_is_refused(failed: Line) -> None:
    """Nothing is made up."""
    view = failed.view()
    assert view.latest(kinds.RunOpened)
    with pytest.raises(RefusedError, match="is not resubmitted"):
        resubmission_of(type(view).of("run_none", ()), failed.runs_folder)
