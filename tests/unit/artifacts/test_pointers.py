"""Pointers: resolved to a step once, refused with the reason, steps in the order of numbers."""

from __future__ import annotations

import pytest
from tests.support.artifact_files import write_checkpoint, write_folder

from pretrain_archive.artifacts.pointers import list_checkpoints, newest_complete, resolve_latest, step_of
from pretrain_archive.domain.errors import CheckpointError


@pytest.fixture
def root(tmp_path):
    """Step 100 is complete, step 200 has neither its state file nor its marker."""
    write_folder(tmp_path, 100, complete=True)
    write_folder(tmp_path, 200, complete=False)
    (tmp_path / "latest").symlink_to("step_200")
    (tmp_path / "latest_dangling").symlink_to("step_999")
    (tmp_path / "outside").symlink_to("../other/step_100")
    for name, text in {
        "latest_iteration.txt": "200\n",
        "good.txt": " 100\n\n",
        "folder.txt": "step_100",
        "tracker_300.txt": "300",
        "tracker_empty.txt": "",
        "tracker_blank.txt": " \n",
        "tracker_path.txt": "../other/step_100",
        "tracker_long.txt": "1" * 5000,
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.case("C05")
@pytest.mark.parametrize(
    ("pointer", "words"),
    [
        pytest.param("latest", "names step 200, which is not complete", id="link to an incomplete one"),
        pytest.param(
            "latest_iteration.txt", "names step 200, which is not complete", id="tracker with newline"
        ),
        pytest.param("latest_dangling", "names 'step_999', and there is no such", id="dangling link"),
        pytest.param("tracker_300.txt", "names 300, and there is no such", id="unknown step"),
        pytest.param("tracker_empty.txt", "is empty", id="empty tracker"),
        pytest.param("tracker_blank.txt", "is empty", id="blank tracker"),
        pytest.param("tracker_path.txt", "neither a step nor", id="tracker with a path"),
        pytest.param("tracker_long.txt", "neither a step nor", id="tracker too long"),
        pytest.param("outside", "points outside", id="link outside"),
        pytest.param("nowhere", "cannot be read", id="no pointer"),
    ],
)
def test_a_pointer_that_leads_nowhere_is_refused(root, pointer, words):
    """The reason and the newest complete checkpoint are named; it is not taken instead."""
    with pytest.raises(CheckpointError) as caught:
        resolve_latest(root, pointer)

    assert words in str(caught.value)
    assert "newest complete checkpoint is step 100 (step_100)" in caught.value.hint


@pytest.mark.case("C05")
@pytest.mark.parametrize("pointer", ["good.txt", "folder.txt"])
def test_a_good_pointer_gives_step_and_folder(root, pointer):
    """A number with blanks, or a folder's name."""
    found = resolve_latest(root, pointer)

    assert (100, root / "step_100") == (found.step, found.folder)


def test_without_any_complete_checkpoint_the_refusal_says_so(tmp_path):
    """Nothing is invented."""
    write_folder(tmp_path, 200, complete=False)
    (tmp_path / "latest").symlink_to("step_200")

    with pytest.raises(CheckpointError, match="There is no complete checkpoint"):
        resolve_latest(tmp_path)


@pytest.mark.case("R01")
@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-9000", 9000),
        ("checkpoint-10000", 10000),
        ("iter_0009000", 9000),
        ("global_step200", 200),
        ("300", 300),
        ("step_00000100.attempt_2", 100),
        ("checkpoint-best", None),
        ("checkpoint-10000-merged", None),
        ("tmp-checkpoint-10200", None),
        ("step_12_", None),
        ("step_\u0661\u0662", None),
    ],
)
def test_only_plain_names_state_a_step(name, step):
    """A name with anything beside the step states none."""
    assert step == step_of(name)


@pytest.mark.case("R01")
def test_steps_are_ordered_as_numbers(tmp_path):
    """10000 comes after 9900, padded or not."""
    for step in (10000, 9900, 10100):
        write_checkpoint(tmp_path, step, name=f"checkpoint-{step}")
    write_checkpoint(tmp_path, 9000, name="iter_0009000")

    assert [9000, 9900, 10000, 10100] == [entry.step for entry in list_checkpoints(tmp_path)]
    assert 10100 == newest_complete(tmp_path).step


def test_two_folders_of_one_step_are_refused(tmp_path):
    """Which of them is meant cannot be known."""
    write_checkpoint(tmp_path, 100, name="step_100")
    write_checkpoint(tmp_path, 100, name="step_0100")
    (tmp_path / "latest").write_text("100")

    with pytest.raises(CheckpointError, match="several folders"):
        resolve_latest(tmp_path)


def test_a_later_attempt_stands_behind_the_first(tmp_path):
    """Its folder says which attempt it is of, by number."""
    for name in ("step_100.attempt_10", "step_100.attempt_2", "step_100"):
        write_checkpoint(tmp_path, 100, name=name)

    assert [None, 2, 10] == [entry.attempt for entry in list_checkpoints(tmp_path)]


def test_a_name_that_contradicts_its_state_file_is_not_complete(tmp_path):
    """The folder says one step, its state another."""
    write_checkpoint(tmp_path, 100, name="step_300")

    assert "step 300, its state file 100" in list_checkpoints(tmp_path)[0].problems[0]


@pytest.mark.parametrize("name", [".step_100", "step_100.tmp", "tmp-step_100", "step_100.partial"])
def test_a_folder_being_written_does_not_count(tmp_path, name):
    """Until it is renamed, it is nobody's checkpoint."""
    write_checkpoint(tmp_path, 100, name=name)

    assert newest_complete(tmp_path) is None
