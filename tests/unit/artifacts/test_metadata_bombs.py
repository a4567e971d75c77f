"""Metadata of strangers that is small, and would take all time or memory if it were believed."""

from __future__ import annotations

import gc
import struct
import time
import tracemalloc

import pytest

from pretrain_archive.artifacts.formats import dcp, inspect
from pretrain_archive.artifacts.readers import FileEntry, FolderReader, Listing
from pretrain_archive.domain.errors import CheckpointError


def made(name: str, state: bytes) -> bytes:
    """A pickle's object of that class of the format, with a state."""
    module = b"torch.distributed.checkpoint.metadata"
    return b"c" + module + b"\n" + name.encode() + b"\n)R" + state + b"b"


def text(value: str) -> bytes:
    """A text of any length."""
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def memo_bomb(chunk: bytes, *, name: str = "w", times: int = 1000) -> bytes:
    """One tensor whose list of chunks holds the same chunk many times."""
    size = b"ctorch\nSize\n)\x85R"
    chunks = b"](" + chunk + b"r\x01\0\0\0" + b"j\x01\0\0\0" * times + b"e"
    properties = made("TensorProperties", b"}" + text("dtype") + b"ctorch\nfloat32\ns")
    fields = text("properties") + properties + text("size") + size + text("chunks") + chunks
    tensors = b"}" + text(name) + made("TensorStorageMetadata", b"}(" + fields + b"u") + b"s"
    root = text("state_dict_metadata") + tensors + text("storage_data") + b"}"
    return b"\x80\x02" + made("Metadata", b"}(" + root + b"u") + b"."


def test_one_huge_object_that_is_named_often_is_not_walked_often():
    """A chunk with 100,000 attributes in 100,000 places: refused at the first."""
    attributes = b"}(" + b"".join(text(str(number)) + b"N" for number in range(100_000)) + b"u"

    started = time.process_time()
    with pytest.raises(CheckpointError, match="too many attributes"):
        dcp.read_metadata(memo_bomb(made("ChunkStorageMetadata", attributes), times=100_000))
    assert time.process_time() - started < 20


def test_one_long_name_is_not_repeated_in_every_finding():
    """A tensor's name of a megabyte, with a thousand faulty pieces: no gigabyte of text."""
    size = b"ctorch\nSize\n)\x85R"
    chunk = made("ChunkStorageMetadata", b"}(" + text("offsets") + size + text("sizes") + size + b"u")
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="too long"):
            dcp.read_metadata(memo_bomb(chunk, name="w" * 1_000_000))
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
    assert 20 == len(dcp.read_metadata(memo_bomb(chunk, name="w")).problems)


def test_metadata_of_many_folders_is_read_within_one_limit(tmp_path, monkeypatch):
    """Each byte of them costs time, and a folder may hold any number of them."""
    folder = tmp_path / "step_1"
    for number in range(3):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / ".metadata").write_bytes(b"x" * 400)
    monkeypatch.setattr(dcp.pickles, "MAX_BYTES", 1000)

    seen = inspect(folder)

    assert ["2/.metadata: with the others more than 1000 bytes, the limit"] == [
        text.partition(": files")[0] for text in seen.warnings
    ]
    assert 2 == sum("not a whole pickle" in text for text in seen.problems)


def test_files_are_sorted_to_their_folders_once(tmp_path, monkeypatch):
    """20,000 folders with data and without metadata: each file is looked at a few times, not 20,000 times."""
    files = tuple(FileEntry(path=f"{number}/__0_0.distcp", size=1) for number in range(20_000))
    monkeypatch.setattr(FolderReader, "listing", lambda _: Listing(files=files))

    started = time.process_time()
    seen = inspect(tmp_path)

    assert time.process_time() - started < 10
    assert "no 0/.metadata beside 1 .distcp files: saved to node-local disks?" == seen.problems[0]


@pytest.mark.parametrize("was", [True, False])
def test_the_collector_runs_again_after_metadata_was_read(was, monkeypatch):
    """It rests while a tree is built, also where that ends in an error; who had it off keeps it off."""
    seen: list[bool] = []

    def looked(*_: str) -> bool:
        seen.append(gc.isenabled())
        return False

    before = gc.isenabled()
    try:
        (gc.enable if was else gc.disable)()
        monkeypatch.setattr(dcp, "allowed", looked)
        with pytest.raises(CheckpointError):
            dcp.read_metadata(memo_bomb(b"N"))
        assert ([False], was) == (seen, gc.isenabled())
    finally:
        (gc.enable if before else gc.disable)()
