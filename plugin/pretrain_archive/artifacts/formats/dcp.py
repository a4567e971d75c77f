"""PyTorch distributed checkpoints (DCP): ``*.distcp`` files, and a pickle ``.metadata`` that says what is in them.

The pickle is walked, never loaded (:mod:`pickles`). Its layout is that of ``torch.distributed.checkpoint.metadata``
and ``.filesystem`` of PyTorch 2.0 to 2.13 (https://github.com/pytorch/pytorch/tree/v2.13.0/torch/distributed/checkpoint):
``Metadata.state_dict_metadata`` gives each tensor's properties, size and chunks; ``storage_data`` maps each chunk (name
and offset) to a file, an offset and a length. Rank 0 writes ``.metadata`` last and by a rename, so that its being there
is the format's own mark of a finished save.
"""

from __future__ import annotations

import gc
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.artifacts.formats import pickles
from pretrain_archive.artifacts.formats.pickles import Made, Name, Pairs
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.identity import path_to_text

METADATA = ".metadata"
SUFFIX = ".distcp"
MOST_CHUNKS = 1_000_000
MOST_DIMENSIONS = 64
MOST_ATTRIBUTES = 64
MOST_CHARACTERS = 1024
"""Of a tensor's or a file's name: a pickle may point at one long text from a million places."""

MOST_TOLD = 20

_ROOTS = {"Metadata", "MCoreMetadata"}
_CLASSES = _ROOTS | {
    "TensorStorageMetadata", "BytesStorageMetadata", "TensorProperties", "ChunkStorageMetadata", "MetadataIndex",
    "StorageMeta", "_StorageInfo", "_StoragePrefix", "_MEM_FORMAT_ENCODING", "_HFStorageInfo", "StorageType",
}  # fmt: skip
_MODULES = re.compile(
    r"torch\.distributed\.checkpoint(\.[a-z_]+)?|torch\.distributed\._shard\.(sharded_tensor\.)?metadata"
    r"|megatron\.core\.dist_checkpointing\.strategies\.torch"
)
_OTHERS = {
    ("torch", "Size"), ("torch.serialization", "_get_layout"), ("torch", "strided"),
    ("collections", "OrderedDict"), ("copyreg", "_reconstructor"), ("builtins", "object"), ("builtins", "set"),
    *((module, name) for module in ("pathlib", "pathlib._local")
      for name in ("Path", "PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath")),
}  # fmt: skip
ITEM_BITS: Mapping[str, int] = {
    "float64": 64, "double": 64, "float32": 32, "float": 32, "float16": 16, "half": 16, "bfloat16": 16,
    "int64": 64, "long": 64, "int32": 32, "int": 32, "int16": 16, "short": 16, "int8": 8, "uint8": 8, "uint16": 16,
    "uint32": 32, "uint64": 64, "bool": 8, "complex32": 32, "complex64": 64, "complex128": 128, "float8_e4m3fn": 8,
    "float8_e5m2": 8, "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8, "float8_e8m0fnu": 8, "float4_e2m1fn_x2": 8,
    "quint8": 8, "qint8": 8, "qint32": 32, "bits8": 8, "bits16": 16,
}  # fmt: skip


class _LayoutError(ValueError):
    """Not laid out as the format is."""


