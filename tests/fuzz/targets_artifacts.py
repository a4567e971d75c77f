"""Checkpoints and results of evaluations: what a training or evaluation program leaves."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import pickle
import struct
import zlib
from pathlib import Path

from tests.fuzz.target import Target

from pretrain_archive.artifacts.formats import inspect
from pretrain_archive.artifacts.formats.dcp import read_metadata
from pretrain_archive.artifacts.metric_files import parse
from pretrain_archive.artifacts.metrics import read_output
from pretrain_archive.artifacts.pointers import list_checkpoints, resolve_latest
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.kinds import CheckpointRegistered
from pretrain_archive.services.human_items import draw


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


HARNESS = json.dumps({
    "results": {"arc": {"alias": "arc", "acc,none": 0.5, "acc_stderr,none": 0.1}}, "versions": {"arc": 1.0},
    "configs": {"arc": {"task": "arc", "num_fewshot": 0}}, "n-samples": {"arc": {"original": 10, "effective": 10}},
    "higher_is_better": {"arc": {"acc": True}}, "lm_eval_version": "0.4.9",
}).encode()  # fmt: skip
METADATA = zlib.decompress(
    base64.b64decode(
        "eNp9U+9P00AYLm6jwsCQgMYPxoREIovZ2NhY4aNONGTZQMDERGdzba+7C12v9q7ISEz0wzAk983zz/R/8L2uYzOi/dC07z3P8z7vj/ua/2nl"
        "jfSRG4LFLql4lIuYOonAXsUl2D2LGA1FZYAF8pBASt7tTD5/qNI39UVtylUukMC2R11h3wD1wdxnRQx5/xSHnMUnkAD18d/0xShmEY4FxVzD"
        "V8bwo2kwRW7KQupQSdMPGBL1bYjL1bFrjmOKAnqJBGWhkkW7j4UdoCFLhEYtZyiozMOeGqljdQ2Z1uzOfsd+dXjceX5q73dbhy8Puq8B3zZS"
        "hFCOzHN6idVN6vyJ/gXEnXbuKtWR8y5JwjOuetr7Wkv//LNSk/k+xwLKXG8bbSNTKOgcaexGNXFQ4shFFgk6ANs4UmRhrEGWyD3dDbIiCzCY"
        "ZgPUycNr8kjbJY/JeknzyQbY2cwYzybBrexjrJ4PmcCp6RdDgfmtphO5FAUoDHFsT4ZKTGKOFKnLQuoOepL6u1KkRVojzeBjpSnDkMsT2YPQ"
        "wxfThuT8TyEQdSk63gVbT/+7hz4NMB9CRki8ZGeeD0KfTTWXYxzAHpxjO0KCaJhdtaupoBvBvMYzgCHL+QCHfYB0fuUTh7zJ2nUKFb5tG6Q3"
        "OyQ4f5edvycfSA8o5GOnNP8Hrz7hlW6lPChmlJke6euiZ1Ccaf9MKdPKberB5uuKAuoouXDEOL040gXCfs9tKZkTA6iuCO9hsy+EdRar73q7"
        "TI6gFZr9xK/u1GrV+k65Zu2hcsNv7JT3LNQoNxvbruVYzd3mrgUEuF2eJnSlOWBeAg2H5YbJmOc45un9KtQq1UoVYpXfP1qi5Q=="
    )
)
"""What PyTorch 2.13 wrote beside the files of a tensor, a number and a text."""


def judged(raw: bytes) -> None:
    """Prompts and outputs that persons are to judge."""
    subject = CheckpointRegistered.model_construct(checkpoint_id="ckpt_1", digest="sha256:" + "0" * 64)
    draw(io.BytesIO(raw), where="samples.jsonl", pairs=raw[:1] == b"p", subject=subject, size=2, seed=1)


def opcodes() -> list[bytes]:
    """Metadata as PyTorch writes it, and pickles that call something."""
    return [METADATA, pickle.dumps(print), pickle.dumps(Path("x")), b"cos\nsystem\n(S'true'\ntR."]


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
    Target(name="metadata of a distributed checkpoint", call=read_metadata, seeds=opcodes, modules=(FORMATS,)),
    Target(name="folder of a distributed checkpoint", scratch=True, modules=(FORMATS,),
           call=folder_of(".metadata", "__0_0.distcp", "common.pt", "metadata.json"),
           seeds=lambda: [joined(METADATA, bytes(200), pickle.dumps(print), b"{}"), joined(*opcodes()[1:])]),
    Target(name="folder of a model", scratch=True, modules=(FORMATS,),
           call=folder_of("config.json", "training_state.json", "pytorch_model.bin", "tokenizer.json"),
           seeds=lambda: [joined(b'{"model_type": "gpt2"}', b'{"step": 1, "tokens": 2}', b"PK\3\4", b"{}")]),
    Target(name="prompts and outputs", call=judged, modules=("pretrain_archive.services.human_items",),
           seeds=lambda: [b'{"id": 1, "prompt": "a", "output": "b", "baseline": "c"}\n', b'{"prompt": "d"}\n']),
    Target(name="results of the harness", call=results, seeds=lambda: [HARNESS],
           modules=("pretrain_archive.artifacts.lm_eval",)),
    Target(name="evaluation results", call=results, seeds=result_files, refuses=(ArchiveError,),
           modules=("pretrain_archive.artifacts.metric_files", "pretrain_archive.artifacts.metrics")),
]  # fmt: skip
