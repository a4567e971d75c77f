"""The same configuration and data give the same run bit for bit, in one go or in several."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.integration.trainer.harness import Attempt, configured, tensors, write_corpus

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus for all tests of this file."""
    return write_corpus(tmp_path_factory.mktemp("data") / "corpus")


@pytest.fixture(scope="module")
def whole(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """A run that nobody disturbs."""
    attempt = Attempt(folder=tmp_path_factory.mktemp("whole"), manifest=manifest)
    attempt.run()
    return attempt


def test_two_runs_agree_bit_for_bit(whole: Attempt, manifest: Path, tmp_path: Path) -> None:
    """Losses, weights and optimizer state of two runs are the same bits."""
    again = Attempt(folder=tmp_path, manifest=manifest)
    again.run()
    assert list(range(1, 13)) == list(whole.losses())
    assert whole.losses() == again.losses()
    assert tensors(whole.saved(12)) == tensors(again.saved(12))


def test_another_seed_gives_another_run(whole: Attempt, manifest: Path, tmp_path: Path) -> None:
    """The agreement above is not an accident of constant output."""
    other = Attempt(folder=tmp_path, manifest=manifest, configuration=configured(seed=8))
    other.run()
    assert not set(whole.losses().values()) & set(other.losses().values())


@pytest.mark.requirement("R027", "R082")
@pytest.mark.parametrize("step", [5, 10])
def test_resume_continues_the_exact_sequence(
    whole: Attempt, manifest: Path, tmp_path: Path, step: int
) -> None:
    """What follows a resume equals the undisturbed run: losses, weights, optimizer, data position."""
    rest = Attempt(folder=tmp_path, manifest=manifest, resume_from=whole.saved(step), number=2)
    rest.run()
    assert {k: v for k, v in whole.losses().items() if k > step} == rest.losses()
    assert tensors(whole.saved(12)) == tensors(rest.saved(12))
    assert (whole.saved(12) / "state.json").read_bytes() == (rest.saved(12) / "state.json").read_bytes()


def test_the_data_position_counts_windows(whole: Attempt) -> None:
    """Epoch and offset of a checkpoint say how many windows were taken: batch × step."""
    epochs = [json.loads((whole.saved(s) / "state.json").read_bytes())["data_position"] for s in (5, 12)]
    batches = [p["epoch"] * p["windows"] + p["offset"] for p in epochs]
    assert [5 * 4, 12 * 4] == batches


def test_resume_crosses_the_end_of_an_epoch(manifest: Path, tmp_path: Path) -> None:
    """With more steps than the data has batches the resumed sequence is still the same."""
    long = configured(steps=60, checkpoint_every=20, evaluate_every=0)
    first = Attempt(folder=tmp_path / "first", manifest=manifest, configuration=long)
    first.run()
    position = json.loads((first.saved(20) / "state.json").read_bytes())["data_position"]
    assert position["epoch"] < 60 * 4 // position["windows"]
    rest = Attempt(
        folder=tmp_path / "rest", manifest=manifest, configuration=long, resume_from=first.saved(20)
    )
    rest.run()
    assert {k: v for k, v in first.losses().items() if k > 20} == rest.losses()
    assert tensors(first.saved(60)) == tensors(rest.saved(60))


def test_a_terminated_run_can_be_resumed(manifest: Path, tmp_path: Path) -> None:
    """SIGTERM: the step ends, a checkpoint is written, status 143, no end marker; the rest is the same run."""
    long = configured(steps=1500, checkpoint_every=1000, evaluate_every=0)
    undisturbed = Attempt(folder=tmp_path / "undisturbed", manifest=manifest, configuration=long)
    undisturbed.run()
    first = Attempt(folder=tmp_path / "first", manifest=manifest, configuration=long)
    process = first.start()
    deadline = time.monotonic() + 120
    while not first.losses() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert not first.completed()
    last = first.events("checkpoint")[-1]
    assert max(first.losses()) == last["step"] < 1500
    rest = Attempt(
        folder=tmp_path / "rest", manifest=manifest, configuration=long, resume_from=Path(last["path"])
    )
    rest.run()
    assert undisturbed.losses() == first.losses() | rest.losses()
    assert tensors(undisturbed.saved(1500)) == tensors(rest.saved(1500))


def test_resuming_a_finished_run_says_so(whole: Attempt, manifest: Path, tmp_path: Path) -> None:
    """Nothing is left to do: the end marker is written, no step is repeated."""
    rest = Attempt(folder=tmp_path, manifest=manifest, resume_from=whole.saved(12))
    rest.run()
    assert rest.completed()
    assert rest.losses() == {}


def test_two_processes_train_the_same_model(whole: Attempt, manifest: Path, tmp_path: Path) -> None:
    """Two processes share each batch: one of them writes, losses differ from one process by rounding only."""
    pair = Attempt(folder=tmp_path / "pair", manifest=manifest)
    pair.run(before=TORCHRUN)
    assert list(whole.losses()) == [line["step"] for line in pair.events("metric") if line["name"] == "loss"]
    assert pytest.approx(list(whole.losses().values()), rel=1e-4) == list(pair.losses().values())
    assert pair.completed()
    rest = Attempt(folder=tmp_path / "rest", manifest=manifest, resume_from=pair.saved(5), number=2)
    rest.run(before=TORCHRUN)
    assert {k: v for k, v in pair.losses().items() if k > 5} == rest.losses()
    assert tensors(pair.saved(12)) == tensors(rest.saved(12))


def test_metrics_of_the_contract(whole: Attempt) -> None:
    """Every metric, data read, checkpoint and the end marker are there, with step, tokens and time."""
    names = {line["name"] for line in whole.events("metric")}
    assert {"loss", "learning_rate", "tokens_per_second", "validation_bits_per_byte"} == names
    assert all(line["tokens"] == line["step"] * 4 * 16 for line in whole.events("metric"))
    reads = [line for line in whole.events("data_read") if "seconds" in line]
    assert [0] == [line["worker"] for line in whole.events("data_read") if "manifest_digest" in line]
    assert [0, 3, 6, 9, 12] == [line["step"] for line in reads]
    assert all(line["bytes"] > 0 and line["seconds"] >= 0 for line in reads)
    assert [5, 10, 12] == [line["step"] for line in whole.events("checkpoint")]
    assert {"event": "note", "complete": True, "step": 12} == {
        k: v for k, v in whole.events()[-1].items() if k not in {"text", "at"}
    }
    assert whole.losses()[12] < whole.losses()[1]
