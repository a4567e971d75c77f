"""A resume goes on from a checkpoint that holds at that moment, and says what does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.main_line import Line
from tests.support.recovering_program import recovering_line

from pretrain_archive.domain import kinds


def _flip(folder: Path) -> None:
    path = folder / "weights-1.bin"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def _tear(folder: Path) -> None:
    path = folder / "state.json"
    path.write_bytes(path.read_bytes()[:7])


def _drop_shard(folder: Path) -> None:
    (folder / "weights-0.bin").unlink()


def _add(folder: Path) -> None:
    (folder / "weights-2.bin").write_bytes(b"more")


def checkpoint(line: Line, step: int) -> Path:
    """Where the checkpoint of a step lies."""
    return line.runs_folder / line.run_uid / "checkpoints" / f"step_{step:08d}"


def started(line: Line, attempt: int) -> kinds.AttemptStarted:
    """How an attempt began."""
    return next(s for _, s in line.view().all(kinds.AttemptStarted) if s.attempt == attempt)


def reconciled(line: Line, attempt: int) -> kinds.AttemptReconciled:
    """What was compared after an attempt took over."""
    return next(r for _, r in line.view().all(kinds.AttemptReconciled) if r.attempt == attempt)


def refused(line: Line) -> list[tuple[int, str]]:
    """Steps whose checkpoint was refused, with the first reason."""
    return [(r.step or 0, r.problems[0]) for _, r in line.view().all(kinds.CheckpointRefused)]


@pytest.mark.requirement("R095")
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        pytest.param(shutil.rmtree, "its folder is gone", id="disappeared"),
        pytest.param(_flip, "weights-1.bin: expected 256 bytes, sha256:", id="a changed byte"),
        pytest.param(_drop_shard, "weights-0.bin missing", id="a missing shard"),
        pytest.param(_tear, "state.json: expected", id="torn metadata"),
        pytest.param(_add, "weights-2.bin: not recorded", id="a file too many"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_taken(
    tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    """What was verified when it was registered is read again before the launch; the fall-back is said everywhere."""
    line = recovering_line(Line(folder=tmp_path), die_at={"1": 45})
    assert ("failed", 45, 40) == ((end := line.launch()).state, end.last_step, end.last_checkpoint_step)
    damage(checkpoint(line, 40))
    ended = line.launch(try_number=2)
    begun, done = started(line, 2), reconciled(line, 2)

    assert ("completed", 2) == (ended.state, ended.attempt)
    assert (30, str(checkpoint(line, 30))) == (begun.resume_step, begun.resume_from)
    assert 1 == len(begun.resume_refused)
    assert f"step 40 does not hold: {says}" in begun.resume_refused[0]
    assert [(40, True)] == [(step, says in reason) for step, reason in refused(line)]
    assert any("step 40" in said and "falling back" in said for said in line.said)
    assert (15, 15) == (done.steps_lost, done.steps_repeated)
    assert 15 == ended.steps_repeated
    assert {"verified"} == {c["verdict"] for c in done.checks if c["name"] != "checkpoints"}


def test_two_damaged_checkpoints_are_passed_over_and_steps_are_counted_truly(tmp_path: Path) -> None:
    """A fall-back by two costs more than the end of the attempt could know: the reconciliation says how much."""
    line = recovering_line(Line(folder=tmp_path), die_at={"1": 45})
    assert 5 == line.launch().steps_lost
    _flip(checkpoint(line, 40))
    _tear(checkpoint(line, 30))
    ended = line.launch(try_number=2)
    done = reconciled(line, 2)

    assert (20, 2) == (started(line, 2).resume_step, len(started(line, 2).resume_refused))
    assert [40, 30] == [step for step, _ in refused(line)]
    assert (25, 25, 25) == (done.steps_lost, done.steps_repeated, ended.steps_repeated)
    assert list(range(21, 61)) == [
        p.step for _, b in line.view().all(kinds.MetricsRecorded) if b.attempt == 2 for p in b.points
        if p.name == "loss"
    ]  # fmt: skip


def test_where_none_holds_the_attempt_starts_from_zero_and_says_so(tmp_path: Path) -> None:
    """Nothing is resumed from what cannot be proved."""
    line = recovering_line(Line(folder=tmp_path), die_at={"1": 25})
    line.launch()
    for step in (10, 20):
        _flip(checkpoint(line, step))
    ended = line.launch(try_number=2)
    begun, done = started(line, 2), reconciled(line, 2)

    assert ("completed", None, None, 2) == (
        ended.state, begun.resume_step, begun.resume_from, len(begun.resume_refused)
    )  # fmt: skip
    assert "none of 2 checkpoints holds: the attempt starts from step 0" in line.said
    assert (25, 25) == (done.steps_lost, done.steps_repeated)
    assert 1 == min(p.step for _, b in line.view().all(kinds.MetricsRecorded) if b.attempt == 2 for p in b.points
                    if p.name == "loss")  # fmt: skip


def test_attempts_are_numbered_without_a_gap_and_a_finding_is_recorded_once(tmp_path: Path) -> None:
    """Three attempts, the same damage found twice: numbers 1 to 3, one refusal, the repaired file counts again."""
    line = recovering_line(Line(folder=tmp_path), die_at={"1": 25, "2": 28})
    line.launch()
    kept = (checkpoint(line, 20) / "weights-1.bin").read_bytes()
    _flip(checkpoint(line, 20))
    line.launch(try_number=2)
    assert 10 == started(line, 2).resume_step
    (checkpoint(line, 20) / "weights-1.bin").write_bytes(kept)
    ended = line.launch(try_number=3)

    numbers = [i.attempt for i, _ in line.view().all(kinds.LaunchIntended)]
    assert ([1, 2, 3], "completed") == (numbers, ended.state)
    assert [20] == [step for step, _ in refused(line)]
    assert 20 == started(line, 3).resume_step
    assert [2, 3] == [r.attempt for _, r in line.view().all(kinds.AttemptReconciled)]
