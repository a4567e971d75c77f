"""The evaluation's report: same bytes for model and baselines, digests that name what was compared."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.trainer.harness import Attempt, configured, write_corpus

from pretrain_archive.domain.kinds import Baseline, CheckpointRegistered, MetricResult
from pretrain_archive.services.human_items import draw

LEARNING = configured(steps=60, checkpoint_every=30, evaluate_every=0, context=32, width=32)


@pytest.fixture(scope="module")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """A run that learned something, evaluated at its last checkpoint."""
    folder = tmp_path_factory.mktemp("evaluation")
    manifest = write_corpus(folder / "data", documents=40)
    trained = Attempt(folder=folder / "attempt", manifest=manifest, configuration=LEARNING)
    trained.run()
    trained.resume_from = trained.saved(60)
    trained.run("evaluate.py")
    return trained


@pytest.fixture
def report(attempt: Attempt) -> dict[str, Any]:
    """The report as it was written."""
    value: dict[str, Any] = json.loads(attempt.report.read_bytes())
    return value


@pytest.mark.requirement("R119")
def test_model_and_baselines_stand_on_the_same_bytes(report: dict[str, Any]) -> None:
    """The untrained model and both n-gram models are there, with metrics of one definition."""
    names = [baseline["name"] for baseline in report["baselines"]]
    assert ["untrained model", "byte 3-gram", "byte 4-gram"] == names
    for subject in (report, *report["baselines"]):
        (metric,) = subject["metrics"]
        assert ("bits_per_byte", "bits/byte", "lower") == tuple(
            metric[k] for k in ("name", "unit", "direction")
        )
        assert report["definition"]["scored_bytes"] == metric["samples"] <= 400
        assert metric["low"] <= metric["value"] <= metric["high"]
    values = {b["name"]: b["metrics"][0]["value"] for b in report["baselines"]}
    assert report["metrics"][0]["value"] < values["untrained model"]
    assert pytest.approx(8.0, abs=0.5) == values["untrained model"]


def test_digests_name_different_subjects(report: dict[str, Any]) -> None:
    """Every baseline has a digest of its own and fits the shape of an evaluation record."""
    baselines = [Baseline.model_validate(baseline) for baseline in report["baselines"]]
    assert len(baselines) == len({baseline.subject_digest for baseline in baselines})
    for metric in report["metrics"]:
        MetricResult.model_validate(metric)


def test_the_data_set_is_named_by_its_files(attempt: Attempt, report: dict[str, Any]) -> None:
    """The digest is SHA-256 over the sorted lines of path and digest of the validation split."""
    lines = [json.loads(line) for line in attempt.manifest.read_text(encoding="utf-8").splitlines()]
    text = "".join(
        f"{path}\t{digest}\n"
        for path, digest in sorted((e["path"], e["sha256"]) for e in lines if e["split"] == "validation")
    )
    assert f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" == report["data_set_digest"]


def test_the_report_can_be_made_again(attempt: Attempt, report: dict[str, Any]) -> None:
    """A second evaluation of the same checkpoint writes the same document."""
    attempt.call("evaluate", expected=0)
    assert report == json.loads(attempt.report.read_bytes())


def test_an_earlier_checkpoint_differs_and_its_baselines_do_not(
    attempt: Attempt, report: dict[str, Any], tmp_path: Path
) -> None:
    """The number depends on the checkpoint that was named, and on nothing else."""
    earlier = Attempt(
        folder=tmp_path, manifest=attempt.manifest, configuration=LEARNING, resume_from=attempt.saved(30)
    )
    earlier.call("evaluate", expected=0)
    other = json.loads(earlier.report.read_bytes())
    assert report["metrics"][0]["value"] < other["metrics"][0]["value"]
    assert report["baselines"] == other["baselines"]
    assert report["definition"] == other["definition"]


@pytest.mark.requirement("R118")
def test_outputs_for_readers(attempt: Attempt, report: dict[str, Any]) -> None:
    """Beside the numbers stand continuations by both models, in the form that an evaluation by persons reads."""
    first = attempt.samples.read_bytes()
    attempt.call("evaluate", expected=0)
    names: dict[str, Any] = {"checkpoint_id": "ckpt_1", "digest": "sha256:1"}
    subject = CheckpointRegistered.model_construct(**names)
    with attempt.samples.open("rb") as file:
        drawn = draw(file, where="samples", pairs=True, subject=subject, size=20, seed=1)

    assert first == attempt.samples.read_bytes()
    assert (6, 0, report["baselines"][0]["name"]) == (drawn.count, drawn.duplicates, drawn.baseline_name)
    assert all(item.prompt and item.output and not item.identical for item in drawn.items)


def test_numbers_without_outputs(attempt: Attempt, report: dict[str, Any]) -> None:
    """Where no file is named for outputs, none is written, and the report is the same."""
    attempt.samples.unlink()
    attempt.call("evaluate", expected=0, PRETRAIN_ARCHIVE_SAMPLES="")

    assert not attempt.samples.exists()
    assert report == json.loads(attempt.report.read_bytes())


@pytest.mark.parametrize(("what", "variable"), [("report", "EVALUATION"), ("samples", "SAMPLES")])
def test_a_file_that_cannot_be_written(attempt: Attempt, what: str, variable: str) -> None:
    """One line names the path; nothing half-written stays."""
    absent = attempt.folder / "absent" / "file"
    changes: dict[str, Any] = {f"PRETRAIN_ARCHIVE_{variable}": str(absent)}
    assert f"{what} {absent}: cannot be written" in attempt.call("evaluate", **changes)
