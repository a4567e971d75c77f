"""A look at every value of a checkpoint's tensors for NaN and infinite ones.

Over safetensors files, in blocks: memory does not grow with the tensors. Bits are compared with those that each type
calls not a number or infinite, so that types without arithmetic (bfloat16, float8) are seen too: IEEE 754 for F64 to
F16; BF16 as the upper half of F32; F8_E5M2 and F8_E4M3 by the OCP 8-bit specification (E4M3 has no infinity and one NaN
per sign); the FNUZ types (0x80 alone is NaN) and E8M0 (0xFF alone is NaN) by ONNX's and OCP's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, BinaryIO

from pretrain_archive.artifacts.formats.parts import component_of
from pretrain_archive.artifacts.formats.safetensors import Tensor, header_of
from pretrain_archive.artifacts.readers import FileEntry, Reader
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.kinds import NotFiniteTensor, TensorScan

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 8 << 20
"""Bytes looked at together; a multiple of every element's size."""

MOST_TOLD = 100
MOST_JUDGED = 10
"""Tensors that a refusal or a record's warnings name."""

OTHER_FORMATS = (".pt", ".pth", ".bin", ".ckpt", ".distcp", ".npz", ".npy", ".gguf", ".h5")

WIDTHS: Mapping[str, int] = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "C64": 4,
    "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1,
}  # fmt: skip
"""Bytes of what is looked at as one number, for types that can be other than finite."""

EXPONENTS: Mapping[str, int] = {
    "F64": 0x7FF << 52, "F32": 0xFF << 23, "C64": 0xFF << 23, "F16": 0x1F << 10, "BF16": 0xFF << 7,
    "F8_E5M2": 0x1F << 2,
}  # fmt: skip
"""Bits that are all set in NaN and infinity; with any bit below them set too it is NaN."""

ONLY_NAN: Mapping[str, tuple[int, int]] = {
    "F8_E4M3": (0x7F, 0x7F), "F8_E8M0": (0xFF, 0xFF), "F8_E4M3FNUZ": (0xFF, 0x80), "F8_E5M2FNUZ": (0xFF, 0x80),
}  # fmt: skip
"""Mask, and what is left of NaN under it."""


def judged(scan: TensorScan | None) -> tuple[list[str], list[str]]:
    """What a scan refuses, and what it only warns of.

    NaN among the weights is refused: no training that goes on from there gets rid of it.
    """
    found = scan.not_finite if scan else []
    spoiled = [each for each in found if each.nan and component_of(each.file) == "weights"]
    refused = [f"{t.file}: tensor {t.tensor[:200]!r} holds {t.nan} NaN" for t in spoiled[:MOST_JUDGED]]
    odd = [each for each in found if each not in spoiled]
    warned = [
        f"{t.file}: tensor {t.tensor[:200]!r} holds {t.nan} NaN and {t.infinite} infinite values"
        for t in odd[:MOST_JUDGED]
    ]
    return refused, warned


def scan(
    reader: Reader, files: Iterable[FileEntry], *, progress: Callable[[int, int], None] | None = None
) -> TensorScan:
    """Count NaN and infinite values, tensor by tensor; files of other formats are named as skipped.

    Raises :class:`CheckpointError` for a file that changes or ends while it is read.
    """
    found: list[NotFiniteTensor] = []
    skipped: list[str] = []
    tensors = values = size = 0
    for number, file in enumerate(files):
        if not file.path.endswith(".safetensors"):
            if file.path.endswith(OTHER_FORMATS):
                skipped.append(f"{file.path}: values can only be read in safetensors files")
            continue
        header, start = header_of(reader, file)
        with reader.open(file) as stream:
            _exactly(stream, start, file)
            for tensor in header.tensors:
                nan, infinite, count = _count(stream, tensor, file)
                tensors, values = tensors + 1, values + count
                size += tensor.end - tensor.begin
                if nan or infinite:
                    found.append(
                        NotFiniteTensor(file=file.path, tensor=tensor.name, nan=nan, infinite=infinite)
                    )
                if progress is not None:
                    progress(number, size)
            if not reader.same(file, stream):
                raise CheckpointError(f"{file.path} changed while it was read.")
    return TensorScan(
        tensors=tensors, values=values, not_finite=found[:MOST_TOLD], skipped=skipped[:MOST_TOLD]
    )


def _count(stream: BinaryIO, tensor: Tensor, file: FileEntry) -> tuple[int, int, int]:
    """NaN, infinite and all values of the tensor whose bytes come next."""
    width = WIDTHS.get(tensor.dtype)
    left, nan, infinite = tensor.end - tensor.begin, 0, 0
    count = 0 if width is None else left // width
    while left:
        block = _exactly(stream, min(left, BLOCK), file)
        left -= len(block)
        if width is not None:
            more = _not_finite(block, tensor.dtype, width)
            nan, infinite = nan + more[0], infinite + more[1]
    return nan, infinite, count if tensor.dtype != "C64" else count // 2


def _not_finite(block: bytes, dtype: str, width: int) -> tuple[int, int]:
    import numpy as np  # noqa: PLC0415 - only where a scan is asked for

    bits: NDArray[np.unsignedinteger] = np.frombuffer(block, dtype=f"<u{width}")
    if dtype in ONLY_NAN:
        mask, nan = ONLY_NAN[dtype]
        return int(np.count_nonzero((bits & bits.dtype.type(mask)) == nan)), 0
    exponent = bits.dtype.type(EXPONENTS[dtype])
    odd = bits[(bits & exponent) == exponent]
    if not odd.size:
        return 0, 0
    below = bits.dtype.type((EXPONENTS[dtype] & -EXPONENTS[dtype]) - 1)
    nan_count = int(np.count_nonzero(odd & below))
    return nan_count, int(odd.size) - nan_count


def _exactly(stream: BinaryIO, size: int, file: FileEntry) -> bytes:
    """The next ``size`` bytes; where there are more than a block of them nothing is kept but the last."""
    block = b""
    while size:
        parts, wanted = [], min(size, BLOCK)
        while wanted and (part := stream.read(wanted)):
            parts.append(part)
            wanted -= len(part)
        if wanted:
            raise CheckpointError(f"{file.path} ended while it was read.")
        block = parts[0] if len(parts) == 1 else b"".join(parts)
        size -= len(block)
    return block
