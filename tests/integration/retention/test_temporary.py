"""Temporary data of a run is removed, counted and recorded, and nothing else is touched."""

from __future__ import annotations

import pytest
from tests.support.artifact_run import ACTOR, Run

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.retention.temporary import clean_temporary
from pretrain_archive.retention.trees import TreeFiles


def clean(run: Run, root, *wanted):
    """Clean from a task try of its own."""
    return clean_temporary(
        run.ledger, run_uid=run.uid, root=root, folders=wanted, actor=ACTOR, origin=run.origin()
    )


@pytest.fixture
def work(tmp_path):
    """A work folder with two temporary folders, a file and a link to something that must stay."""
    root = tmp_path / "work"
    (root / "cache" / "deep").mkdir(parents=True)
    (root / "cache" / "deep" / "blob").write_bytes(b"x" * 1000)
    (root / "empty").mkdir()
    (root / "log").write_bytes(b"y" * 10)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "data").write_text("keep me")
    (root / "link").symlink_to(tmp_path / "precious")
    return root


@pytest.mark.requirement("R057", "R154")
def test_folders_files_and_links_go_and_are_counted(run, work, tmp_path):
    """A link goes, what it points to stays; the record says what and how much."""
    fact = clean(run, work, work / "cache", work / "empty", work / "log", work / "link", work / "never")

    assert [] == list(work.iterdir())
    assert "keep me" == (tmp_path / "precious" / "data").read_text()
    assert ["cache", "empty", "log", "link"] == [path.rpartition("/")[2] for path in fact.paths]
    assert fact.bytes_released >= 1010
    assert fact.verified_absent


def test_nothing_to_remove_is_no_record(run, work):
    """A second pass adds nothing."""
    clean(run, work, work / "cache")

    assert clean(run, work, work / "cache") is None
    facts = RunView.of(run.uid, run.ledger.records()).all(kinds.TemporaryRemoved)
    assert 1 == len(list(facts))


@pytest.mark.parametrize("where", ["outside", "root itself", "by dots", "through a link"])
def test_only_what_is_below_the_root_is_removed(run, work, tmp_path, where):
    """Nothing is removed if one of the folders is elsewhere."""
    (work / "alias").symlink_to(tmp_path)
    wanted = {
        "outside": tmp_path / "precious",
        "root itself": work,
        "by dots": work / ".." / "precious",
        "through a link": work / "alias" / "precious",
    }[where]

    with pytest.raises(RefusedError, match="nothing was removed"):
        clean(run, work, work / "cache", wanted)

    assert (work / "cache" / "deep" / "blob").exists()
    assert (tmp_path / "precious" / "data").exists()


@pytest.mark.requirement("R151")
@pytest.mark.parametrize("part", ["", "step_00000300", "step_00000300/inner"])
def test_a_registered_checkpoint_is_no_temporary_data(run, part):
    """Neither it, nor what holds it, nor what lies in it."""
    wanted = run.folder / part if part else run.folder
    with pytest.raises(RefusedError, match="touches the checkpoint"):
        clean(run, run.folder.parent, wanted)

    assert (run.folder / "step_00000300" / ".complete").exists()


@pytest.mark.requirement("R116", "R154")
@pytest.mark.parametrize("at", ["unlink deep/blob", "rmdir", "sync parent", "forget journal"])
def test_a_call_that_was_cut_is_completed_with_one_record(run, work, at):
    """What went before the cut is in the record of the next call, also if the folder is not even named any more."""

    class CutError(Exception):
        """The process ends here."""

    def cut(step: str) -> None:
        if step == at:
            raise CutError

    wanted = [work / "empty", work / "cache"]
    with pytest.raises(CutError):
        clean_temporary(
            run.ledger, run_uid=run.uid, root=work, folders=wanted, actor=ACTOR, origin=run.origin(),
            files=TreeFiles(on_step=lambda step: cut(step) if not (work / "empty").exists() else None),
        )  # fmt: skip

    clean(run, work, work / "empty", *(path for path in [work / "cache"] if path.exists()))

    facts = [fact for _, fact in RunView.of(run.uid, run.ledger.records()).all(kinds.TemporaryRemoved)]
    assert {"cache", "empty"} == {path.rpartition("/")[2] for fact in facts for path in fact.paths}
    assert 1000 == sum(fact.bytes_released for fact in facts)
    assert [] == [path.name for path in work.iterdir() if path.name.endswith(".json")]
