"""A run whose data lies in a bucket: registered, snapshot by reference, and laid out for its program."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tests.support.s3 import s3, s3_endpoint  # noqa: F401 - fixtures
from tests.unit.gates.asked_run import policy_with
from tests.unit.services.open_runs import Opener

from pretrain_archive.domain.errors import InputError
from pretrain_archive.services import data
from pretrain_archive.services.laying import lay_out
from pretrain_archive.storage.factory import open_store

FILES = {
    f"in/doc {number}+%2B.txt": b"words of document %d\n" % number * (number + 1) for number in range(12)
}


@pytest.fixture
def opener(ledger, tmp_path, monkeypatch, s3) -> Opener:  # noqa: F811 - the fixture
    """Opens runs under a policy that keeps references, beside a bucket that an Airflow connection leads to."""
    extra = {"endpoint_url": s3.endpoint, "region_name": "us-east-1"}
    fields = {"conn_type": "aws", "login": "AKIAEXAMPLEKEY7777", "password": "geheim", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    client = s3.client()
    for key, body in FILES.items():
        client.put_object(Bucket=s3.bucket, Key=key, Body=body)
    return Opener(ledger=ledger, folder=tmp_path, policy=policy_with(snapshot_mode='"reference"'))


@pytest.mark.requirement("R055")
@pytest.mark.parametrize("versions", [False, True], ids=["unversioned", "versioned"])
def test_from_the_bucket_to_the_program(opener, s3, store, tmp_path, versions):  # noqa: F811
    """Who read is recorded as connection and masked key id; the program gets the bytes that were snapshot."""
    if versions:
        s3.client().put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": "Enabled"})
    uid = opener.open(source=f"s3://lake@{s3.bucket}/in", licence="CC0-1.0").run_uid

    source = data.register(opener.ledger, opener.caller("register_source"), uid)
    made, split = data.make_snapshot(opener.ledger, store, opener.caller("snapshot"), uid)
    listed = lay_out(store, opener.caller("gpu_launch"), made, split, tmp_path / "run/data")

    assert "connection lake, access key AKIA…7777" == source.access_identity
    assert f"s3://lake@{s3.bucket}/in/" == source.uri
    assert ("reference", 12, source.uri) == (made.mode, made.file_count, made.source_uri)
    rows = [json.loads(line) for line in listed.read_bytes().splitlines()]
    found = sorted("sha256:" + hashlib.sha256(Path(row["location"]).read_bytes()).hexdigest() for row in rows)
    assert sorted("sha256:" + hashlib.sha256(body).hexdigest() for body in FILES.values()) == found
    assert all(row["location"].startswith(str(tmp_path / "run/data/documents")) for row in rows)
    assert not any("geheim" in json.dumps(record.payload) for record in opener.ledger.records())


def test_a_source_around_the_store_is_refused(opener, s3, monkeypatch):  # noqa: F811
    """In the bucket in which this program keeps its own objects the source needs a prefix beside them."""
    own = open_store(f"s3://{s3.bucket}/in/own", s3_options=s3.options)
    uid = opener.open(source=f"s3://lake@{s3.bucket}/in", licence="CC0-1.0").run_uid
    data.register(opener.ledger, opener.caller("register_source"), uid)
    with pytest.raises(InputError, match="overlaps the store"):
        data.make_snapshot(opener.ledger, own, opener.caller("snapshot"), uid)

    for name, value in s3.options.items():
        monkeypatch.setenv({"region_name": "AWS_DEFAULT_REGION"}.get(name, name.upper()), value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AIRFLOW__PRETRAIN_ARCHIVE__STORE_URL", f"s3://{s3.bucket}/in/own")
    with pytest.raises(InputError, match="overlaps the store"):
        data.register(opener.ledger, opener.caller("register_source", try_number=2), uid)
