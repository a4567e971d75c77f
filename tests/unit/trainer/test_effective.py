"""The configuration that the program says is effective."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from configuration import load_configuration, write_effective
from contract import TrainerError
from tests.integration.trainer.harness import TINY


def test_what_is_effective_stands_beside_what_was_given(tmp_path: Path) -> None:
    """Defaults are filled in, facts of the start are added, the given file stays as it is."""
    given = tmp_path / "config.json"
    given.write_text(json.dumps(TINY))
    path = write_effective(load_configuration(given), given, processes=2)
    effective = json.loads(path.read_bytes())

    assert tmp_path / "config.effective.json" == path
    assert TINY == json.loads(given.read_bytes())
    assert 2 == effective.pop("processes")
    assert load_configuration(given).to_dict() == effective
    assert ["config.effective.json", "config.json"] == sorted(file.name for file in tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """One sentence with the path."""
    given = tmp_path / "config.json"
    given.write_text(json.dumps(TINY))

    with pytest.raises(TrainerError, match=r"config\.effective\.json"):
        write_effective(load_configuration(given), tmp_path / "no such folder" / "config.json")
