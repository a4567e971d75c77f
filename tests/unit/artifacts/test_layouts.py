"""Folders as Hugging Face, Megatron-LM, NeMo and DeepSpeed write them, and archives that were cut."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.artifact_files import safetensors, tensor, write_sharded

from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.formats.parts import component_of, component_of_tensor
from pretrain_archive.artifacts.formats.ranks import problems as rank_problems
from pretrain_archive.artifacts.formats.torchfile import problem_of
from pretrain_archive.artifacts.pointers import find_pointer, list_checkpoints, resolve_latest
from pretrain_archive.artifacts.readers import FileEntry, FolderReader
from pretrain_archive.domain.errors import CheckpointError


def archive(size: int = 64) -> bytes:
    """What ``torch.save`` writes: a ZIP file with a pickle and tensors' bytes, nothing compressed."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps({"w": 1}))
        file.writestr("archive/data/0", b"\1" * size)
    return raw.getvalue()


def write(folder: Path, **files: bytes) -> Path:
    """A folder with these files; ``__`` in a name is a ``/``, ``_DOT_`` a dot."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def hugging_face(folder: Path, *, trained: bool = False) -> Path:
    """A model as ``save_pretrained`` writes it; ``trained`` as a Trainer's checkpoint."""
    write_sharded(folder)
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 32,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "generation_config.json").write_text("{}")
    if trained:
        (folder / "optimizer.pt").write_bytes(archive())
        (folder / "scheduler.pt").write_bytes(archive(8))
        (folder / "rng_state.pth").write_bytes(archive(16))
        history = '{"global_step": 500, "num_input_tokens_seen": 0, "log_history": [{"loss": NaN}]}'
        (folder / "trainer_state.json").write_text(history)
    return folder


@pytest.mark.requirement("R101", "R102")
def test_a_hugging_face_model_says_what_it_is(tmp_path):
    """Format, architecture, tokenizer and generation settings; no marker is asked for."""
    seen = inspect(hugging_face(tmp_path / "model"))

    assert ("huggingface", (), 2) == (seen.format, seen.problems, seen.tensor_count)
    facts = seen.facts
    assert ("llama", ["LlamaForCausalLM"], ["tokenizer.json"], True) == (
        facts["model_type"], facts["architectures"], facts["tokenizer"], facts["generation_config"],
    )  # fmt: skip


def test_a_trainers_checkpoint_gives_its_step_and_its_parts(tmp_path):
    """The loss that is NaN in its history is no fault of its state file; zero tokens are tokens not counted."""
    seen = inspect(hugging_face(tmp_path / "checkpoint-500", trained=True))

    assert ("huggingface", (), 500, None) == (seen.format, seen.problems, seen.step, seen.tokens)
    assert len(archive()) == seen.components["optimizer"]
    state = len(archive(16)) + (tmp_path / "checkpoint-500" / "trainer_state.json").stat().st_size
    assert state == seen.components["data_state"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(
            lambda d: (d / "trainer_state.json").unlink(), "the writer did not finish", id="no state"
        ),
        pytest.param(
            lambda d: (d / "optimizer.pt").write_bytes(archive()[:-40]),
            "optimizer.pt is cut",
            id="optimizer cut",
        ),
        pytest.param(
            lambda d: (d / "config.json").write_text("{"), "config.json: not valid JSON", id="config broken"
        ),
        pytest.param(
            lambda d: (d / "config.json").write_text("[" * 100_000),
            "config.json: ",
            id="config nested deeply",
        ),
        pytest.param(
            lambda d: (d / "trainer_state.json").write_text('{"global_step": "5"}'),
            "whole number",
            id="step as text",
        ),
        pytest.param(
            lambda d: (d / "model-00002-of-00002.safetensors").unlink(),
            "which is missing",
            id="shard missing",
        ),
    ],
)
def test_a_trainers_checkpoint_that_is_not_whole(tmp_path, spoil, words):
    """Each is one problem, with its file."""
    folder = hugging_face(tmp_path / "checkpoint-500", trained=True)
    spoil(folder)

    found = inspect(folder).problems

    assert 1 == len(found), found
    assert words in found[0]


