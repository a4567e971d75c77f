"""Checkpoints that are either whole or absent.

A checkpoint is a folder ``step_00000100`` with ``model.safetensors``, ``optimizer.safetensors``,
``state.json``, ``config.json`` and, written last, the empty ``.complete``. It is written under another name,
every file and the folder are flushed to the disk, then it gets its name, then the folder around it is flushed.
A name that is taken is never written over.
"""

from __future__ import annotations

import base64
import filecmp
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from configuration import Configuration, differences
from contract import TrainerError
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

MARKER = ".complete"
UNFINISHED = ".tmp_"
FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "config.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """Everything that is needed to go on: tensors, where the data stands, and the random state.

    ``tokens`` counts predicted positions so far; ``processes`` is the number that shared each batch.
    """

    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    step: int
    tokens: int
    data_position: Mapping[str, Any]
    processes: int
    random: Tensor


def write(checkpoint: Checkpoint, configuration: Configuration, folder: Path, *, attempt: str) -> Path:
    """Make the checkpoint durable below ``folder`` and return where it is.

    When the name is taken by the same bytes, that copy stands; by others (an earlier attempt left it), this
    one gets the attempt's number behind its name.

    Raises:
        TrainerError: the disk refuses; nothing that looks like a checkpoint is left.
    """
    name = f"step_{checkpoint.step:08d}"
    temporary = folder / f"{UNFINISHED}{name}_{os.getpid()}"
    content = _content(checkpoint, configuration)
    try:
        temporary.mkdir(parents=True)
        for file, data in content.items():
            _write_durably(temporary / file, data)
        _flush_folder(temporary)
        return _commit(temporary, folder, name, attempt)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        needed = sum(map(len, content.values()))
        raise TrainerError(
            f"checkpoint {folder / name}: cannot be written, {needed} bytes are needed: {error.strerror}. "
            "Free space or give another checkpoint folder, then resume."
        ) from error


def read(folder: Path, configuration: Configuration) -> Checkpoint:
    """Read a complete checkpoint that was written under this configuration.

    Raises:
        TrainerError: it is incomplete or damaged, or the configuration would change the sequence.
    """
    if not folder.is_dir():
        raise TrainerError(
            f"checkpoint {folder}: is not a folder. Give the folder of one checkpoint, or nothing."
        )
    if not (folder / MARKER).is_file():
        raise TrainerError(
            f"checkpoint {folder}: has no {MARKER}, so its writer did not finish. Resume from an earlier one."
        )
    try:
        state = json.loads((folder / "state.json").read_bytes())
        weights, optimizer = (load_file(folder / name) for name in FILES[:2])
        checkpoint = Checkpoint(
            weights=weights,
            optimizer=optimizer,
            step=int(state["step"]),
            tokens=int(state["tokens"]),
            data_position=dict(state["data_position"]),
            processes=int(state["processes"]),
            random=torch.frombuffer(bytearray(base64.b64decode(state["rng"]["torch"])), dtype=torch.uint8),
        )
        found = differences(configuration.to_dict(), state["configuration"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise TrainerError(
            f"checkpoint {folder}: cannot be read: {type(error).__name__}: {error}. Resume from an earlier one."
        ) from error
    if found:
        raise TrainerError(
            f"checkpoint {folder}: {'; '.join(found)}. The sequence would change: resume with the "
            "checkpoint's configuration, or start a new run."
        )
    return checkpoint


def digest(folder: Path) -> str:
    """``sha256:`` over names, sizes and bytes of the checkpoint's files as this process reads them; see contract.py."""
    files = []
    try:
        for name in (*FILES, MARKER):
            with (folder / name).open("rb") as file:
                value = hashlib.file_digest(file, "sha256").hexdigest()
                files.append([name, str(file.tell()), value])
    except OSError as error:
        raise TrainerError(
            f"checkpoint {folder}: cannot be read: {error.strerror}. Resume from an earlier one."
        ) from error
    listed = json.dumps(sorted(files), separators=(",", ":"))
    return f"sha256:{hashlib.sha256(listed.encode()).hexdigest()}"


def remove_unfinished(folder: Path) -> list[str]:
    """Remove what a killed attempt left half written below ``folder``; returns the names."""
    names = sorted(path.name for path in folder.glob(f"{UNFINISHED}*"))
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
    return names


def _content(checkpoint: Checkpoint, configuration: Configuration) -> dict[str, bytes]:
    state = {
        "step": checkpoint.step,
        "tokens": checkpoint.tokens,
        "data_position": dict(checkpoint.data_position),
        "processes": checkpoint.processes,
        "configuration": configuration.to_dict(),
        "rng": {"torch": base64.b64encode(checkpoint.random.numpy().tobytes()).decode()},
    }
    return {
        "model.safetensors": save(_detached(checkpoint.weights)),
        "optimizer.safetensors": save(_detached(checkpoint.optimizer)),
        "state.json": json.dumps(state, indent=2, sort_keys=True).encode(),
        "config.json": json.dumps(configuration.to_dict(), indent=2, sort_keys=True).encode(),
        MARKER: b"",
    }


def _detached(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def _commit(temporary: Path, folder: Path, name: str, attempt: str) -> Path:
    target = folder / name
    if target.is_dir() and (target / MARKER).is_file() and _same(temporary, target):
        shutil.rmtree(temporary)
        return target
    if target.exists():
        target = folder / f"{name}.attempt_{attempt}"
    if target.exists():
        raise FileExistsError(17, f"{target.name} is there already and differs")
    temporary.rename(target)
    _flush_folder(folder)
    return target


def _same(left: Path, right: Path) -> bool:
    equal, _, _ = filecmp.cmpfiles(left, right, FILES, shallow=False)
    return len(equal) == len(FILES)


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
