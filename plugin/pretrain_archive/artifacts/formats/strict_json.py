"""JSON from files that nobody vouches for: bounded, UTF-8, no repeated keys, no NaN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from pretrain_archive.artifacts.readers import FileEntry, Reader
from pretrain_archive.domain.errors import CheckpointError

MAX_BYTES = 64 * 1024 * 1024
"""An index of a model with a million tensors stays below this; a state file is far smaller."""


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} is given twice (duplicate key)")
        found[key] = value
    return found


def loads(raw: bytes, *, where: str, constants: bool = False) -> Any:
    """Parse ``raw`` as strict JSON; :class:`CheckpointError` names ``where`` and the fault.

    With ``constants`` NaN and Infinity are read as Python writes them, for histories of a loss that diverged.
    """
    refuse = None if constants else _refuse_constant
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=refuse, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{where}: not UTF-8 text at byte {error.start}.") from error
    except RecursionError as error:
        raise CheckpointError(f"{where}: JSON is nested too deeply.") from error
    except ValueError as error:
        raise CheckpointError(f"{where}: not valid JSON: {error}.") from error


def load_object(path: Path, *, where: str, limit: int = MAX_BYTES) -> dict[str, Any]:
    """Read a JSON object of at most ``limit`` bytes; :class:`CheckpointError` otherwise."""
    try:
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as error:
        raise CheckpointError(f"{where}: cannot be read: {error.strerror}.") from error
    if len(raw) > limit:
        raise CheckpointError(f"{where}: larger than {limit} bytes, which no such file needs.")
    value = loads(raw, where=where)
    if not isinstance(value, dict):
        raise CheckpointError(f"{where}: expected a JSON object, found {type(value).__name__}.")
    return value


def read_object(
    reader: Reader, file: FileEntry, *, limit: int = MAX_BYTES, constants: bool = False
) -> dict[str, Any]:
    """The same for a file of a checkpoint, wherever it lies."""
    if file.size > limit:
        raise CheckpointError(f"{file.path}: larger than {limit} bytes, which no such file needs.")
    value = loads(reader.read(file, 0, file.size), where=file.path, constants=constants)
    if not isinstance(value, dict):
        raise CheckpointError(f"{file.path}: expected a JSON object, found {type(value).__name__}.")
    return value