@pytest.mark.case("C01")
@pytest.mark.parametrize(
    "shard", ["../secret.bin", "/etc/passwd", "a/b.bin", "..", "", "a\\b", "..%2Fx/..", 7, None, ["x"]]
)
@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_an_index_cannot_name_a_file_elsewhere(tmp_path, shard, kind):
    """Only a file beside it is a shard, whatever stands in the map."""
    folder = write_sharded(tmp_path / "model")
    name = "model.safetensors.index.json" if kind == "safetensors" else "pytorch_model.bin.index.json"
    (folder / name).write_text(json.dumps({"weight_map": {"a": shard}}))

    assert any("expected a file beside it" in problem for problem in inspect(folder).problems)


@pytest.mark.case("C01")
def test_shards_of_pytorch_files_are_counted_by_their_names(tmp_path):
    """Their tensors cannot be read, but that one of three is missing can."""
    names = [f"pytorch_model-0000{n}-of-00003.bin" for n in (1, 2, 3)]
    folder = tmp_path / "model"
    folder.mkdir()
    for name in names[:2]:
        (folder / name).write_bytes(archive())
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    index = folder / "pytorch_model.bin.index.json"

    index.write_text(json.dumps({"weight_map": {f"t{n}": name for n, name in enumerate(names)}}))
    assert (f"{index.name} names {names[2]}, which is missing",) == inspect(folder).problems
    index.write_text(json.dumps({"weight_map": {f"t{n}": name for n, name in enumerate(names[:2])}}))
    assert ("names 2 shards of pytorch_model, their names say 3") in inspect(folder).problems[0]
    (folder / names[2]).write_bytes(archive())
    index.write_text(json.dumps({"weight_map": {f"t{n}": name for n, name in enumerate(names)}}))
    assert () == inspect(folder).problems


def megatron(root: Path, step: int, ranks: list[str], *, tracker: str = "") -> Path:
    """An iteration as Megatron-LM writes it, one folder for each model-parallel rank."""
    folder = root / f"iter_{step:07d}"
    for rank in ranks:
        write(folder, **{f"{rank}__model_optim_rng.pt": archive()})
    if tracker:
        (root / "latest_checkpointed_iteration.txt").write_text(tracker)
    return folder


def test_a_megatron_iteration_is_read_through_its_tracker(tmp_path):
    """``100`` with a line's end is iteration 100; the record holds the folder and never the tracker's name."""
    megatron(tmp_path, 100, ["mp_rank_00", "mp_rank_01"], tracker="100\n")

    assert "latest_checkpointed_iteration.txt" == find_pointer(tmp_path)
    found = resolve_latest(tmp_path, "latest_checkpointed_iteration.txt")
    seen = inspect(found.reader)

    assert (100, "iter_0000100") == (found.step, found.name)
    assert ("megatron", (), 2 * len(archive())) == (seen.format, seen.problems, seen.components["weights"])


def test_a_release_must_say_its_step_itself(tmp_path):
    """The tracker's word ``release`` names a folder without a number; a state file in it may hold one."""
    write(tmp_path / "release", **{"mp_rank_00__model_optim_rng.pt": archive()})
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("release")

    with pytest.raises(CheckpointError, match="states no step"):
        resolve_latest(tmp_path, "latest_checkpointed_iteration.txt")
    write(tmp_path / "release", **{"state.json": b'{"step": 70}', ".complete": b""})
    assert (70, "release") == (
        (found := resolve_latest(tmp_path, "latest_checkpointed_iteration.txt")).step,
        found.name,
    )


