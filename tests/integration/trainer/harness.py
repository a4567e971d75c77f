"""Starts the training program as a launcher would: by its contract, in a process of its own."""

from __future__ import annotations

import copy
import hashlib
import importlib
import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

PROGRAM = Path(__file__).parents[3] / "docker" / "trainer"
TINY: dict[str, Any] = {
    "model": {"layers": 1, "width": 16, "heads": 2, "context": 16, "previous_bytes": 1},
    "optimisation": {
        "steps": 12,
        "batch": 4,
        "learning_rate": 0.01,
        "matrix_learning_rate": 0.02,
        "warmup": 2,
        "weight_decay": 0.1,
        "clip": 1.0,
    },
    "seed": 7,
    "threads": 1,
    "dtype": "float32",
    "checkpoint_every": 5,
    "evaluate_every": 6,
    "evaluate_bytes": 200,
    "report_bytes": 400,
    "log_every": 3,
}


def configured(**changes: Any) -> dict[str, Any]:
    """The tiny configuration with some fields changed; ``steps=`` and the like reach into the sections."""
    value = copy.deepcopy(TINY)
    for name, change in changes.items():
        section = next((part for part in ("model", "optimisation") if name in value[part]), None)
        (value[section] if section else value)[name] = change
    return value


def write_corpus(folder: Path, *, documents: int = 8, seed: int = 1) -> Path:
    """A few small documents of repeated words, one in four for validation; returns the manifest."""
    folder.mkdir(parents=True)
    chance = random.Random(seed)
    lines = []
    for number in range(documents):
        text = " ".join(chance.choice(("alpha", "beta", "gamma", "über", "\n")) for _ in range(40)).encode()
        path = folder / f"document {number}.txt"
        path.write_bytes(text)
        lines.append(
            {
                "path": path.name,
                "location": str(path) if number % 2 else path.as_uri(),
                "sha256": hashlib.sha256(text).hexdigest(),
                "size": len(text),
                "split": "validation" if number % 4 == 3 else "train",
            }
        )
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return manifest


@dataclass(kw_only=True)
class Attempt:
    """One start of the program: its folder, its variables, and what it left behind."""

    folder: Path
    manifest: Path
    configuration: dict[str, Any] = field(default_factory=lambda: TINY)
    resume_from: Path | None = None
    number: int = 1
    checkpoints: Path | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.events_file = self.folder / "events.jsonl"
        self.report = self.folder / "evaluation.json"
        self.samples = self.folder / "samples.jsonl"
        self.checkpoint_folder = self.checkpoints or self.folder / "checkpoints"
        (self.folder / "config.json").write_text(json.dumps(self.configuration), encoding="utf-8")

    def environment(self, **changes: str) -> dict[str, str]:
        """The variables of the contract on top of this process's."""
        return os.environ | {
            "PRETRAIN_ARCHIVE_RUN_UID": "run_0190a5d4-0000-7000-8000-000000000000",
            "PRETRAIN_ARCHIVE_ATTEMPT": str(self.number),
            "PRETRAIN_ARCHIVE_CONFIG": str(self.folder / "config.json"),
            "PRETRAIN_ARCHIVE_DATA_MANIFEST": str(self.manifest),
            "PRETRAIN_ARCHIVE_CHECKPOINT_DIR": str(self.checkpoint_folder),
            "PRETRAIN_ARCHIVE_RESUME_FROM": str(self.resume_from or ""),
            "PRETRAIN_ARCHIVE_EVENTS": str(self.events_file),
            "PRETRAIN_ARCHIVE_EVALUATION": str(self.report),
            "PRETRAIN_ARCHIVE_SAMPLES": str(self.samples),
            **changes,
        }

    def start(
        self, program: str = "train.py", *, before: Sequence[str] = (), **changes: str
    ) -> subprocess.Popen[str]:
        """Start it and return at once; ``before`` is put in front of the command."""
        command = [*(before or (sys.executable,)), str(PROGRAM / program)]
        return subprocess.Popen(
            command,
            env=self.environment(**changes),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, program: str = "train.py", *, before: Sequence[str] = (), expected: int = 0, **changes: str
    ) -> str:
        """Run it to its end, expecting an exit status; returns standard error."""
        process = self.start(program, before=before, **changes)
        _, errors = process.communicate(timeout=300)
        assert expected == process.returncode, errors
        return errors

    def call(self, program: str = "train", *, expected: int = 2, **changes: str) -> str:
        """The same in this process, which spares starting torch; returns standard error."""
        before, errors = signal.getsignal(signal.SIGTERM), io.StringIO()
        sys.path.insert(0, str(PROGRAM))
        try:
            main = importlib.import_module(program).main
            run = importlib.import_module("contract").run
            with mock.patch.dict(os.environ, self.environment(**changes)), redirect_stderr(errors):
                status = run(program, main)
        finally:
            sys.path.remove(str(PROGRAM))
            signal.signal(signal.SIGTERM, before)
        assert expected == status, errors.getvalue()
        return errors.getvalue()

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Complete event lines so far, of one kind or all."""
        raw = self.events_file.read_text(encoding="utf-8") if self.events_file.exists() else ""
        lines = [json.loads(line) for line in raw.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if kind in {None, line["event"]}]

    def losses(self) -> dict[int, float]:
        """Loss by step."""
        return {line["step"]: line["value"] for line in self.events("metric") if line["name"] == "loss"}

    def saved(self, step: int) -> Path:
        """The folder of a step's checkpoint."""
        return self.checkpoint_folder / f"step_{step:08d}"

    def completed(self) -> bool:
        """Whether the end marker was written."""
        return any(line.get("complete") is True for line in self.events("note"))


def tensors(checkpoint: Path) -> Mapping[str, bytes]:
    """The bytes of weights and optimizer state."""
    return {name: (checkpoint / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")}
