"""How many bytes of a checkpoint are weights, optimizer, data state and other.

By the names of files; where metadata tells what is inside of a file (distributed checkpoints), by the names of tensors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pretrain_archive.artifacts.formats import dcp, pickles
from pretrain_archive.artifacts.formats.safetensors import Tensor
from pretrain_archive.artifacts.formats.state import STATE_FILES, TRAINER_STATE
from pretrain_archive.artifacts.readers import FileEntry, Reader
from pretrain_archive.domain.errors import CheckpointError

COMPONENTS = ("weights", "optimizer", "data_state", "other")
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".distcp", ".npz", ".npy", ".ckpt", ".gguf", ".h5")
DATA_STATE = (
    "data_state",
    "dataloader",
    "train_dataloader",
    "rng",
    "random_states",
    "sampler",
    "dl_state_dict",
)
NEITHER = {"training_args.bin", "scheduler.pt", "scheduler.bin", "scaler.pt", "common.pt", "tokenizer.bin"}
MIXED = "model_optim_rng"
"""Megatron's file of a rank: weights first of all, and the optimizer too unless that is distributed."""

_MODEL = re.compile(r"(?:model|module)[._/]", re.IGNORECASE)
_OPTIMIZER = re.compile(r"(?:^|[._/])(?:optim|optimizer|exp_avg|exp_avg_sq|adam)", re.IGNORECASE)
_DATA = re.compile(r"(?:^|[._/])(?:data_?loader|data_state|rng|dataset|sampler)", re.IGNORECASE)


@dataclass(slots=True)
class Distributed:
    """What a distributed checkpoint's metadata gives: tensors by file, bytes by component and file, findings."""

    tensors: list[tuple[str, Tensor]] = field(default_factory=list)
    pieces: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def component_of(path: str) -> str:
    """Which part of a checkpoint a file belongs to, by its name: one of :data:`COMPONENTS`."""
    name = path.rsplit("/", 1)[-1].lower()
    if name in NEITHER:
        return "other"
    if "optim" in name and MIXED not in name:
        return "optimizer"
    if name in STATE_FILES or name == TRAINER_STATE or name.startswith(DATA_STATE):
        return "data_state"
    return "weights" if name.endswith(WEIGHT_SUFFIXES) else "other"


def component_of_tensor(name: str) -> str:
    """The same for a tensor or value of a distributed checkpoint, by its name."""
    if _MODEL.match(name):
        return "weights"
    if _OPTIMIZER.search(name):
        return "optimizer"
    return "data_state" if _DATA.search(name) else "weights"


def sizes(files: Iterable[FileEntry], pieces: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Bytes by component; ``pieces`` say it from within for some files, whose rest is other."""
    found = dict.fromkeys(COMPONENTS, 0)
    for entry in files:
        inside = pieces.get(entry.path)
        if inside is None:
            found[component_of(entry.path)] += entry.size
            continue
        rest = entry.size
        for component, size in inside.items():
            taken = min(size, rest)
            found[component] += taken
            rest -= taken
        found["other"] += rest
    return found


def read_distributed(
    reader: Reader, files: Mapping[str, FileEntry], folder: str, beside: Sequence[str]
) -> Distributed:
    """Check the distributed checkpoint whose ``.metadata`` lies in ``folder`` (empty, or ending in ``/``).

    ``beside`` are the names of the ``.distcp`` files in that folder.
    """
    found = Distributed()
    index = files[folder + dcp.METADATA]
    try:
        metadata = dcp.read_metadata(reader.read(index, 0, pickles.MAX_BYTES + 1), where=index.path)
    except pickles.TooLargeError as error:
        found.warnings.append(f"{error.message.rstrip('.')}: files and tensors were not compared with it")
        return found
    except CheckpointError as error:
        found.problems.append(error.message.rstrip("."))
        return found
    found.problems.extend(metadata.problems)
    _compare(metadata, files, folder, beside, index.path, found)
    _take(metadata, folder, found)
    return found


def _compare(  # noqa: PLR0917 - the parts of one comparison
    metadata: dcp.Metadata,
    files: Mapping[str, FileEntry],
    folder: str,
    beside: Sequence[str],
    where: str,
    found: Distributed,
) -> None:
    for file, needed in sorted(metadata.needs.items()):
        entry = files.get(folder + file)
        if entry is None:
            found.problems.append(f"{where} names {folder}{file}, which is missing")
        elif entry.size < needed:
            found.problems.append(f"{entry.path} is cut: {entry.size} bytes, its metadata needs {needed}")
        elif entry.size > needed:
            found.warnings.append(
                f"{entry.path} holds {entry.size - needed} bytes that its metadata does not name"
            )
    found.warnings.extend(
        f"{folder}{name} is named by no entry of {where}" for name in beside if name not in metadata.needs
    )


def _take(metadata: dcp.Metadata, folder: str, found: Distributed) -> None:
    def add(file: str, name: str, size: int) -> None:
        inside = found.pieces.setdefault(folder + file, {})
        component = component_of_tensor(name)
        inside[component] = inside.get(component, 0) + size

    for tensor in metadata.tensors:
        for chunk in tensor.chunks:
            piece = Tensor(
                name=tensor.name,
                dtype=tensor.dtype,
                shape=tensor.shape,
                begin=chunk.at,
                end=chunk.at + chunk.length,
            )
            found.tensors.append((folder + chunk.file, piece))
            add(chunk.file, tensor.name, chunk.length)
    for name, (file, size) in metadata.values.items():
        add(file, name, size)
