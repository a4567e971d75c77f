"""The S3 store: parts, errors and answers that break off."""

from __future__ import annotations

import io

import pytest
from botocore.response import StreamingBody

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.storage.factory import open_store
from pretrain_archive.storage.s3 import S3Store


@pytest.fixture
def behind(s3):
    """The store with the client that looks behind it."""
    return open_store(f"s3://{s3.bucket}/p", s3_options=s3.options), s3.client(), s3.bucket


def test_no_unfinished_upload_stays(behind):
    """A writer that loses the race, or breaks, gives up its parts."""
    store, client, bucket = behind
    store.stat = lambda _: None  # both writers looked before either wrote
    content = b"x" * 17_000_000
    assert store.put_if_absent("large", io.BytesIO(content)) is True
    assert store.put_if_absent("large", io.BytesIO(content[::-1] + b"y")) is False

    assert [] == client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    assert 17_000_000 == client.head_object(Bucket=bucket, Key="p/large")["ContentLength"]


def test_a_prefix_keeps_stores_apart(behind, s3):
    """Two stores in one bucket do not see each other's objects."""
    store, _, bucket = behind
    other = open_store(f"s3://{bucket}/other", s3_options=s3.options)
    store.put_if_absent("a", io.BytesIO(b"1"))

    assert [] == list(other.list(""))
    assert other.stat("a") is None


def test_an_unknown_bucket_is_named(s3):
    """The error tells the address and what the service said."""
    store = open_store("s3://no-such-bucket/p", s3_options=s3.options)

    with pytest.raises(StorageError, match=r"s3://no-such-bucket/p/x: cannot write: .*NoSuchBucket"):
        store.put_if_absent("x", io.BytesIO(b"1"))


def test_a_server_that_is_away_is_named_without_credentials():
    """No address answers: the error names it and no secret."""
    options = {
        "endpoint_url": "http://127.0.0.1:9",
        "region_name": "us-east-1",
        "aws_access_key_id": "id-of-a-key",
        "aws_secret_access_key": "very-secret",
    }

    with pytest.raises(StorageError) as caught:
        open_store("s3://bucket", s3_options=options).stat("x")
    assert "http://127.0.0.1:9" in str(caught.value)
    assert "very-secret" not in str(caught.value)


class _CutClient:
    def get_object(self, **_):
        return {"Body": StreamingBody(io.BytesIO(b"only this"), None), "ContentLength": 100}


def test_an_answer_cut_short_is_an_error():
    """Fewer bytes than announced are never taken for the end."""
    with (
        S3Store("bucket", client=_CutClient()).open("x") as stream,
        pytest.raises(StorageError, match="91 bytes are missing"),
    ):
        stream.read()
