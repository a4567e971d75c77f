"""Checkpoints and results of evaluations: what a training or evaluation program leaves."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path

from tests.fuzz.target import Target

from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.metric_files import parse
from pretrain_archive.artifacts.metrics import read_output
from pretrain_archive.artifacts.pointers import list_checkpoints, resolve_latest
from pretrain_archive.domain.errors import ArchiveError


def weights() -> bytes:
    """A safetensors file of one tensor."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(8)


def results(raw: bytes) -> None:
    """The output of an evaluation program."""
    read_output(parse(raw, where="evaluation.json"), where="evaluation.json")


def result_files() -> list[bytes]:
    """A flat file, a full one, lines, and numbers that are none."""
    full = {
        "data_set": "held out", "data_set_digest": "sha256:" + "0" * 64, "definition": {"name": "bits"},
        "metrics": [{"name": "loss", "value": 2.0, "unit": "nats", "direction": "lower", "samples": 10}],
        "baselines": [{"name": "b", "kind": "untrained model", "subject_digest": "sha256:" + "1" * 64,
                       "metrics": [{"name": "loss", "value": 8.0, "direction": "lower"}]}],
    }  # fmt: skip
    return [
        b'{"acc": 0.4, "loss": NaN, "acc": 1e999}', json.dumps(full).encode(),
        b'{"name": "acc", "value": 0.5}\n{"name": "f1", "value": 1}\n',
    ]  # fmt: skip


def folder_of(*names: str):
    """A target that writes the parts of its bytes (between four bytes of 0xA5) as files and inspects the folder."""

    def call(raw: bytes, folder: Path) -> None:
        for name, content in zip(names, raw.split(b"\xa5" * 4), strict=False):
            (folder / name).write_bytes(content)
        inspect(folder)

    return call


def joined(*parts: bytes) -> bytes:
    """Parts of a folder as one input."""
    return (b"\xa5" * 4).join(parts)


INDEX = json.dumps(
    {"metadata": {"total_size": 8}, "weight_map": {"w": "model-00001-of-00001.safetensors"}}
).encode()


def pointers(raw: bytes, folder: Path) -> None:
    """Step folders and the file that names the newest one."""
    pointer, _, name = raw.partition(b"\n\n")
    (folder / "step-100").mkdir()
    (folder / "step-100" / "model.safetensors").write_bytes(weights())
    (folder / "latest").write_bytes(pointer)
    with contextlib.suppress(OSError):
        (folder / (name[:100].decode("utf-8", "replace").replace("/", "_").replace("\0", "") or "x")).mkdir()
    list_checkpoints(folder)
    resolve_latest(folder)


FORMATS = "pretrain_archive.artifacts.formats"
ARTIFACTS = [
    Target(name="safetensors file", call=folder_of("model.safetensors"), seeds=lambda: [weights()], scratch=True,
           modules=(FORMATS,)),
    Target(name="index of shards", scratch=True, modules=(FORMATS,),
           call=folder_of("model.safetensors.index.json", "model-00001-of-00001.safetensors"),
           seeds=lambda: [joined(INDEX, weights())]),
    Target(name="pointer to the newest checkpoint", call=pointers, scratch=True,
           modules=("pretrain_archive.artifacts.pointers",),
           seeds=lambda: [b"step-100\n\nstep-200", b"100\n", b"../x", b"iter_0000100\n\niter_0000100"]),
    Target(name="evaluation results", call=results, seeds=result_files, refuses=(ArchiveError,),
           modules=("pretrain_archive.artifacts.metric_files", "pretrain_archive.artifacts.metrics")),
]  # fmt: skip
