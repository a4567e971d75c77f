"""The header of a safetensors file, with the standard library only.

Layout (https://github.com/huggingface/safetensors, section "Format"): 8 bytes little-endian header length N,
N bytes of JSON that begin with ``{``, then the tensors' bytes. Every tensor names dtype, shape and its
[begin, end) in the byte buffer; together they cover the buffer exactly. Only the header is read, and only
after its length was found to fit the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pretrain_archive.artifacts.formats import strict_json
from pretrain_archive.artifacts.readers import FileEntry, Reader
from pretrain_archive.domain.errors import CheckpointError

MAX_HEADER = 100_000_000
"""The limit that the format's own reader sets, in bytes."""

DTYPE_BITS: Mapping[str, int] = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """A tensor as a header declares it; ``begin`` and ``end`` are offsets in the byte buffer."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """A checked header: its tensors in the order of their bytes, and the free text map."""

    tensors: tuple[Tensor, ...]
    metadata: Mapping[str, str]


def header_of(reader: Reader, file: FileEntry) -> tuple[Header, int]:
    """The checked header of a checkpoint's file, wherever it lies, and the offset of its byte buffer.

    Raises :class:`CheckpointError` with the file's name and the first fault found. Reads eight bytes and
    the header, never the tensors.
    """
    length = _header_length(reader.read(file, 0, 8), file.size, file.path)
    raw = reader.read(file, 8, length)
    if len(raw) != length:
        raise CheckpointError(f"{file.path}: header is cut: expected {length} bytes, found {len(raw)}.")
    return parse_header(raw, data_size=file.size - 8 - length, where=file.path), 8 + length


def _header_length(prefix: bytes, size: int, name: str) -> int:
    if len(prefix) < 8:
        raise CheckpointError(f"{name}: {size} bytes, too short for a safetensors file (at least 10).")
    length = int(struct.unpack("<Q", prefix)[0])
    if length > size - 8:
        raise CheckpointError(f"{name}: header length {length} is beyond the file's {size} bytes.")
    if length > MAX_HEADER:
        raise CheckpointError(f"{name}: header length {length} is above the limit of {MAX_HEADER} bytes.")
    return length


def parse_header(raw: bytes, *, data_size: int, where: str) -> Header:
    """Check header bytes against a byte buffer of ``data_size``; :class:`CheckpointError` on any fault."""
    if not raw.startswith(b"{"):
        raise CheckpointError(f"{where}: header is not a JSON object.")
    document = strict_json.loads(raw, where=f"{where} header")
    metadata = document.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise CheckpointError(f"{where}: __metadata__ must map texts to texts.")
    tensors = sorted(
        (_tensor(name, entry, where) for name, entry in document.items()),
        key=lambda tensor: (tensor.begin, tensor.end),
    )
    _check_cover(tensors, data_size, where)
    return Header(tensors=tuple(tensors), metadata=metadata)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _tensor(name: str, entry: Any, where: str) -> Tensor:
    what = f"{where}: tensor {name!r}"
    if any(0xD800 <= ord(char) <= 0xDFFF for char in name):
        raise CheckpointError(f"{what}: the name is not text that UTF-8 can hold.")
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{what}: expected exactly dtype, shape and data_offsets.")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise CheckpointError(f"{what}: unknown dtype {dtype!r}.")
    if not isinstance(shape, list) or not all(_whole(side) for side in shape):
        raise CheckpointError(f"{what}: shape must be a list of whole numbers.")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_whole(offset) for offset in offsets):
        raise CheckpointError(f"{what}: data_offsets must be two whole numbers.")
    begin, end = offsets
    if begin > end:
        raise CheckpointError(f"{what}: begins at {begin} after its end {end}.")
    bits = _bits(shape, DTYPE_BITS[dtype], what)
    if bits % 8 or bits // 8 != end - begin:
        raise CheckpointError(f"{what}: shape and dtype need {bits / 8:g} bytes, offsets give {end - begin}.")
    return Tensor(name=name, dtype=dtype, shape=tuple(shape), begin=begin, end=end)


def _bits(shape: Iterable[int], bits: int, what: str) -> int:
    sides = list(shape)
    if 0 in sides:
        return 0
    for side in sides:
        bits *= side
        if bits >= 1 << 67:  # 2^64 bytes: no file is that large, and the product must not grow without end
            raise CheckpointError(f"{what}: the product of its shape overflows 64 bits.")
    return bits


def _check_cover(tensors: Iterable[Tensor], data_size: int, where: str) -> None:
    at, before = 0, ""
    for tensor in tensors:
        if tensor.begin < at:
            raise CheckpointError(
                f"{where}: tensors {before!r} and {tensor.name!r} overlap at {tensor.begin}."
            )
        if tensor.begin > at:
            raise CheckpointError(
                f"{where}: hole of {tensor.begin - at} bytes before tensor {tensor.name!r}."
            )
        at, before = tensor.end, tensor.name
    if at > data_size:
        raise CheckpointError(
            f"{where}: truncated: tensors end at {at}, the file holds {data_size} bytes of data."
        )
    if at < data_size:
        raise CheckpointError(f"{where}: {data_size - at} bytes after the last tensor belong to none.")
