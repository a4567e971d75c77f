"""How a bucket is named, who reads it, and what is never told or taken."""

from __future__ import annotations

import hashlib
import logging

import pytest
from tests.support.buckets import (
    KEY_ID,
    SECRET,
    paths,
    put,
)

from pretrain_archive.data.buckets import Address, BucketTree
from pretrain_archive.data.places import refuse_own_places
from pretrain_archive.data.sources import resolve_source
from pretrain_archive.domain.errors import InputError, SourceError
from pretrain_archive.storage.factory import open_bucket, open_store


@pytest.mark.requirement("R055")
def test_who_reads_is_told_without_the_secret(connection, s3):
    """The identity of a bucket is connection and masked key id; the address names the connection and no key."""
    put(s3, {"v/a": b"words", "v/LICENSE": b"CC0"})

    source = resolve_source(f"s3://{connection}@{s3.bucket}/v/")

    assert "connection lake, access key AKIA…7777" == source.identity
    assert f"s3://lake@{s3.bucket}/v/" == source.uri
    assert "sha256:" + hashlib.sha256(b"CC0").hexdigest() == source.licence_file_digest
    assert SECRET not in repr(source)
    with pytest.raises(InputError, match="is not a folder"):
        source.root  # noqa: B018 - it raises


def test_no_error_or_log_holds_a_credential(connection, s3, caplog, monkeypatch):
    """A bucket that is not there, an endpoint that does not answer, a key that is refused: all without the secret."""
    caplog.set_level(logging.DEBUG, logger="pretrain_archive")
    texts = []
    for uri in (f"s3://{connection}@nobucket-{s3.bucket}/", f"s3://{connection}@{s3.bucket}/none"):
        with pytest.raises(SourceError) as caught:
            resolve_source(uri)
        texts.append(str(caught.value))
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", f"aws://{KEY_ID}:geheim@/?role_arn=arn")
    for uri in (f"s3://{connection}@{s3.bucket}/", f"s3://{KEY_ID}:geheim@{s3.bucket}/"):
        with pytest.raises(InputError) as refused:
            resolve_source(uri)
        texts.append(str(refused.value))

    assert ("NoSuchBucket" in texts[0], "holds no file" in texts[1]) == (True, True)
    assert ("role_arn, which is not supported" in texts[2], "looks like credentials" in texts[3]) == (
        True,
        True,
    )
    assert not any(word in text + caplog.text for text in texts for word in ("geheim", KEY_ID))


@pytest.mark.parametrize(
    ("prefix", "overlaps"),
    [
        ("", True),
        ("own/", True),
        ("own/data", True),
        ("own/data/blobs/", True),
        ("own/data2/", False),
        ("in/", False),
    ],
)
def test_the_stores_own_prefix_is_refused(s3, prefix, overlaps):
    """Around, inside or equal in one bucket of one service; another bucket, service or prefix is fine."""
    store = open_store(f"s3://{s3.bucket}/own/data", s3_options=s3.options)
    address = Address(bucket=s3.bucket, prefix=prefix.encode())
    source = BucketTree(open_bucket(s3.bucket, s3_options=s3.options), address)
    other = open_bucket(s3.bucket, s3_options=s3.options | {"endpoint_url": "http://127.0.0.1:9"})

    refuse_own_places(BucketTree(other, address), {}, store)
    if not overlaps:
        refuse_own_places(source, {"anchor": store}, store)
        return
    with pytest.raises(InputError, match=f"overlaps the store, s3://{s3.bucket}/own/data/"):
        refuse_own_places(source, {}, store)


def test_a_public_bucket_needs_no_credentials(s3, monkeypatch, tmp_path):
    """Where nobody has any, requests are not signed, and the identity says so."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    put(s3, {"a": b"words"})

    source = resolve_source(f"s3://{s3.bucket}")

    assert (f"s3://{s3.bucket}/", "nobody (requests not signed)") == (source.uri, source.identity)
    assert [b"a"] == paths(source.tree)
    with pytest.raises(
        SourceError, match=r"\(no credentials were found: requests are not signed\): .*NoSuchBucket"
    ):
        resolve_source(f"s3://not-{s3.bucket}/")


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        pytest.param("s3://", "not the address of a bucket", id="nothing"),
        pytest.param("s3:///key", "not the address of a bucket", id="no bucket"),
        pytest.param("s3://@bucket/key", "not the address of a bucket", id="empty connection"),
        pytest.param("s3://a%20b@bucket/key", "not the address of a bucket", id="no id of a connection"),
        pytest.param("s3://bu cket/key", "not the address of a bucket", id="space"),
        pytest.param("s3://bucket/%FF", "not UTF-8", id="prefix of other bytes"),
        pytest.param("s3://AKIA:secret@bucket/key", "looks like credentials", id="keys"),
    ],
)
def test_addresses_that_are_none(uri, problem):
    """What is wrong is said, and a secret in it is not repeated."""
    with pytest.raises(InputError, match=problem) as caught:
        resolve_source(uri)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("prefix", [b"", b"a/", b"/a//", "数 据+%2B/#?/..".encode(), b"line\nbreak"])
@pytest.mark.parametrize("connection", ["", "lake", "a/b:c#d"])
def test_an_address_comes_back_from_its_text(prefix, connection):
    """Every prefix and every id that Airflow allows."""
    address = Address(bucket="bucket.x", prefix=prefix, connection=connection)

    assert address == Address.parse(address.uri)
