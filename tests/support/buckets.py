"""Sources in a bucket of the S3 server, and what happens to them."""

from __future__ import annotations

import json
from functools import cache

import pytest
from moto.s3.models import s3_backends
from tests.support.data_track import ACTOR, origin
from tests.support.s3 import S3Server

from pretrain_archive.data.buckets import Address, BucketTree
from pretrain_archive.data.building import build
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.manifest import Entry, read_entries
from pretrain_archive.data.snapshots import create_snapshot, open_manifest
from pretrain_archive.data.sources import resolve_source
from pretrain_archive.storage.factory import open_bucket
from pretrain_archive.storage.s3_source import SourceBucket

HARD_KEYS = (
    "k/a b.txt", "k/a+b.txt", "k/a%2Bb.txt", "k/a%20b.txt", "k/é.txt", "k/#x?.txt", "k/s;c:.txt",
    "k/../up.txt", "k/bell\x07", "k/\x01\x02", "k/ space ", "k//empty part", "k/./dot", "k/数据&<>\"'",
)  # fmt: skip
"""Characters that get lost where a key is decoded once too often, or that XML 1.0 cannot carry."""


MANY = 1100
"""More than the 1,000 keys of a page."""


KEY_ID = "AKIAEXAMPLEKEY7777"


SECRET = "geheim+geheim/geheim"


def put(s3, files: dict[str, bytes]) -> None:
    """Store objects."""
    client = opened(s3)[1]
    for key, body in files.items():
        client.put_object(Bucket=s3.bucket, Key=key, Body=body)


def keep_versions(s3, status: str = "Enabled") -> None:
    """Let the bucket keep versions."""
    s3.client().put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": status})


@cache
def clients(endpoint):
    """Clients to read and to write with: making one takes longer than most tests."""
    server = S3Server(endpoint=endpoint, bucket="unused")
    return open_bucket("unused", s3_options=server.options)._client, server.client()


def opened(s3):
    """The bucket to read, and a client to write."""
    reader, writer = clients(s3.endpoint)
    return SourceBucket(s3.bucket, client=reader, access_key="test"), writer


def tree(s3, prefix: str = "") -> BucketTree:
    """The tree below a prefix."""
    return BucketTree.at(opened(s3)[0], Address(bucket=s3.bucket, prefix=prefix.encode()))


def paths(found, **patterns) -> list[bytes]:
    """The listed paths."""
    return [listed.path for listed in found.list(Filter(**patterns))]


def manifest(found) -> bytes:
    """The bytes of a tree's manifest."""
    with build(found, Filter()).file as file:
        return file.read()


def entries_of(store, made) -> dict[str, Entry]:
    """The entries of a snapshot by path."""
    with open_manifest(store, made.manifest_digest) as stream:
        return {entry.path: entry for entry in read_entries(stream)}


@pytest.fixture
def connection(monkeypatch, s3) -> str:
    """The id of an Airflow connection to the server."""
    extra = {"endpoint_url": s3.endpoint, "region_name": "us-east-1"}
    fields = {"conn_type": "aws", "login": KEY_ID, "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))
    return "lake"


@pytest.fixture
def refer(files, connection, s3):
    """Take snapshots by reference of what lies below ``v/``, through the connection."""

    def take(**changes):
        source = resolve_source(f"s3://{connection}@{s3.bucket}/v")
        fields = {"name": "corpus", "mode": "reference", "actor": ACTOR, "origin": origin()}
        return create_snapshot(files, None, source_root=source.tree, **fields | changes)

    return take


class Meddled:
    """A tree in which somebody writes at the moment when a file is opened."""

    def __init__(self, inner: BucketTree, when: bytes, act) -> None:
        self._inner, self._when, self._act = inner, when, act
        self.uri, self.list, self.same = inner.uri, inner.list, inner.same

    def open(self, listed):
        """Write, and then open."""
        if listed.path == self._when:
            self._when = b""
            self._act()
        return self._inner.open(listed)


def refill(s3, files: dict[str, bytes]) -> None:
    """Let the bucket hold these objects only; put in behind the server, since there are many of them."""
    backend = s3_backends["123456789012"]["aws"]
    for key in list(backend.buckets[s3.bucket].keys):
        del backend.buckets[s3.bucket].keys[key]
    for key, body in files.items():
        backend.put_object(s3.bucket, key, body)
