"""What a checkpoint holds: format, files, tensors, components, training state, and what is wrong.

Rules of completeness. A folder with training state of the contract (``state.json`` or ``meta.json``), and every folder
of no known format, counts only with its empty ``.complete`` marker, which is written last. Weights alone (an exported
model) are judged by their bytes, with an optimizer beside them also by what their writer writes last (a Hugging Face
``Trainer``'s state file, Accelerate's random states, else the marker); a distributed checkpoint by ``.metadata``, which
is written last, and by the files that it names; Megatron and DeepSpeed folders by the ranks' files. A name that says
"being written" never counts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pretrain_archive.artifacts.formats import (
    dcp,
    parts,
    pickles,
    ranks,
    sharded,
    state,
    strict_json,
    torchfile,
)
from pretrain_archive.artifacts.formats.parts import COMPONENTS, component_of
from pretrain_archive.artifacts.formats.safetensors import Tensor, header_of
from pretrain_archive.artifacts.formats.state import STATE_FILES
from pretrain_archive.artifacts.readers import FileEntry, Reader, reader_of
from pretrain_archive.domain.errors import CheckpointError

__all__ = ["COMPONENTS", "MARKER", "STATE_FILES", "FileEntry", "Inspection", "component_of", "inspect"]

MARKER = ".complete"
MEGATRON_COMMON = "common.pt"
MEGATRON_INDEX = "metadata.json"
MEGATRON_FOLDERS = ("", "weights/")
"""Where Megatron-core's index lies: in its own folder, or in that of NeMo 2 beside ``context/``."""

ACCELERATE_LAST = "random_states_0.pkl"
"""What ``Accelerator.save_state`` writes last."""

WEIGHTS_ALONE = {"huggingface", "safetensors", "safetensors-sharded"}
"""Formats of exported models, which are judged by their bytes unless training state lies beside them."""

