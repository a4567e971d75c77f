"""Checkpoint folders for tests: whole, sharded, cut, lying and half written, made from nothing."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any


def tensor(begin: int, end: int, *, shape: list[int] | None = None, dtype: str = "F32") -> dict[str, Any]:
    """A header entry; the shape is that of F32 values unless given."""
    return {
        "dtype": dtype,
        "shape": [(end - begin) // 4] if shape is None else shape,
        "data_offsets": [begin, end],
    }


def safetensors(header: Any, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A file with ``header`` (JSON value or raw bytes, padded to eight) and an honest or given length."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def write_checkpoint(
    root: Path,
    step: int,
    *,
    name: str = "",
    content: bytes = b"\x01\x02\x03\x04" * 4,
    state: dict[str, Any] | None = None,
    complete: bool = True,
) -> Path:
    """A folder as the training program writes it: weights, optimizer, state and, last, the marker."""
    folder = root / (name or f"step_{step:08d}")
    folder.mkdir(parents=True)
    size = len(content)
    (folder / "model.safetensors").write_bytes(safetensors({"w": tensor(0, size)}, content))
    (folder / "optimizer.safetensors").write_bytes(safetensors({"m": tensor(0, size)}, content[::-1]))
    position = {"epoch": 0, "document": step * 3, "offset": 17}
    known = {"step": step, "tokens": step * 4096, "data_position": position}
    (folder / "state.json").write_text(json.dumps(known if state is None else state))
    if complete:
        (folder / ".complete").touch()
    return folder


def write_sharded(folder: Path, *, index: Any = None) -> Path:
    """Two shards with tensors a and b, and an index that names them."""
    folder.mkdir(parents=True)
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    (folder / first).write_bytes(safetensors({"a": tensor(0, 8)}, b"\0" * 8))
    (folder / second).write_bytes(safetensors({"b": tensor(0, 16)}, b"\1" * 16))
    honest = {"metadata": {"total_size": 24}, "weight_map": {"a": first, "b": second}}
    text = index if isinstance(index, str) else json.dumps(honest if index is None else index)
    (folder / "model.safetensors.index.json").write_text(text)
    return folder


def write_folder(root: Path, step: int, *, complete: bool, name: str = "") -> Path:
    """A folder of another program: opaque weights, a small state file and the marker, both only if complete."""
    folder = root / (name or f"step_{step}")
    folder.mkdir(parents=True)
    (folder / "weights.bin").write_bytes(b"w" * step)
    if complete:
        (folder / "meta.json").write_text(json.dumps({"step": step}))
        (folder / ".complete").touch()
    return folder
