"""``checkpoint inspect --values`` says of a value what ``register --values`` would."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from tests.support.artifact_files import write_checkpoint
from typer.testing import CliRunner

from pretrain_archive.cli import app

ONE = struct.pack("<f", 1.0)
NAN = struct.pack("<f", float("nan"))
INFINITE = struct.pack("<f", float("inf"))


@pytest.mark.parametrize(
    ("weights", "optimizer", "code", "last", "told"),
    [
        pytest.param(NAN, ONE, 1, "would be refused", "spoiled: model.safetensors: tensor 'w' holds 1 NaN", id="NaN"),
        pytest.param(INFINITE, ONE, 0, "complete", "warning: model.safetensors: tensor 'w' holds 0 NaN and 1 infinite",
                     id="infinite"),
        pytest.param(ONE, NAN, 0, "complete", "warning: optimizer.safetensors: tensor 'm' holds 1 NaN",
                     id="NaN beside the weights"),
    ],
)  # fmt: skip
def test_the_last_line_is_what_register_would_say(
    tmp_path: Path, weights: bytes, optimizer: bytes, code: int, last: str, told: str
) -> None:
    """NaN among the weights is refused; all else is a warning, and the exit code says the same."""
    folder = write_checkpoint(tmp_path, 1, content=ONE)
    for name, value in {"model": weights, "optimizer": optimizer}.items():
        file = folder / f"{name}.safetensors"
        file.write_bytes(file.read_bytes()[:-4] + value)

    text = CliRunner().invoke(app, ["checkpoint", "inspect", str(folder), "--values"])
    document = json.loads(
        CliRunner().invoke(app, ["checkpoint", "inspect", str(folder), "--values", "--json"]).stdout
    )

    assert (code, last) == (text.exit_code, text.stdout.splitlines()[-1])
    assert told in text.stdout
    assert (code == 0, code == 1) == (document["would_count"], bool(document["spoiled"]))
