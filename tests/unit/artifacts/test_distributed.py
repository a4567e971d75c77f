"""PyTorch distributed checkpoints: their metadata is read without loading it, and compared with the files."""

from __future__ import annotations

import math
import pickle
import shutil
from pathlib import Path

import pytest
from tests.unit.artifacts.test_registration import claim, refusals

from pretrain_archive.artifacts.formats import dcp, inspect
from pretrain_archive.artifacts.registration import register_checkpoint, registered
from pretrain_archive.domain.errors import CheckpointError

STATE = {"optim.state.w.exp_avg": (3, 4), "model.w": (3, 4), "model.b": (5,)}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that PyTorch itself wrote, of tensors of three types, a number and a list."""
    import torch
    import torch.distributed.checkpoint as torch_dcp

    folder = tmp_path_factory.mktemp("dcp") / "step_100"
    state = {
        "model": {"w": torch.arange(12.0).reshape(3, 4), "b": torch.zeros(5, dtype=torch.bfloat16)},
        "optim": {"state": {"w": {"exp_avg": torch.ones(3, 4, dtype=torch.float64)}}},
        "dataloader": {"epoch": 3, "seen": [1, 2]},
    }
    torch_dcp.save(state, checkpoint_id=folder, no_dist=True)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(written, tmp_path / "step_100"))


def data_file(folder: Path) -> Path:
    """The file of the one rank."""
    return next(folder.glob("*.distcp"))


@pytest.mark.case("C07")
@pytest.mark.requirement("R101", "R102")
def test_a_checkpoint_of_torch_registers_with_its_tensors_and_files(folder, ledger, actor, origin):
    """Names, types, shapes and the bytes of each part come from the metadata; no marker of ours is asked for."""
    fact = register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    assert ("torch-distributed", 3) == (fact.format, fact.tensors)
    assert {".metadata", data_file(folder).name} == {file.path for file in fact.files}
    assert sum(fact.components.values()) == sum(path.stat().st_size for path in folder.iterdir())
    assert all(fact.components[name] > 0 for name in ("weights", "optimizer", "data_state"))
    assert [] == fact.warnings


@pytest.mark.case("C07")
def test_the_metadata_says_what_torch_says(folder):
    """Every tensor, chunk, file, offset and length is that which PyTorch's own reader gives."""
    from torch.distributed.checkpoint import FileSystemReader

    theirs = FileSystemReader(folder).read_metadata()
    ours = dcp.read_metadata((folder / ".metadata").read_bytes())

    tensors = {tensor.name: tensor for tensor in ours.tensors}
    for index, place in theirs.storage_data.items():
        if index.fqn in tensors:
            chunk = next(c for c in tensors[index.fqn].chunks if c.offsets == tuple(index.offset))
            assert (place.relative_path, place.offset, place.length) == (chunk.file, chunk.at, chunk.length)
        else:
            assert (place.relative_path, place.length) == ours.values[index.fqn]
    for name, tensor in tensors.items():
        known = theirs.state_dict_metadata[name]
        assert (tuple(known.size), str(known.properties.dtype)) == (tensor.shape, f"torch.{tensor.dtype}")
    assert len(theirs.state_dict_metadata) == len(tensors) + len(ours.values)


@pytest.mark.case("C07")
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda d: (d / ".metadata").unlink(), "saved to node-local disks?", id="no metadata"),
        pytest.param(
            lambda d: data_file(d).unlink(), "names __0_0.distcp, which is missing", id="no rank file"
        ),
        pytest.param(
            lambda d: data_file(d).write_bytes(data_file(d).read_bytes()[:-1]),
            "__0_0.distcp is cut",
            id="cut",
        ),
        pytest.param(lambda d: data_file(d).write_bytes(b""), "__0_0.distcp is cut: 0 bytes", id="empty"),
        pytest.param(
            lambda d: (d / ".metadata").write_bytes((d / ".metadata").read_bytes()[:-9]),
            "not a whole pickle",
            id="metadata cut",
        ),
        pytest.param(
            lambda d: (d / ".metadata.tmp").touch(), "is still being written", id="metadata under way"
        ),
    ],
)
def test_what_does_not_fit_the_metadata_is_refused_by_name(folder, ledger, actor, origin, spoil, words):
    """A missing or cut file fails here and not at the load, months later."""
    spoil(folder)

    with pytest.raises(CheckpointError) as caught:
        register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    assert words in str(caught.value)
    assert [] == registered(ledger, claim().run_uid)
    assert 1 == len(refusals(ledger))


@pytest.mark.case("C07")
def test_a_file_that_no_entry_names_is_a_warning(folder, ledger, actor, origin):
    """It may be of an earlier save with more ranks: it is told, and recorded with the rest."""
    (folder / "__9_0.distcp").write_bytes(b"x")

    fact = register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    assert ["__9_0.distcp is named by no entry of .metadata"] == fact.warnings
    assert "__9_0.distcp" in {file.path for file in fact.files}


