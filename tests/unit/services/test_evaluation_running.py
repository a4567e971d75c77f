"""Where an evaluation program's result is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretrain_archive.artifacts.outputs import read_files
from pretrain_archive.domain.errors import InputError
from pretrain_archive.services.evaluation_running import _written

DATE = "2026-01-01T00-00-00.000000"


def test_records_of_samples_beside_a_dated_result_are_part_of_it(tmp_path: Path) -> None:
    """As lm-evaluation-harness writes them for a path that ends in .json, with --log_samples."""
    (tmp_path / f"evaluation_{DATE}.json").write_text('{"acc": 0.5}')
    (tmp_path / f"samples_arc_{DATE}.jsonl").write_text('{"doc_id": 0}\n')
    (tmp_path / "samples.jsonl").write_text("for readers, kept elsewhere")

    output = read_files(_written(tmp_path))

    assert [f"samples_arc_{DATE}.jsonl"] == [one["name"] for one in output.samples]
    assert [0.5] == [metric.value for metric in output.reading.metrics]
    assert (tmp_path / "samples.jsonl").is_file()


def test_a_dated_result_alone_is_the_file(tmp_path: Path) -> None:
    """And the agreed name wins over every other."""
    dated = tmp_path / f"evaluation_{DATE}.json"
    dated.write_text("{}")
    assert dated == _written(tmp_path)
    (tmp_path / "evaluation.json").write_text("{}")
    assert tmp_path / "evaluation.json" == _written(tmp_path)


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    """Nothing of the program's is mixed with the result."""
    (tmp_path / "results").mkdir()
    for day in ("1", "2"):
        (tmp_path / f"evaluation_{day}.json").write_text("{}")

    with pytest.raises(InputError, match="leave that name free"):
        _written(tmp_path)
