"""A checkpoint is whole or absent, whatever happens while it is written; seen at the system calls."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from tests.integration.trainer.harness import Attempt, configured, tensors, write_corpus

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
ONE = configured(steps=3, checkpoint_every=3, evaluate_every=0)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """A run of three steps that saves once, not started yet."""
    return Attempt(folder=tmp_path / "attempt", manifest=write_corpus(tmp_path / "data"), configuration=ONE)


def _traced(log: Path, calls: str, inject: str = "") -> tuple[str, ...]:
    extra = ("-e", f"inject={inject}") if inject else ()
    return (
        "strace",
        "-f",
        "-qq",
        "-y",
        "-s",
        "400",
        "-o",
        str(log),
        "-e",
        f"trace={calls}",
        *extra,
        sys.executable,
    )


def test_flush_then_name_then_event(attempt: Attempt, tmp_path: Path) -> None:
    """Five files and their folder are flushed, then renamed, then the folder around is flushed, then the event."""
    log = tmp_path / "trace"
    attempt.run(before=_traced(log, "fsync,/^rename,write"))
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    kept = [
        line
        for line in lines
        if re.search(r"fsync\(|rename\w*\(", line) or '\\"event\\": \\"checkpoint' in line
    ]
    renamed = next(i for i, line in enumerate(kept) if "rename" in line and "step_00000003" in line)
    flushed = [line for line in kept[:renamed] if "fsync" in line]
    for name in ("model.safetensors", "optimizer.safetensors", "state.json", "config.json", ".complete"):
        assert any(f"/{name}>" in line for line in flushed), name
    assert re.search(r"fsync\(\d+<[^>]*/\.tmp_step_00000003_\d+>\)", flushed[-1])
    assert "fsync" in kept[renamed + 1]
    assert f"{attempt.checkpoint_folder}>" in kept[renamed + 1]
    assert "step_00000003" in kept[renamed + 2]
    assert "write(" in kept[renamed + 2]


@pytest.mark.parametrize("number", [1, 3, 6])
def test_a_full_disk(attempt: Attempt, tmp_path: Path, number: int) -> None:
    """No space at any flush: status 2, one line with path and bytes needed, nothing left, no event."""
    errors = attempt.run(
        expected=2, before=_traced(tmp_path / "trace", "fsync", f"fsync:error=ENOSPC:when={number}")
    )
    assert re.search(r"step_00000003: cannot be written, \d+ bytes are needed: No space left", errors)
    assert [] == list(attempt.checkpoint_folder.iterdir())
    assert not attempt.events("checkpoint")
    assert not attempt.completed()


@pytest.mark.parametrize("number", [2, 6])
def test_killed_while_writing(attempt: Attempt, tmp_path: Path, number: int) -> None:
    """SIGKILL at a flush leaves no checkpoint; the next attempt clears up, says so and gets through."""
    attempt.run(expected=-9, before=_traced(tmp_path / "trace", "fsync", f"fsync:signal=KILL:when={number}"))
    (left,) = attempt.checkpoint_folder.iterdir()
    assert left.name.startswith(".tmp_step_00000003_")
    assert not attempt.events("checkpoint")
    again = Attempt(
        folder=tmp_path / "again", manifest=attempt.manifest, configuration=ONE,
        checkpoints=attempt.checkpoint_folder, number=2,
    )  # fmt: skip
    again.call(expected=0)
    assert [f"removed the unfinished checkpoint {left.name}"] == [
        line["text"] for line in again.events("note") if not line.get("complete")
    ]
    assert [again.saved(3)] == list(attempt.checkpoint_folder.iterdir())


def test_a_name_that_is_taken(attempt: Attempt, tmp_path: Path) -> None:
    """The same bytes stay as they are; other bytes are never written over."""
    attempt.call(expected=0)
    kept = tensors(attempt.saved(3))
    for number, config in ((2, ONE), (3, configured(steps=3, checkpoint_every=3, evaluate_every=0, seed=8))):
        again = Attempt(
            folder=tmp_path / f"again {number}", manifest=attempt.manifest, configuration=config,
            checkpoints=attempt.checkpoint_folder, number=number,
        )  # fmt: skip
        again.call(expected=0)
        name = "step_00000003" if number == 2 else "step_00000003.attempt_3"
        assert [str(attempt.checkpoint_folder / name)] == [e["path"] for e in again.events("checkpoint")]
        assert (attempt.checkpoint_folder / name / ".complete").is_file()
        assert kept == tensors(attempt.saved(3))