MOST_TOLD, MOST_TEXT = 100, 500
NO_WEIGHTS = "no weight file"
IN_PROGRESS = re.compile(
    r"^\.|^(?:tmp|temp)[.\-_]|[.\-_](?:tmp|temp|partial|writing|incomplete)(?:[.\-_]|$)", re.IGNORECASE
)
FILE_IN_PROGRESS = re.compile(r"\.(?:tmp|temp|partial|part|incomplete|writing)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """A checkpoint as found.

    ``tensors`` pairs each tensor, or each piece of one, with its file; ``tensor_count`` counts tensors. ``components``
    are bytes of weights, optimizer, data_state and other. What the checkpoint does not say is None. ``facts`` is what
    it says of its model. ``problems`` empty means that it may be registered; ``warnings`` do not hinder.
    """

    location: str
    format: str
    files: tuple[FileEntry, ...] = ()
    tensors: tuple[tuple[str, Tensor], ...] = ()
    tensor_count: int = 0
    components: dict[str, int] = field(default_factory=dict)
    step: int | None = None
    tokens: int | None = None
    data_position: dict[str, Any] | None = None
    configuration_digest: str | None = None
    facts: dict[str, Any] | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.problems


def inspect(place: Path | Reader | str) -> Inspection:
    """Look at a folder, an address or a reader without changing it and without reading tensors.

    Never raises for bad content; :class:`StorageError` for a bucket that does not answer.
    """
    reader = reader_of(place)
    try:
        listing = reader.listing()
    except CheckpointError as error:
        return Inspection(location=reader.location, format="none", problems=(error.message.rstrip("."),))
    return _Look(reader, listing.files, listing.faults).seen()


class _Look:
    """One look at one listing; each step adds to what is known and to what is wrong."""

    def __init__(self, reader: Reader, files: tuple[FileEntry, ...], faults: tuple[str, ...]) -> None:
        self.reader = reader
        self.entries = files
        self.files: Mapping[str, FileEntry] = {entry.path: entry for entry in files}
        self.problems: list[str] = []
        if IN_PROGRESS.search(reader.name):
            self.problems.append(f"the name {reader.name!r} says that the folder is still being written")
        self.problems.extend(faults)
        self.warnings: list[str] = []
        self.tensors: list[tuple[str, Tensor]] = []
        self.pieces: dict[str, dict[str, int]] = {}
        """Bytes by component of files whose metadata says what is in them."""
        self.names: set[str] = set()

    def seen(self) -> Inspection:
        self._unfinished()
        self._safetensors()
        distributed = self._distributed()
        self._archives()
        self.problems.extend(ranks.problems(self.files))
        facts = state.model_facts(self.reader, self.files, self.problems)
        form = self._format(facts, distributed=distributed)
        known = state.read_state(self.reader, self.files, self.problems)
        self._weights()
        self._marked(form)
        return Inspection(
            location=self.reader.location,
            format=form,
            files=self.entries,
            tensors=tuple(self.tensors),
            tensor_count=len(self.names) if distributed else len(self.tensors),
            components=parts.sizes(self.entries, self.pieces),
            facts=facts,
            problems=_bounded(self.problems),
            warnings=_bounded(self.warnings),
            **known,
        )

    def _unfinished(self) -> None:
        self.problems.extend(
            f"{path} is still being written, by its name"
            for path in self.files
            if FILE_IN_PROGRESS.search(path)
        )

    def _safetensors(self) -> None:
        held: dict[str, set[str]] = {}
        for entry in self.entries:
            if entry.path.endswith(".safetensors"):
                try:
                    header, _ = header_of(self.reader, entry)
                except CheckpointError as error:
                    self.problems.append(error.message.rstrip("."))
                else:
                    held[entry.path] = {tensor.name for tensor in header.tensors}
                    self.tensors.extend((entry.path, tensor) for tensor in header.tensors)
        self.problems.extend(sharded.problems(self.reader, self.files, held))

    def _distributed(self) -> bool:
        """Check every distributed checkpoint in the folder (there may be one below, beside other state)."""
        data: dict[str, list[str]] = defaultdict(list)
        for path in self.files:
            if path.endswith(dcp.SUFFIX):
                data[_above(path)].append(path.rpartition("/")[2])
        indexed = {_above(path) for path in self.files if path.rpartition("/")[2] == dcp.METADATA}
        for folder in sorted(data.keys() - indexed):
            name = f"{folder}{dcp.METADATA}"
            self.problems.append(
                f"no {name} beside {len(data[folder])} {dcp.SUFFIX} files: saved to node-local disks?"
            )
        left = pickles.MAX_BYTES  # for all of them together: each byte costs time
        for folder in sorted(indexed):
            left -= self.files[folder + dcp.METADATA].size
            if left < 0:
                self.warnings.append(
                    f"{folder}{dcp.METADATA}: with the others more than {pickles.MAX_BYTES} bytes, the limit: files "
                    "and tensors were not compared with it"
                )
                continue
            found = parts.read_distributed(self.reader, self.files, folder, sorted(data[folder]))
            self.problems.extend(found.problems)
            self.warnings.extend(found.warnings)
            self.tensors.extend(found.tensors)
            self.names |= {f"{folder}{tensor.name}" for _, tensor in found.tensors}
            self.pieces.update(found.pieces)
        return bool(data or indexed)

    def _archives(self) -> None:
        for entry in self.entries:
            if entry.path.endswith(torchfile.SUFFIXES):
                try:
                    problem = torchfile.problem_of(self.reader, entry)
                except CheckpointError as error:
                    problem = error.message.rstrip(".")
                self.problems.extend([problem] if problem else [])

    def _format(self, facts: dict[str, Any] | None, *, distributed: bool) -> str:
        below = [folder for folder in MEGATRON_FOLDERS if self._is_megatron(folder)]
        for folder in below:
            self._megatron_index(folder)
        signs = (
            (bool(below), "megatron-distributed"),
            (ranks.has_megatron(self.files), "megatron"),
            (facts is not None or state.TRAINER_STATE in self.files, "huggingface"),
            (ranks.has_deepspeed(self.files), "deepspeed"),
            (distributed, "torch-distributed"),
            (any(name.endswith(sharded.INDEX_SUFFIX) for name in self.files), "safetensors-sharded"),
        )
        named = next((name for there, name in signs if there), None)
        if named is not None:
            return named
        weights = [name for name in self.files if component_of(name) == "weights"]
        return "safetensors" if weights and all(n.endswith(".safetensors") for n in weights) else "folder"

    def _is_megatron(self, folder: str) -> bool:
        known = folder + MEGATRON_COMMON in self.files or self._is_distributed(folder)
        return folder + MEGATRON_INDEX in self.files and known

    def _is_distributed(self, folder: str) -> bool:
        return any(
            _above(path) == folder and (path.endswith(dcp.SUFFIX) or path == folder + dcp.METADATA)
            for path in self.files
        )

    def _megatron_index(self, folder: str) -> None:
        """``metadata.json`` names the way of saving; ``common.pt`` (a pickle, not opened) is shared by all."""
        name, common = folder + MEGATRON_INDEX, folder + MEGATRON_COMMON
        try:
            index = strict_json.read_object(self.reader, self.files[name], limit=state.STATE_LIMIT)
        except CheckpointError as error:
            self.problems.append(error.message.rstrip("."))
            return
        backend = index.get("sharded_backend")
        if backend == "torch_dist" and not self._is_distributed(folder):
            self.problems.append(
                f"no {folder}{dcp.METADATA} and no {dcp.SUFFIX} file: saved to node-local disks?"
            )
        if backend == "zarr":
            self.problems.append(f"{name}: saved as zarr, which is not read: convert it to torch_dist")
        if common not in self.files and index.get("common_backend", "torch") == "torch":
            self.problems.append(f"{common} is missing")

    def _weights(self) -> None:
        weights = [entry for entry in self.entries if component_of(entry.path) == "weights"]
        if not weights:
            self.problems.append(NO_WEIGHTS)
        self.problems.extend(
            f"{entry.path} has 0 bytes"
            for entry in self.entries
            if entry.size == 0
            and entry.path.endswith(parts.WEIGHT_SUFFIXES)
            and not entry.path.endswith((".safetensors", dcp.SUFFIX))  # those are named by header or metadata
        )

    def _marked(self, form: str) -> None:
        # Without any weights that is the one cause; a marker would not help.
        if MARKER in self.files or NO_WEIGHTS in self.problems:
            return
        if form == "folder" or any(name in self.files for name in STATE_FILES):
            self.problems.append(f"no {MARKER} marker: the writer did not finish")
        elif form in WEIGHTS_ALONE and not {state.TRAINER_STATE, ACCELERATE_LAST} & set(self.files):
            resumable = sorted(n for n in self.files if component_of(n) == "optimizer" or n == "scheduler.pt")
            if resumable:
                last = state.TRAINER_STATE if form == "huggingface" else f"{MARKER} marker"
                self.problems.append(f"no {last} beside {resumable[0]}: the writer did not finish")


def _bounded(texts: list[str]) -> tuple[str, ...]:
    """Findings as records hold them: names in them come from foreign files and may be of any length and kind."""
    told = [text.encode("utf-8", "backslashreplace").decode()[:MOST_TEXT] for text in texts[:MOST_TOLD]]
    rest = len(texts) - MOST_TOLD
    return (*told, *([f"and {rest} more"] if rest > 0 else ()))


def _above(path: str) -> str:
    """The folder of a file with its ``/``, empty for the checkpoint itself."""
    return path[: path.rfind("/") + 1]
