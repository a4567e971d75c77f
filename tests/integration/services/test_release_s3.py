"""A release whose checkpoint and signature lie in a bucket: signed, verified, found damaged, and registered."""

from __future__ import annotations

import pytest
from tests.support.artifact_files import write_checkpoint
from tests.support.artifact_run import ACTOR, CONFIGURATION, Run
from tests.support.mlflow_server import mlflow_url, versions
from tests.support.released import TERMS, model_key
from tests.support.s3 import S3Server, s3, s3_endpoint

from pretrain_archive.artifacts.candidates import name_candidate
from pretrain_archive.artifacts.export_mlflow import MlflowRegistry
from pretrain_archive.artifacts.registration import Claim, register_checkpoint
from pretrain_archive.artifacts.releases import Terms, make_release
from pretrain_archive.artifacts.signing import read_public_key
from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import new_id
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.release_reading import find_release, verify_release
from pretrain_archive.services.releasing import Releasing, export_release, sign_release
from pretrain_archive.storage.factory import open_store

__all__ = ["mlflow_url", "s3", "s3_endpoint"]

pytestmark = [pytest.mark.requirement("R105", "R112", "R113", "R115"), pytest.mark.case("A05")]
PREFIX = "runs/a+b %/step_200"


@pytest.fixture
def server(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The bucket, with settings that lead every client of this process to it."""
    names = {
        "AWS_ENDPOINT_URL": "endpoint_url", "AWS_ACCESS_KEY_ID": "aws_access_key_id",
        "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key", "AWS_DEFAULT_REGION": "region_name",
    }  # fmt: skip
    for variable, option in names.items():
        monkeypatch.setenv(variable, s3.options[option])
    return s3


@pytest.fixture
def run(server: S3Server, tmp_path) -> Run:
    """A run whose one checkpoint lies in the bucket, released."""
    ledger = open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", signing_key=None, anchors=(), create=True)
    made = Run(ledger, open_store(f"s3://{server.bucket}/archive"), tmp_path / "work").open()
    folder, client = write_checkpoint(tmp_path / "work", 200, content=b"weights!" * 2), server.client()
    for path in (p for p in sorted(folder.rglob("*")) if p.is_file()):
        key = f"{PREFIX}/{path.relative_to(folder)}"
        client.put_object(Bucket=server.bucket, Key=key, Body=path.read_bytes())
    claim = Claim(
        run_uid=made.uid, attempt=1, step=200, tokens=None, snapshot="stdlib@1",
        configuration_digest=CONFIGURATION, responsible="alice",
    )  # fmt: skip
    address = f"s3://{server.bucket}/runs/a%2Bb%20%25/step_200"
    fact = register_checkpoint(ledger, address, claim, actor=ACTOR, origin=made.origin())
    made.evaluate(fact, 1.5)
    candidate = name_candidate(
        ledger, run_uid=made.uid, checkpoint_id=fact.checkpoint_id, kept=True, reason="the best", actor=ACTOR,
        origin=made.origin(),
    )  # fmt: skip
    make_release(
        ledger, run_uid=made.uid, decision=made.decide(), candidate=candidate,
        terms=Terms(**{**TERMS, "name": new_id("model")}), actor=ACTOR, origin=made.origin(),
    )  # fmt: skip
    return made


def caller(run: Run) -> Caller:
    """A task try of its own."""
    return Caller(origin=run.origin(), actor=ACTOR)


def test_from_bucket_to_registry(run, server, tmp_path, mlflow_url):
    """The bundle lies in the bucket, the bytes are read from there, and the registry gets their address."""
    key = model_key(tmp_path / "model.key")
    signed = sign_release(run.ledger, run.store, caller(run), run.uid, Releasing(signing_key=key))
    assert signed.bundle_uri.startswith(f"s3://{server.bucket}/archive/releases/")
    run.close()

    public = read_public_key(key.with_suffix(".pub"))
    found = find_release(run.ledger, run.uid)
    assert "verified" == verify_release(run.store, found, public_key=public).verdict

    registry = MlflowRegistry(mlflow_url)
    told = export_release(run.ledger, caller(run), run.uid, Releasing(registry=registry))
    assert isinstance(told, kinds.ReleaseExported), told.reason
    [row] = versions(mlflow_url, found.made.name)
    tags = {tag["key"]: tag["value"] for tag in row["tags"]}
    location = found.view.latest(kinds.CheckpointRegistered).location
    assert (location, location) == (row["source"], tags["pretrain_archive.location"])
    assert signed.bundle_digest == tags["pretrain_archive.signature"]

    weights = f"{PREFIX}/model.safetensors"
    client = server.client()
    data = client.get_object(Bucket=server.bucket, Key=weights)["Body"].read()
    client.put_object(Bucket=server.bucket, Key=weights, Body=data[:-1] + bytes([data[-1] ^ 1]))
    again = verify_release(run.store, found, public_key=public)
    assert "changed" == again.verdict
    assert ["model.safetensors"] == [
        i.id.rpartition("#")[2] for i in again.items if i.verdict.value == "changed"
    ]