def allowed(module: str, name: str) -> bool:
    """Whether the format's metadata may name it; a dotted name would reach anything that a module has imported."""
    if module == "torch" and name in ITEM_BITS:
        return True
    return (module, name) in _OTHERS or (name in _CLASSES and _MODULES.fullmatch(module) is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """A piece of a tensor: its place in the tensor, and where its bytes are (``file`` empty: nowhere)."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str = ""
    at: int = 0
    length: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """A tensor as the metadata declares it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Metadata:
    """What ``.metadata`` says: tensors, other values by name with their file, and how long each file must be."""

    tensors: tuple[Tensor, ...]
    values: Mapping[str, tuple[str, int]]
    needs: Mapping[str, int]
    problems: tuple[str, ...]


@dataclass(slots=True)
class _Stored:
    """``storage_data`` by tensor name and offset."""

    places: dict[tuple[str, tuple[int, ...] | None], tuple[str, int, int]] = field(default_factory=dict)
    transformed: bool = False


@contextmanager
def _uncollected() -> Iterator[None]:
    """Millions of small values are made and kept: looking through them for rubbish meanwhile takes half of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@_uncollected()
def read_metadata(raw: bytes, *, where: str = METADATA) -> Metadata:
    """What the pickle says; :class:`CheckpointError` for one that is not whole or is of another kind."""
    root = pickles.walk(raw, where=where, allowed=allowed)
    if not isinstance(root, Made) or not isinstance(root.what, Name) or root.what.name not in _ROOTS:
        raise CheckpointError(f"{where}: is a pickle, but not the metadata of a distributed checkpoint.")
    try:
        fields = _fields(root)
        stored = _stored(fields.get("storage_data"))
        return _read(fields.get("state_dict_metadata"), stored, where)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise CheckpointError(
            f"{where}: not laid out as a distributed checkpoint's: {str(error)[:200]}."
        ) from error


def _read(declared: Any, stored: _Stored, where: str) -> Metadata:
    tensors: list[Tensor] = []
    values: dict[str, tuple[str, int]] = {}
    problems: list[str] = []
    budget = _Budget()
    for name, made in _pairs(declared):
        if not isinstance(name, str) or name in values or not _is_text(name):
            raise _LayoutError(
                "a tensor is named twice, or its name is too long or not text that UTF-8 can hold"
            )
        kind = made.what.name
        if kind == "BytesStorageMetadata":
            place = stored.places.get((name, None))
            values[name] = (place[0], place[2]) if place else ("", 0)
            problems += [] if place else [f"{where}: {name!r} is stored in no file"]
            continue
        if kind != "TensorStorageMetadata":
            raise _LayoutError(f"{name!r} is a {kind}")
        tensor = _tensor(name, _fields(made), stored, budget)
        tensors.append(tensor)
        told = itertools.islice(_faults(tensor, stored), max(0, MOST_TOLD - len(problems)))
        problems.extend(f"{where}: {problem}" for problem in told)
    names = [tensor.name for tensor in tensors]
    if len(set(names)) != len(names):
        raise _LayoutError("a tensor is named twice")
    if not tensors and not values:
        raise _LayoutError("it names no tensor")
    return Metadata(
        tensors=tuple(tensors), values=values, needs=_needs(stored), problems=tuple(problems[:MOST_TOLD])
    )  # fmt: skip


class _Budget:
    """Shared lists cost their pickle nothing: what is walked is counted."""

    def __init__(self) -> None:
        self._left = MOST_CHUNKS

    def spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _LayoutError(f"more than {MOST_CHUNKS} pieces of tensors")


def _tensor(name: str, fields: Mapping[str, Any], stored: _Stored, budget: _Budget) -> Tensor:
    shape = _size(fields["size"])
    chunks = []
    declared = fields["chunks"]
    if not isinstance(declared, list):
        raise _LayoutError(f"chunks of {name!r} are no list")
    budget.spend(len(declared) + 1)
    for each in declared:
        piece = _fields(each)
        offsets, sizes = _size(piece["offsets"]), _size(piece["sizes"])
        file, at, length = stored.places.get((name, offsets), ("", 0, 0))
        chunks.append(Chunk(offsets=offsets, sizes=sizes, file=file, at=at, length=length))
    return Tensor(name=name, dtype=_dtype(fields["properties"]), shape=shape, chunks=tuple(chunks))


def _faults(tensor: Tensor, stored: _Stored) -> Iterator[str]:
    """What the metadata says of a tensor that cannot be so."""
    what, held = f"tensor {tensor.name!r}", 0
    bits = ITEM_BITS.get(tensor.dtype, 0)
    for chunk in tensor.chunks:
        ends = [at + size for at, size in zip(chunk.offsets, chunk.sizes, strict=False)]
        dimensions = {len(chunk.offsets), len(chunk.sizes), len(tensor.shape)}
        if len(dimensions) > 1 or any(end > side for end, side in zip(ends, tensor.shape, strict=True)):
            yield f"{what}: a piece at {list(chunk.offsets)} of {list(chunk.sizes)} is not within {list(tensor.shape)}"
            return
        count = math.prod(chunk.sizes)
        held += count
        if not chunk.file:
            yield f"{what}: its piece at {list(chunk.offsets)} is stored in no file"
        elif not stored.transformed and chunk.length < count * bits // 8:
            yield f"{what}: {chunk.length} bytes are stored for {count} values of {tensor.dtype}"
    if held < math.prod(tensor.shape):
        yield f"{what}: its pieces hold {held} of {math.prod(tensor.shape)} values"


def _stored(pairs: Any) -> _Stored:
    stored = _Stored()
    for key, info in _pairs(pairs):
        index, place = _fields(key), _fields(info)
        offset = None if index.get("offset") is None else _size(index["offset"])
        stored.transformed = stored.transformed or bool(place.get("transform_descriptors"))
        file, at, length = place["relative_path"], place["offset"], place["length"]
        if not isinstance(index["fqn"], str) or not isinstance(file, str):
            raise _LayoutError("a place in storage without name or file")
        stored.places[index["fqn"], offset] = (_inside(file), _whole(at), _whole(length))
    return stored


def _needs(stored: _Stored) -> dict[str, int]:
    needs: dict[str, int] = {}
    for file, at, length in stored.places.values():
        needs[file] = max(needs.get(file, 0), at + length)
    return needs


def _inside(file: str) -> str:
    """A file's name below the folder, as listings write it; ``ValueError`` for one that leads out of it."""
    parts = file.split("/") if len(file) <= MOST_CHARACTERS else [""]
    if any(part in {"", ".", ".."} for part in parts) or "\\" in file or "\x00" in file:
        raise _LayoutError(f"{file[:100]!r} is not the name of a file below the folder")
    return path_to_text(file.encode("utf-8", "surrogatepass"))


def _fields(made: Any) -> dict[str, Any]:
    """The attributes that a value was given: its state, or the state beside its slots."""
    if not isinstance(made, Made):
        raise _LayoutError("expected an object")
    state = made.state
    slotted = isinstance(state, tuple) and len(state) == 2  # (attributes, slots)
    parts = (
        [part for part in state if isinstance(part, Pairs)] if slotted else [] if state is None else [state]
    )
    pairs = [pair for part in parts for pair in itertools.islice(_pairs(part), MOST_ATTRIBUTES + 1)]
    if len(pairs) > MOST_ATTRIBUTES:
        raise _LayoutError("an object with too many attributes")
    return {str(key): value for key, value in pairs if isinstance(key, str)}


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Made) and isinstance(value.state, Pairs):
        value = value.state
    if not isinstance(value, Pairs):
        raise _LayoutError("expected a mapping")
    yield from value.items


def _size(value: Any) -> tuple[int, ...]:
    """A ``torch.Size``: made of a tuple of whole numbers."""
    if isinstance(value, Made) and isinstance(value.what, Name) and value.what.name == "Size":
        arguments = value.arguments
        value = arguments[0] if isinstance(arguments, tuple) and arguments else ()
    if not isinstance(value, tuple | list) or len(value) > MOST_DIMENSIONS:
        raise _LayoutError("expected a size")
    return tuple(_whole(side) for side in value)


def _is_text(name: str) -> bool:
    return len(name) <= MOST_CHARACTERS and not any(0xD800 <= ord(char) <= 0xDFFF for char in name)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise _LayoutError("expected a whole number of at most 63 bits")
    return value


def _dtype(properties: Any) -> str:
    """The element type: first of the properties' state, or its attribute ``dtype``."""
    if not isinstance(properties, Made):
        raise _LayoutError("properties of a tensor")
    state = properties.state
    first = state[0] if isinstance(state, tuple) and len(state) > 2 else _fields(properties).get("dtype")
    return first.name if isinstance(first, Name) else "unrecorded"
