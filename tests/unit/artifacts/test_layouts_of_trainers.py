"""Folders as training programs really write them, by PyTorch's own writers: what counts, and what is torn."""

from __future__ import annotations

import json
import warnings
from collections import OrderedDict
from pathlib import Path

import pytest
from tests.support.artifact_files import safetensors, tensor

from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.formats.parts import component_of
from pretrain_archive.artifacts.pointers import step_of

INDEX = {
    "sharded_backend": "torch_dist",
    "sharded_backend_version": 1,
    "common_backend": "torch",
    "common_backend_version": 1,
}


def saved(folder: Path, *names: str) -> Path:
    """Files of ``torch.save``, each with a small tensor."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        torch.save(OrderedDict(w=torch.ones(4)), folder / name)
    return folder


def weights(folder: Path, name: str = "model.safetensors") -> Path:
    """A whole file of weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(safetensors({"w": tensor(0, 8)}, b"\0" * 8))
    return folder


def distributed(folder: Path, writer: object = None, **state: object) -> Path:
    """A distributed checkpoint of one process."""
    import torch
    import torch.distributed.checkpoint as torch_dcp

    held = state or {"module.decoder.w": torch.ones(4, 4), "optimizer.state.exp_avg": torch.ones(4, 4)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch_dcp.save(held, storage_writer=writer or torch_dcp.FileSystemWriter(folder), no_dist=True)  # type: ignore[arg-type]
    return folder


def problems(folder: Path) -> tuple[str, ...]:
    """What speaks against a folder."""
    return inspect(folder).problems


@pytest.mark.requirement("R101")
def test_a_trainers_checkpoint_of_real_files_counts(tmp_path):
    """Weights, optimizer, scheduler, random state and the trainer's state, as ``Trainer`` leaves them."""
    folder = weights(saved(tmp_path / "checkpoint-100", "optimizer.pt", "scheduler.pt", "rng_state.pth"))
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    assert ("no trainer_state.json beside optimizer.pt: the writer did not finish",) == problems(folder)

    (folder / "trainer_state.json").write_text('{"global_step": 100}')
    seen = inspect(folder)

    assert ("huggingface", 100, ()) == (seen.format, seen.step, seen.problems)


def test_accelerate_ends_with_the_random_states(tmp_path):
    """Weights with an optimizer beside them are no exported model: until the last file is there they are torn."""
    folder = weights(saved(tmp_path / "checkpoint_0", "optimizer.bin", "scheduler.bin", "sampler.bin"))
    assert ("no .complete marker beside optimizer.bin: the writer did not finish",) == problems(folder)

    (folder / "random_states_0.pkl").write_bytes(b"\x80\x04.")

    assert ("safetensors", ()) == (inspect(folder).format, problems(folder))
    assert ["data_state"] * 2 == [component_of(name) for name in ("sampler.bin", "dl_state_dict.bin")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, "safetensors-sharded", id="one writer"),
        pytest.param({"save_distributed": True}, "safetensors", id="a part by each rank"),
        pytest.param(
            {"save_distributed": True, "enable_consolidation": True}, "safetensors-sharded", id="consolidated"
        ),
    ],
)
def test_hugging_face_files_of_torchs_distributed_writer(tmp_path, options, expected):
    """The shards of ranks have no index; where they were brought together they stay beside the result."""
    import torch
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

    folder = tmp_path / "step-100"
    folder.mkdir()
    writer = HuggingFaceStorageWriter(str(folder), fqn_to_index_mapping={"a": 1, "b": 2}, **options)
    distributed(folder, writer, a=torch.ones(4), b=torch.ones(4))

    assert (expected, ()) == (inspect(folder).format, problems(folder))
    next(path for path in sorted(folder.rglob("*-00001-of-00002*"))).unlink()
    assert 1 == len(problems(folder))


@pytest.mark.parametrize("below", ["", "weights"], ids=["Megatron-core", "NeMo 2"])
def test_a_megatron_index_is_checked_where_it_lies(tmp_path, below):
    """NeMo 2 keeps the checkpoint in ``weights`` beside ``context``."""
    folder = tmp_path / "gpt--val_loss=1.00-step=9-consumed_samples=80.0-last"
    inner = saved(distributed(folder / below), "common.pt")
    (inner / "metadata.json").write_text(json.dumps(INDEX))
    (folder / "context").mkdir()
    (folder / "context" / "model.yaml").write_text("x: 1\n")
    assert ("megatron-distributed", ()) == (inspect(folder).format, problems(folder))

    (inner / "common.pt").unlink()
    assert (f"{below}/common.pt is missing".lstrip("/"),) == problems(folder)

    saved(inner, "common.pt")
    (inner / ".metadata").unlink()
    assert f"{below}/.metadata".lstrip("/") in problems(folder)[0]


def test_megatrons_older_way_of_saving_is_named(tmp_path):
    """Arrays of zarr are not read, and that is the reason that is told."""
    folder = saved(tmp_path / "iter_0000100", "common.pt")
    (folder / "metadata.json").write_text('{"sharded_backend": "zarr"}')

    assert "metadata.json: saved as zarr, which is not read: convert it to torch_dist" == problems(folder)[0]


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        ([], ()),
        (["mp_rank_01_model_states.pt"], ("mp_rank_01_model_states.pt is missing",)),
        (
            [
                "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt",
                "bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt",
            ],
            ("mp_rank_01 has no optimizer states: other ranks have theirs",),
        ),
    ],
    ids=["whole", "the last rank's weights", "the last rank's optimizer"],
)
def test_a_last_rank_of_deepspeed_that_is_gone_shows_in_the_other_half(tmp_path, gone, expected):
    """Weights and optimizer name the same model-parallel ranks."""
    names = [f"mp_rank_0{rank}_model_states.pt" for rank in (0, 1)]
    names += [f"bf16_zero_pp_rank_{d}_mp_rank_0{mp}_optim_states.pt" for d in (0, 1) for mp in (0, 1)]
    folder = saved(tmp_path / "global_step100", *names)
    for name in gone:
        (folder / name).unlink()

    assert expected == problems(folder)


def test_numbers_of_six_digits_are_shards_too(tmp_path):
    """One of two, of which the index names only the one."""
    shard = "model-000001-of-000002.safetensors"
    folder = weights(tmp_path / "model", shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": shard}}))

    assert ("model.safetensors.index.json names 1 shards of model, their names say 2",) == problems(folder)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("gpt--val_loss=10.82-step=9-consumed_samples=80.0", 9),
        ("gpt--val_loss=10.82-step=9-consumed_samples=80.0-last", 9),
        ("epoch=0-step=100.ckpt", 100),
        ("epoch=0-step=100-v1.ckpt", 100),
        ("step-100", 100),
        ("step=100-merged", None),
        ("substep=3", None),
        ("epoch_3", None),
    ],
)
def test_steps_in_names(name, step):
    """What NeMo, Lightning and torchtitan call their folders; a name with more in it states no step."""
    assert step == step_of(name)