class Planted:
    """What an unpickler would call."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.marker), "w")


@pytest.mark.case("C07")
def test_a_planted_pickle_runs_nothing(folder, ledger, actor, origin, tmp_path):
    """The name that it would call is told; the marker that it would make does not appear."""
    marker = tmp_path / "UNPICKLED"
    (folder / ".metadata").write_bytes(pickle.dumps(Planted(marker)))

    with pytest.raises(CheckpointError, match=r"names 'io\.open'.*nothing of it was run"):
        register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    assert not marker.exists()
    pickle.loads((folder / ".metadata").read_bytes()).close()  # it is a working bomb
    assert marker.exists()


@pytest.mark.parametrize("file", ["../outside.distcp", "/etc/passwd", "a//b", "..", "a\\b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(folder, file):
    """The metadata of another folder is no word about this one."""
    raw = (folder / ".metadata").read_bytes()
    name = b"__0_0.distcp"
    hostile = raw.replace(b"\x8c\x0c" + name, bytes([0x8C, len(file.encode())]) + file.encode(), 1)
    frame = raw.index(b"\x95")
    size = int.from_bytes(hostile[frame + 1 : frame + 9], "little") + len(file.encode()) - len(name)
    (folder / ".metadata").write_bytes(
        hostile[: frame + 1] + size.to_bytes(8, "little") + hostile[frame + 9 :]
    )

    assert "is not the name of a file below the folder" in inspect(folder).problems[0]


def test_a_tensor_whose_pieces_do_not_cover_it_is_a_lie():
    """A chunk is taken out of a sharded tensor: its values would be left as the memory was."""
    import torch
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    from torch.distributed.checkpoint.metadata import (
        ChunkStorageMetadata,
        Metadata,
        MetadataIndex,
        TensorProperties,
        TensorStorageMetadata,
    )

    def metadata(chunks: list[tuple[int, int]], *, length: int = 4096) -> bytes:
        pieces = [ChunkStorageMetadata(torch.Size([at]), torch.Size([size])) for at, size in chunks]
        properties = TensorProperties(dtype=torch.float32)
        declared = {"w": TensorStorageMetadata(properties, torch.Size([100]), pieces)}
        places = {
            MetadataIndex("w", torch.Size([at])): _StorageInfo(f"__{at}_0.distcp", 0, length)
            for at, _ in chunks
        }
        return pickle.dumps(Metadata(declared, storage_data=places))

    assert () == dcp.read_metadata(metadata([(0, 50), (50, 50)])).problems
    assert "hold 50 of 100 values" in dcp.read_metadata(metadata([(0, 50)])).problems[0]
    assert "is not within" in dcp.read_metadata(metadata([(0, 50), (60, 50)])).problems[0]
    assert (
        "7 bytes are stored for 50 values"
        in dcp.read_metadata(metadata([(0, 50), (50, 50)], length=7)).problems[0]
    )
    assert {"__0_0.distcp": 4096, "__50_0.distcp": 4096} == dcp.read_metadata(
        metadata([(0, 50), (50, 50)])
    ).needs


def test_sharded_over_two_ranks_every_file_counts(tmp_path, ledger, actor, origin):
    """The file map is that of the metadata: a rank's file that is missing is named, and which tensors are elsewhere."""
    import torch
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    from torch.distributed.checkpoint.metadata import (
        ChunkStorageMetadata,
        Metadata,
        MetadataIndex,
        TensorProperties,
        TensorStorageMetadata,
    )

    folder = tmp_path / "step_100"
    folder.mkdir()
    chunks = [ChunkStorageMetadata(torch.Size([at, 0]), torch.Size([2, 3])) for at in (0, 2)]
    places = {
        MetadataIndex("w", chunk.offsets): _StorageInfo(f"__{rank}_0.distcp", 0, 64)
        for rank, chunk in enumerate(chunks)
    }
    declared = {
        "w": TensorStorageMetadata(TensorProperties(dtype=torch.bfloat16), torch.Size([4, 3]), chunks)
    }
    (folder / ".metadata").write_bytes(pickle.dumps(Metadata(declared, storage_data=places)))
    (folder / "__0_0.distcp").write_bytes(b"\1" * 64)

    assert (".metadata names __1_0.distcp, which is missing",) == inspect(folder).problems
    (folder / "__1_0.distcp").write_bytes(b"\1" * 64)
    fact = register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)

    assert (1, 128) == (fact.tensors, fact.components["weights"])
    seen = inspect(folder)
    assert [("__0_0.distcp", (4, 3)), ("__1_0.distcp", (4, 3))] == [(f, t.shape) for f, t in seen.tensors]
    assert math.prod(seen.tensors[0][1].shape) == 12
