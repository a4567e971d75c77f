"""Wrong input is one clear line on standard error and status 2, before anything is trained."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.trainer.harness import Attempt, configured, write_corpus


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """A run with good input, not started yet."""
    return Attempt(folder=tmp_path / "attempt", manifest=write_corpus(tmp_path / "data"))


def _rewrite(attempt: Attempt, change: Callable[[list[dict[str, object]]], None]) -> None:
    lines = [json.loads(line) for line in attempt.manifest.read_text(encoding="utf-8").splitlines()]
    change(lines)
    attempt.manifest.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _no_config(attempt: Attempt) -> None:
    (attempt.folder / "config.json").unlink()


def _half_config(attempt: Attempt) -> None:
    (attempt.folder / "config.json").write_text('{"model": ', encoding="utf-8")


def _empty_manifest(attempt: Attempt) -> None:
    attempt.manifest.write_text("\n", encoding="utf-8")


def _changed_file(attempt: Attempt) -> None:
    path = attempt.manifest.parent / "document 0.txt"
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))


def _missing_file(attempt: Attempt) -> None:
    (attempt.manifest.parent / "document 7.txt").unlink()


def _no_validation(attempt: Attempt) -> None:
    _rewrite(attempt, lambda lines: [line.update(split="train") for line in lines] and None)


def _remote(attempt: Attempt) -> None:
    _rewrite(attempt, lambda lines: lines[2].update(location="s3://bucket/key"))


def _twice(attempt: Attempt) -> None:
    _rewrite(attempt, lambda lines: lines[1].update(path=lines[0]["path"]))


def _too_little(attempt: Attempt) -> None:
    config = configured(context=4096)
    (attempt.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(_no_config, "config.json: cannot be read: No such file", id="no configuration"),
        pytest.param(_half_config, "is not JSON", id="half a configuration"),
        pytest.param(_empty_manifest, "names no file", id="empty manifest"),
        pytest.param(_changed_file, "'document 0.txt'", id="data changed"),
        pytest.param(_missing_file, "'document 7.txt'", id="data missing"),
        pytest.param(_no_validation, "no file has split 'validation'", id="no validation split"),
        pytest.param(_remote, "line 3: location 's3://bucket/key' is not a local file", id="remote location"),
        pytest.param(_twice, "'document 0.txt' is named more than once", id="named twice"),
        pytest.param(_too_little, "fewer than one window", id="less than a window"),
    ],
)
def test_unusable_input(attempt: Attempt, spoil: Callable[[Attempt], None], words: str) -> None:
    """Nothing is trained and the line names what is wrong."""
    spoil(attempt)
    errors = attempt.call()
    assert words in errors
    assert len(errors.splitlines()) == 1
    assert not attempt.losses()
    assert not attempt.completed()


def test_missing_variables_are_all_named(attempt: Attempt) -> None:
    """Both absent variables are in the line."""
    errors = attempt.run(expected=2, PRETRAIN_ARCHIVE_CONFIG="", PRETRAIN_ARCHIVE_EVENTS="")
    assert "PRETRAIN_ARCHIVE_CONFIG, PRETRAIN_ARCHIVE_EVENTS not set" in errors


def test_a_batch_that_cannot_be_shared(attempt: Attempt) -> None:
    """Three processes cannot share four windows."""
    errors = attempt.call(RANK="0", WORLD_SIZE="3")
    assert "Give a multiple of 3" in errors


def test_a_loss_that_is_not_finite_ends_the_run(attempt: Attempt) -> None:
    """The metric is reported as it is, and no checkpoint is made of such weights."""
    config = configured(learning_rate=1000.0, matrix_learning_rate=1000.0, clip=1e6, steps=400)
    config |= {"checkpoint_every": 400, "evaluate_every": 0}
    config["optimisation"] |= {"warmup": 0, "weight_decay": 10.0}
    wild = Attempt(folder=attempt.folder, manifest=attempt.manifest, configuration=config)
    errors = wild.call()
    last = max(wild.losses())
    assert f"step {last}: the loss is" in errors
    assert not abs(wild.losses()[last]) < float("inf")
    assert not wild.events("checkpoint")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """A run that went to its end."""
    folder = tmp_path_factory.mktemp("finished")
    attempt = Attempt(folder=folder / "attempt", manifest=write_corpus(folder / "data"))
    attempt.run()
    return attempt


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"steps": 24}, "optimisation.steps is 24 here and 12 in the checkpoint", id="schedule"),
        pytest.param({"seed": 8}, "seed is 8 here and 7", id="seed"),
        pytest.param({"threads": 2}, "threads is 2 here and 1", id="threads"),
        pytest.param({"width": 32}, "model.width is 32 here and 16", id="shape"),
    ],
)
@pytest.mark.parametrize("program", ["train", "evaluate"])
def test_a_configuration_that_changes_the_sequence(
    finished: Attempt, tmp_path: Path, changes: dict[str, int], words: str, program: str
) -> None:
    """Both programs refuse a checkpoint of another configuration and name the field."""
    rest = Attempt(
        folder=tmp_path,
        manifest=finished.manifest,
        resume_from=finished.saved(5),
        configuration=configured(**changes),
    )
    assert words in rest.call(program)
    assert not rest.losses()
    assert not rest.report.exists()


def test_looking_more_often_is_allowed(finished: Attempt, tmp_path: Path) -> None:
    """How often to look and save does not change the sequence."""
    often = configured(checkpoint_every=1, evaluate_every=2, log_every=1)
    rest = Attempt(
        folder=tmp_path, manifest=finished.manifest, resume_from=finished.saved(5), configuration=often
    )
    rest.call(expected=0)
    assert {k: v for k, v in finished.losses().items() if k > 5} == rest.losses()


def _unmarked(checkpoint: Path) -> None:
    (checkpoint / ".complete").unlink()


def _cut(checkpoint: Path) -> None:
    path = checkpoint / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def _no_moments(checkpoint: Path) -> None:
    shutil.copyfile(checkpoint / "model.safetensors", checkpoint / "optimizer.safetensors")


def _other_state(checkpoint: Path) -> None:
    (checkpoint / "state.json").write_text("[]", encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(_unmarked, "has no .complete", id="unfinished"),
        pytest.param(_cut, "cannot be read", id="cut weights"),
        pytest.param(_no_moments, "optimizer.safetensors: nothing for", id="another optimizer"),
        pytest.param(_other_state, "cannot be read", id="no state"),
        pytest.param(shutil.rmtree, "is not a folder", id="gone"),
    ],
)
def test_a_damaged_checkpoint(
    finished: Attempt, tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    """A checkpoint that is not whole is not resumed from."""
    copy = tmp_path / "copy"
    shutil.copytree(finished.saved(5), copy)
    spoil(copy)
    rest = Attempt(folder=tmp_path / "rest", manifest=finished.manifest, resume_from=copy)
    assert words in rest.call()
    assert not rest.losses()


def test_other_data_is_refused(finished: Attempt, tmp_path: Path) -> None:
    """The checkpoint knows which training data its sequence ran over."""
    other = write_corpus(tmp_path / "other", seed=2)
    rest = Attempt(folder=tmp_path / "rest", manifest=other, resume_from=finished.saved(5))
    assert "was trained on data sha256:" in rest.call()


def test_another_number_of_processes_is_refused(finished: Attempt, tmp_path: Path) -> None:
    """Sums of two processes round otherwise than one's."""
    copy = tmp_path / "copy"
    shutil.copytree(finished.saved(5), copy)
    state = json.loads((copy / "state.json").read_bytes()) | {"processes": 2}
    (copy / "state.json").write_text(json.dumps(state), encoding="utf-8")
    rest = Attempt(folder=tmp_path / "rest", manifest=finished.manifest, resume_from=copy)
    assert "was written by 2 processes, here are 1" in rest.call()