@pytest.mark.parametrize(
    ("ranks", "missing"),
    [
        pytest.param(["mp_rank_00", "mp_rank_02"], ["mp_rank_01 is missing"], id="a tensor rank"),
        pytest.param(
            ["mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001"],
            ["mp_rank_01_001 is missing"],
            id="a pipeline rank",
        ),
        pytest.param(["mp_rank_01"], ["mp_rank_00 is missing"], id="the first"),
        pytest.param(
            ["mp_rank_00", "mp_rank_9999_9999_9999"],
            ["mp_rank_00_000_000 is missing"],
            id="a number to count up to for ever",
        ),
    ],
)
def test_a_rank_that_is_missing_is_named(tmp_path, ranks, missing):
    """By the numbers of the others."""
    folder = megatron(tmp_path, 100, ranks)

    assert missing == list(inspect(folder).problems)


def test_a_rank_without_its_optimizer_file_is_named(tmp_path):
    """Other ranks have it."""
    folder = megatron(tmp_path, 100, ["mp_rank_00", "mp_rank_01"])
    write(folder, **{"mp_rank_00__distrib_optim.pt": archive()})

    assert ("mp_rank_01/distrib_optim.pt is missing: other ranks have it",) == inspect(folder).problems
    assert len(archive()) == inspect(folder).components["optimizer"]


def test_a_distributed_megatron_checkpoint(tmp_path):
    """``metadata.json`` says how it was saved; ``common.pt`` is a pickle that nobody opens."""
    import torch
    import torch.distributed.checkpoint as torch_dcp

    folder = tmp_path / "iter_0000100"
    torch_dcp.save(
        {"decoder.w": torch.ones(4), "optimizer.state.exp_avg": torch.ones(4)},
        checkpoint_id=folder,
        no_dist=True,
    )
    write(folder, **{"metadata.json": b'{"sharded_backend": "torch_dist"}', "common.pt": archive()})

    assert ("megatron-distributed", (), 2) == (
        (seen := inspect(folder)).format,
        seen.problems,
        seen.tensor_count,
    )
    (folder / "common.pt").unlink()
    assert ("common.pt is missing",) == inspect(folder).problems
    write(folder, **{"common.pt": archive()})
    for path in (*folder.glob("*.distcp"), folder / ".metadata"):
        path.unlink()
    assert "saved to node-local disks?" in inspect(folder).problems[0]


def test_a_deepspeed_checkpoint_is_read_through_latest(tmp_path):
    """``latest`` holds the folder's name; every pair of ranks has its file."""
    names = [
        "mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ]  # fmt: skip
    folder = write(tmp_path / "global_step200", **dict.fromkeys(names, archive()))
    (tmp_path / "latest").write_text("global_step200\n")

    found = resolve_latest(tmp_path)
    seen = inspect(folder)
    assert (200, "deepspeed", ()) == (found.step, seen.format, seen.problems)
    assert 2 * len(archive()) == seen.components["optimizer"]

    (folder / names[1]).unlink()
    assert (f"{names[1]} is missing: other ranks have theirs",) == inspect(folder).problems
    with pytest.raises(CheckpointError, match="names step 200, which is not complete"):
        resolve_latest(tmp_path)
    write(folder, **{names[1]: archive()})
    (folder / names[0]).unlink()
    assert "mp_rank_00_model_states.pt is missing" in inspect(folder).problems


@given(st.binary(min_size=0, max_size=60), st.integers(0, 400))
@settings(max_examples=100, deadline=None)
def test_an_archive_that_was_cut_is_always_seen(tmp_path_factory, tail, cut):
    """Whatever was cut off or came behind: only the whole archive is whole."""
    folder = tmp_path_factory.getbasetemp()
    whole = archive()
    content = whole[: max(4, len(whole) - cut)] + tail
    (folder / "x.pt").write_bytes(content)

    problem = problem_of(FolderReader(folder), FileEntry(path="x.pt", size=len(content)))

    assert (content == whole) == (problem is None)


def test_an_archive_of_more_than_four_gigabytes_has_its_end_found(tmp_path):
    """The large format's own records are followed; nothing in between is read."""
    path = tmp_path / "x.pt"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a", b"1")
        directory = file.start_dir
    raw = path.read_bytes()
    start, end = directory, raw.rfind(b"PK\x05\x06")
    size = end - start
    large = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, size, start)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, end, 1)
    last = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(raw[:end] + large + locator + last)
    entry = FileEntry(path="x.pt", size=path.stat().st_size)

    assert problem_of(FolderReader(tmp_path), entry) is None
    path.write_bytes(raw[:end] + large[:-8] + struct.pack("<Q", start + 9) + locator + last)
    assert "damaged" in problem_of(FolderReader(tmp_path), entry)


