"""What a checkpoint folder holds: format, files, tensors, components, training state, and what is wrong.

Rules of completeness: a folder with training state (``state.json`` or ``meta.json``), and every folder that
is not safetensors, counts only with its empty ``.complete`` marker, which is written last; a folder with
weights alone (an exported model) is judged by its bytes. A name that says "being written" never counts.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pretrain_archive.artifacts.formats import sharded, strict_json
from pretrain_archive.artifacts.formats.safetensors import Tensor, read_header
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.identity import DIGEST, path_to_text
from pretrain_archive.ledger.canonical import canonical_bytes

MARKER = ".complete"
STATE_FILES = ("state.json", "meta.json")
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".distcp", ".npz", ".npy", ".ckpt", ".gguf", ".h5")
COMPONENTS = ("weights", "optimizer", "data_state", "other")
NO_WEIGHTS = "no weight file"
IN_PROGRESS = re.compile(
    r"^\.|^(?:tmp|temp)[.\-_]|[.\-_](?:tmp|temp|partial|writing|incomplete)(?:[.\-_]|$)", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """A regular file: ``path`` relative to the folder as ``path_to_text`` writes it, size in bytes."""

    path: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """A checkpoint folder as found.

    ``tensors`` pairs each tensor with its file. ``components`` are bytes of weights, optimizer, data_state
    and other. What the state file does not say is None. ``problems`` empty means that it may be registered.
    """

    folder: Path
    format: str
    files: tuple[FileEntry, ...] = ()
    tensors: tuple[tuple[str, Tensor], ...] = ()
    components: dict[str, int] = field(default_factory=dict)
    step: int | None = None
    tokens: int | None = None
    data_position: dict[str, Any] | None = None
    configuration_digest: str | None = None
    problems: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing speaks against the folder."""
        return not self.problems


def inspect(folder: Path) -> Inspection:
    """Look at ``folder`` without changing it and without reading tensors. Never raises for bad content."""
    if folder.is_symlink() or not folder.is_dir():
        return Inspection(folder=folder, format="none", problems=(_missing(folder),))
    problems: list[str] = []
    if IN_PROGRESS.search(folder.name):
        problems.append(f"the name {folder.name!r} says that the folder is still being written")
    try:
        files = tuple(_files(folder, problems))
    except OSError as error:
        return Inspection(
            folder=folder, format="none", problems=(f"folder cannot be read: {error.strerror}",)
        )
    names = {entry.path for entry in files}
    tensors = _tensors(folder, files, problems)
    form = _format(names)
    state = _state(folder, names, problems)
    _check_weights(files, problems)
    # Without any weights that is the one cause; a marker would not help.
    marked = MARKER in names or problems[-1:] == [NO_WEIGHTS]
    if not marked and (form == "folder" or any(name in names for name in STATE_FILES)):
        problems.append(f"no {MARKER} marker: the writer did not finish")
    return Inspection(
        folder=folder,
        format=form,
        files=files,
        tensors=tuple(tensors),
        components=_components(files),
        problems=tuple(problems),
        **(state or {}),
    )


def component_of(path: str) -> str:
    """Which part of a checkpoint a file belongs to, by its name: one of :data:`COMPONENTS`."""
    name = path.rsplit("/", 1)[-1].lower()
    if "optim" in name:
        return "optimizer"
    if name in STATE_FILES or name.startswith(("data_state", "dataloader", "rng")):
        return "data_state"
    return "weights" if name.endswith(WEIGHT_SUFFIXES) else "other"


def _missing(folder: Path) -> str:
    if folder.is_symlink():
        return "the folder is a link; name the folder itself"
    return "is not a folder" if folder.exists() else "the folder does not exist"


def _files(folder: Path, problems: list[str]) -> Iterator[FileEntry]:
    """Regular files below ``folder`` in byte order; links and devices are problems, never followed."""
    root = os.fsencode(folder)
    pending: list[bytes] = [b""]
    found: list[tuple[bytes, int]] = []
    while pending:
        below = pending.pop()
        with os.scandir(root + b"/" + below) as entries:
            for entry in entries:
                relative = below + entry.name
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    pending.append(relative + b"/")
                elif stat.S_ISREG(info.st_mode):
                    found.append((relative, info.st_size))
                else:
                    problems.append(f"{path_to_text(relative)} is a link or device, not a file")
    for relative, size in sorted(found):
        yield FileEntry(path=path_to_text(relative), size=size)


def _tensors(folder: Path, files: tuple[FileEntry, ...], problems: list[str]) -> list[tuple[str, Tensor]]:
    by_file: dict[str, list[Tensor]] = {}
    for entry in files:
        if entry.path.endswith(".safetensors"):
            try:
                header = read_header(sharded.local(folder, entry.path), where=entry.path)
            except CheckpointError as error:
                problems.append(error.message.rstrip("."))
            else:
                by_file[entry.path] = list(header.tensors)
    names = {entry.path for entry in files}
    problems.extend(sharded.problems(folder, names, {f: {t.name for t in ts} for f, ts in by_file.items()}))
    return [(file, tensor) for file in sorted(by_file) for tensor in by_file[file]]


def _format(names: set[str]) -> str:
    if any(name.endswith(sharded.INDEX_SUFFIX) for name in names):
        return "safetensors-sharded"
    weights = [name for name in names if component_of(name) == "weights"]
    return "safetensors" if weights and all(n.endswith(".safetensors") for n in weights) else "folder"


def _check_weights(files: tuple[FileEntry, ...], problems: list[str]) -> None:
    weights = [entry for entry in files if component_of(entry.path) == "weights"]
    if not weights:
        problems.append(NO_WEIGHTS)
    problems.extend(
        f"{entry.path} has 0 bytes"
        for entry in weights
        if entry.size == 0 and not entry.path.endswith(".safetensors")  # those are named by their header
    )


def _components(files: tuple[FileEntry, ...]) -> dict[str, int]:
    sizes = dict.fromkeys(COMPONENTS, 0)
    for entry in files:
        sizes[component_of(entry.path)] += entry.size
    return sizes


def _state(folder: Path, names: set[str], problems: list[str]) -> dict[str, Any] | None:
    name = next((name for name in STATE_FILES if name in names), None)
    if name is None:
        return None
    try:
        raw = strict_json.load_object(folder / name, where=name, limit=1024 * 1024)
        return _read_state(raw, name)
    except CheckpointError as error:
        problems.append(error.message.rstrip("."))
        return None


def _read_state(raw: dict[str, Any], name: str) -> dict[str, Any]:
    step, tokens = raw.get("step"), raw.get("tokens")
    for field_name, value in (("step", step), ("tokens", tokens)):
        whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
        if value is not None and not whole:
            raise CheckpointError(f"{name}: {field_name} must be a whole number from 0, found {value!r}.")
    position, digest = raw.get("data_position"), raw.get("configuration_digest")
    if position is not None and not isinstance(position, dict):
        raise CheckpointError(f"{name}: data_position must be an object, found {type(position).__name__}.")
    if digest is not None and not (isinstance(digest, str) and DIGEST.fullmatch(digest)):
        raise CheckpointError(f"{name}: configuration_digest must be sha256: and 64 hex digits.")
    try:
        canonical_bytes(position)
    except (ValueError, RecursionError) as error:  # a whole number above 2^53 would be rounded by readers
        raise CheckpointError(f"{name}: data_position cannot be recorded exactly: {error}.") from error
    return {"step": step, "tokens": tokens, "data_position": position, "configuration_digest": digest}
