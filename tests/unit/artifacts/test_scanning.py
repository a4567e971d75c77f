"""Every value is looked at: NaN and infinity are found in every type, bit by bit."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.artifact_files import safetensors, tensor, write_checkpoint
from tests.unit.artifacts.test_registration import claim, refusals

from pretrain_archive.artifacts import scanning
from pretrain_archive.artifacts.readers import FolderReader
from pretrain_archive.artifacts.registration import Reading, register_checkpoint
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.kinds import TensorScan

CASES = [
    ("F64", struct.pack("<4d", 1, math.nan, math.inf, -math.inf), 1, 2),
    ("F32", struct.pack("<4f", 1, math.nan, math.inf, -math.inf), 1, 2),
    ("F16", struct.pack("<4e", 65504, math.nan, math.inf, -math.inf), 1, 2),
    ("BF16", struct.pack("<4H", 0x3F80, 0x7FC0, 0x7F80, 0xFF80), 1, 2),
    ("BF16", struct.pack("<2H", 0x7F7F, 0xFF81), 1, 0),
    ("C64", struct.pack("<4f", 1, math.nan, math.inf, 0), 1, 1),
    ("F8_E5M2", bytes([0x7B, 0x7C, 0xFC, 0x7D, 0xFF]), 2, 2),
    ("F8_E4M3", bytes([0x7E, 0x7F, 0xFF, 0x00]), 2, 0),
    ("F8_E4M3FNUZ", bytes([0x7F, 0x80, 0xFF, 0x00]), 1, 0),
    ("F8_E5M2FNUZ", bytes([0x7F, 0x80, 0xFF, 0x00]), 1, 0),
    ("F8_E8M0", bytes([0xFE, 0xFF]), 1, 0),
    ("I32", b"\xff" * 8, 0, 0),
    ("U8", b"\xff" * 4, 0, 0),
    ("BOOL", b"\x01" * 4, 0, 0),
]
WIDTH = {"F64": 8, "F32": 4, "C64": 8, "F16": 2, "BF16": 2, "I32": 4}


def scanned(folder, dtype: str, data: bytes) -> TensorScan:
    """The scan of a checkpoint with one tensor."""
    folder.mkdir(exist_ok=True)
    count = len(data) // WIDTH.get(dtype, 1)
    header = {"t": tensor(0, len(data), shape=[count], dtype=dtype)}
    (folder / "model.safetensors").write_bytes(safetensors(header, data))
    reader = FolderReader(folder)
    return scanning.scan(reader, reader.listing().files)


@pytest.mark.parametrize(("dtype", "data", "nan", "infinite"), CASES)
def test_each_type_has_its_own_bits(tmp_path, dtype, data, nan, infinite):
    """As its specification defines them; whole numbers are always finite."""
    scan = scanned(tmp_path / "c", dtype, data)

    found = [(each.nan, each.infinite) for each in scan.not_finite]
    assert ([(nan, infinite)] if nan or infinite else []) == found
    assert 1 == scan.tensors


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "bfloat16"]
)
def test_pytorch_agrees_on_every_bit_pattern(tmp_path, dtype):
    """All values of the small types, as PyTorch classifies them."""
    import torch

    names = {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "bfloat16": "BF16"}
    name = names.get(dtype, "F8_" + dtype.removeprefix("float8_").upper())
    data = struct.pack("<65536H", *range(65536)) if name == "BF16" else bytes(range(256))
    values = torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype)).to(torch.float32)

    scan = scanned(tmp_path / "c", name, data)

    expected = (int(values.isnan().sum()), int(values.isinf().sum()))
    assert [expected] == [(each.nan, each.infinite) for each in scan.not_finite]
    assert values.numel() == scan.values


@given(st.lists(st.floats(width=32), max_size=300), st.sampled_from([4, 8, 64]))
@settings(max_examples=60, deadline=None)
def test_blocks_of_any_size_count_alike(tmp_path_factory, values, block):
    """A tensor is read in blocks, and their borders lose nothing."""
    before = scanning.BLOCK
    scanning.BLOCK = block
    try:
        scan = scanned(
            tmp_path_factory.getbasetemp() / "blocks", "F32", struct.pack(f"<{len(values)}f", *values)
        )
    finally:
        scanning.BLOCK = before

    nan, infinite = sum(map(math.isnan, values)), sum(map(math.isinf, values))
    assert (nan, infinite) == next(((each.nan, each.infinite) for each in scan.not_finite), (0, 0))
    assert len(values) == scan.values


def test_what_is_not_safetensors_is_told_as_not_looked_at(tmp_path):
    """Not checked is said, and never taken for checked."""
    (tmp_path / "weights.bin").write_bytes(b"x")
    reader = FolderReader(tmp_path)

    scan = scanning.scan(reader, reader.listing().files)

    assert (0, ["weights.bin: values can only be read in safetensors files"]) == (scan.tensors, scan.skipped)


@pytest.mark.requirement("R101")
def test_weights_with_nan_are_refused_where_a_scan_was_asked_for(tmp_path, ledger, actor, origin):
    """With tensor and number; without the question the bytes are what they are."""
    folder = write_checkpoint(tmp_path, 100, content=struct.pack("<4f", 1, 2, math.nan, 4))
    asked = Reading(scan=True)

    with pytest.raises(CheckpointError, match="tensor 'w' holds 1 NaN"):
        register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin, reading=asked)
    assert ["model.safetensors: tensor 'w' holds 1 NaN"] == refusals(ledger)[0].problems

    fact = register_checkpoint(ledger, folder, claim(), actor=actor, origin=origin)
    assert fact.scan is None


def test_infinite_weights_are_told_and_not_refused(tmp_path, ledger, actor, origin):
    """A mask may hold them on purpose."""
    folder = write_checkpoint(tmp_path, 100, content=struct.pack("<4f", 1, 2, -math.inf, 4))

    fact = register_checkpoint(
        ledger, folder, claim(), actor=actor, origin=origin, reading=Reading(scan=True)
    )

    assert "model.safetensors: tensor 'w' holds 0 NaN and 1 infinite values" in fact.warnings
    assert (2, 8) == (fact.scan.tensors, fact.scan.values)
