"""A checkpoint that lies in a bucket is evaluated: laid out in a folder, every byte checked, over a real S3 server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.integration.services.test_evaluating_tries import counts, evaluate, trained
from tests.support.main_line import Line
from tests.support.s3 import S3Server, s3, s3_endpoint  # noqa: F401 - fixtures

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.artifacts.readers import open_reader
from pretrain_archive.artifacts.registration import Claim, register_checkpoint
from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import CheckpointError


class Moved:
    """A run whose newest checkpoint lies in a bucket alone."""

    def __init__(self, line: Line, server: S3Server) -> None:
        self.line, self.client, self.bucket = line, server.client(), server.bucket
        [*_, newest] = [c for _, c in line.view().all(kinds.CheckpointRegistered)]
        folder = to_path(newest.location)
        assert folder is not None
        self.keys = [f"moved/step_30/{path.name}" for path in sorted(folder.iterdir())]
        for key in self.keys:
            content = (folder / Path(key).name).read_bytes()
            if key.endswith("state.json"):
                content = content.replace(b"20", b"30")
            self.client.put_object(Bucket=self.bucket, Key=key, Body=content)
        claim = Claim(
            run_uid=line.run_uid, attempt=1, step=30, tokens=300, snapshot=newest.snapshot,
            configuration_digest=newest.configuration_digest, responsible="alice",
        )  # fmt: skip
        caller = line.caller("register_checkpoints", try_number=9)
        self.checkpoint = register_checkpoint(
            line.ledger, open_reader(f"s3://{self.bucket}/moved/step_30"), claim, actor=caller.actor,
            origin=caller.origin,
        )  # fmt: skip
        assert isinstance(self.checkpoint, kinds.CheckpointRegistered)

        self.weights = next(key for key in self.keys if key.endswith("weights.bin"))


@pytest.fixture
def moved(tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Moved:  # noqa: F811
    """Trained, and the newest checkpoint in a bucket; the server is found by boto3's own variables."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return Moved(trained(tmp_path), s3)


@pytest.mark.requirement("R117")
@pytest.mark.case("E07")
def test_a_checkpoint_in_a_bucket_is_evaluated_as_long_as_it_is_there(moved: Moved) -> None:
    """A program reads a copy, gone afterwards; if an object of the bucket goes meanwhile no number is stored."""
    seen: list[list[str]] = []

    def look(process: subprocess.Popen[bytes]) -> None:
        del process
        found = moved.line.runs_folder.glob("*/evaluation-checkpoint-*/checkpoint/*")
        seen.append(sorted(path.name for path in found))

    report = evaluate(moved.line, hold=look).report

    assert (moved.checkpoint.checkpoint_id, 3.7) == (report.checkpoint_id, report.metrics[0].value)
    assert [sorted(file.path for file in moved.checkpoint.files)] == seen
    assert [] == list(moved.line.runs_folder.glob("*/evaluation-*"))
    assert [1, 0, 1, 1] == counts(moved.line)

    def remove(process: subprocess.Popen[bytes]) -> None:
        process.wait()
        moved.client.delete_object(Bucket=moved.bucket, Key=moved.weights)

    with pytest.raises(CheckpointError, match=r"weights\.bin was removed"):
        evaluate(moved.line, hold=remove, try_number=2)

    [failed] = [fact for _, fact in moved.line.view().all(kinds.EvaluationFailed)]
    assert "checkpoint" == failed.cause
    assert [2, 1, 1, 1] == counts(moved.line)