@pytest.mark.parametrize("size", [1, 30_000], ids=["small", "larger than the longest tail"])
def test_what_torch_saves_is_whole_until_it_is_cut(tmp_path, size):
    """PyTorch writes the end record of a large archive into every one, behind a directory of any size."""
    import torch

    torch.save({"w": torch.ones(size)}, tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    entry = FileEntry(path="x.pt", size=len(whole))

    assert b"PK\x06\x06" in whole
    assert problem_of(FolderReader(tmp_path), entry) is None
    for left in (len(whole) - 1, len(whole) - 22, len(whole) - 42, len(whole) - 98, len(whole) // 2, 9):
        (tmp_path / "x.pt").write_bytes(whole[:left])
        assert "x.pt is cut" in problem_of(FolderReader(tmp_path), FileEntry(path="x.pt", size=left))


@given(st.lists(st.text(alphabet="mp_rank0123456789/zero_.pt", max_size=40), max_size=8))
@settings(max_examples=200, deadline=None)
def test_any_names_of_files_give_a_bounded_answer(paths):
    """Names with numbers beyond all counting included."""
    assert len(rank_problems(paths)) <= 100


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("model.safetensors", "weights"),
        ("mp_rank_00/model_optim_rng.pt", "weights"),
        ("mp_rank_00/distrib_optim.pt", "optimizer"),
        ("optimizer.pt", "optimizer"),
        ("bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "optimizer"),
        ("rng_state_0.pth", "data_state"),
        ("state.json", "data_state"),
        ("trainer_state.json", "data_state"),
        ("scheduler.pt", "other"),
        ("training_args.bin", "other"),
        ("common.pt", "other"),
        ("config.json", "other"),
    ],
)
def test_files_belong_to_parts(path, part):
    """By the names that their writers give them."""
    assert part == component_of(path)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.layers.0.w", "weights"),
        ("optim.state.w.exp_avg", "optimizer"),
        ("optimizer.param_groups", "optimizer"),
        ("dataloader.epoch", "data_state"),
        ("rng_state", "data_state"),
        ("model.rng_embedding", "weights"),
    ],
)
def test_tensors_belong_to_parts(name, part):
    """By the names that they have in the state of a training program."""
    assert part == component_of_tensor(name)


def test_many_findings_and_long_names_are_cut(tmp_path):
    """A record holds a hundred of them at most, each of bounded length."""
    folder = tmp_path / "model"
    folder.mkdir()
    for number in range(150):
        (folder / f"{number}.safetensors").write_bytes(safetensors({"x" * 5000: tensor(0, 8)}, b"1"))

    problems = inspect(folder).problems

    assert 101 == len(problems)
    assert max(len(problem) for problem in problems) <= 500
    assert "and 50 more" == problems[-1]


def test_the_folder_of_a_root_lists_every_layout(tmp_path):
    """Iterations, steps and checkpoints side by side, each by its number."""
    megatron(tmp_path, 300, ["mp_rank_00"])
    hugging_face(tmp_path / "checkpoint-500", trained=True)

    assert [(300, True), (500, True)] == [(each.step, each.complete) for each in list_checkpoints(tmp_path)]
