"""Headers of safetensors files: every lie is named, nothing but a refusal ever comes out."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.artifact_files import safetensors, tensor, write_checkpoint, write_sharded

from pretrain_archive.artifacts.formats.folder import inspect
from pretrain_archive.artifacts.formats.safetensors import Header, header_of, parse_header
from pretrain_archive.artifacts.readers import FileEntry, FolderReader
from pretrain_archive.domain.errors import CheckpointError

ENTRY_A = b'"a":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
DUPLICATE = b"{" + ENTRY_A % (0, 4) + b"," + ENTRY_A % (4, 8) + b"}"
SURROGATE = b'{"\\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'


@pytest.mark.case("C03")
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        pytest.param(b"", "0 bytes, too short", id="nothing"),
        pytest.param(b"\1\0\0\0\0\0\0", "7 bytes, too short", id="seven bytes"),
        pytest.param(safetensors({}, length=1 << 63), "beyond the file", id="length 2^63"),
        pytest.param(safetensors({}, length=4096), "beyond the file", id="length beyond the file"),
        pytest.param(safetensors(b"{nope"), "not valid JSON", id="not JSON"),
        pytest.param(safetensors([1]), "not a JSON object", id="a list"),
        pytest.param(safetensors(b'{"\xff":1}'), "not UTF-8", id="not UTF-8"),
        pytest.param(safetensors(DUPLICATE, b"\0" * 8), "'a' is given twice (duplicate", id="duplicate"),
        pytest.param(
            safetensors({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, b"\0" * 4),
            "begins at 4 after its end 0",
            id="begin after end",
        ),
        pytest.param(
            safetensors({"a": tensor(0, 8), "b": tensor(4, 12)}, b"\0" * 12), "overlap at 4", id="overlap"
        ),
        pytest.param(
            safetensors({"a": tensor(0, 4), "b": tensor(8, 12)}, b"\0" * 12), "hole of 4 bytes", id="hole"
        ),
        pytest.param(safetensors({"a": tensor(0, 8)}, b"\0" * 4), "truncated", id="cut"),
        pytest.param(safetensors({"a": tensor(0, 4)}, b"\0" * 9), "5 bytes after the last", id="trailing"),
        pytest.param(
            safetensors({"a": tensor(0, 4, shape=[1000, 1000])}, b"\0" * 4), "need 4e+06 bytes", id="shape"
        ),
        pytest.param(
            safetensors({"a": tensor(0, 4, dtype="F33")}, b"\0" * 4), "unknown dtype 'F33'", id="dtype"
        ),
        pytest.param(
            safetensors({"a": tensor(0, 4, shape=[1 << 40, 1 << 40])}, b"\0" * 4), "overflows", id="overflow"
        ),
        pytest.param(
            safetensors({"a": tensor(0, 4, shape=[True])}, b"\0" * 4), "whole numbers", id="truth value"
        ),
        pytest.param(
            safetensors({"a": tensor(0, 3, shape=[6], dtype="F4")}, b"\0" * 2), "truncated", id="half bytes"
        ),
        pytest.param(safetensors({"a": 1}), "expected exactly", id="entry is no object"),
        pytest.param(safetensors({"__metadata__": {"a": 1}}), "__metadata__", id="metadata of numbers"),
        pytest.param(safetensors(SURROGATE, b"\0" * 4), "UTF-8", id="name is a lone surrogate"),
        pytest.param(safetensors(b'{"a":' + b"[" * 100_000), "JSON", id="nested without end"),
    ],
)
def test_each_lie_is_refused_with_its_own_reason(tmp_path, raw, words):
    """The file's name and the fault are in the message; the memory stays small."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw)

    tracemalloc.start()
    with pytest.raises(CheckpointError) as caught:
        read_header(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert words in str(caught.value)
    assert str(caught.value).startswith("model.safetensors")
    assert peak < 16 * 1024 * 1024


def test_a_whole_header_is_read_in_the_order_of_its_bytes():
    """Offsets decide the order, empty tensors are allowed, metadata is kept."""
    raw = json.dumps(
        {"b": tensor(4, 8), "a": tensor(0, 4), "none": tensor(4, 4, shape=[0, 7]), "__metadata__": {"k": "v"}}
    ).encode()

    header = parse_header(raw, data_size=8, where="x")

    assert ["a", "none", "b"] == [entry.name for entry in header.tensors]
    assert {"k": "v"} == header.metadata


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=200), honest=st.booleans())
def test_no_bytes_lead_to_anything_but_a_refusal(tmp_path_factory, raw, honest):
    """Whatever the file holds: a header or a CheckpointError."""
    path = tmp_path_factory.mktemp("fuzz") / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(raw)) + b"{" + raw if honest else raw)

    _refused_or_read(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ENTRY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F4", "BOOL", "I64", "F33"]) | JSON,
        "shape": st.lists(st.integers(-1, 5), max_size=3) | JSON,
        "data_offsets": st.lists(st.integers(-1, 40), min_size=2, max_size=2) | JSON,
    }
)


@settings(max_examples=300, deadline=None)
@given(header=st.dictionaries(st.text(max_size=5), ENTRY | JSON, max_size=3), data=st.binary(max_size=40))
def test_no_header_leads_to_anything_but_a_refusal(tmp_path_factory, header, data):
    """Plausible and absurd entries alike; what is read covers the data exactly."""
    path = tmp_path_factory.mktemp("fuzz") / "x.safetensors"
    path.write_bytes(safetensors(header, data))

    found = _refused_or_read(path)

    if found is not None:
        assert len(data) == sum(entry.end - entry.begin for entry in found.tensors)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(state=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()), index=JSON)
def test_no_folder_makes_the_inspection_fail(tmp_path_factory, state, index):
    """State files and indexes of any content give problems, never an error."""
    root = tmp_path_factory.mktemp("fuzz")
    (write_checkpoint(root, 100) / "state.json").write_bytes(state)
    write_sharded(root / "sharded", index={"weight_map": index})

    inspect(root / "step_00000100")
    sharded = inspect(root / "sharded")

    assert not sharded.complete


def test_a_flipped_bit_in_a_real_file_is_seen_or_harmless(tmp_path):
    """A header with any one bit flipped is refused or still covers its data exactly."""
    raw = safetensors({"w": tensor(0, 16)}, b"\1" * 16)
    path = tmp_path / "x.safetensors"
    refused = 0
    for bit in range((len(raw) - 16) * 8):
        spoiled = bytearray(raw)
        spoiled[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoiled)
        refused += _refused_or_read(path) is None

    assert refused > len(raw) * 4


def read_header(path: Path) -> Header:
    """The header of a file in a checkpoint's folder."""
    return header_of(FolderReader(path.parent), FileEntry(path=path.name, size=path.stat().st_size))[0]


def _refused_or_read(path: Path):
    try:
        return read_header(path)
    except CheckpointError:
        return None
