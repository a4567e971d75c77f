"""Stores, a ledger on SQLite, and a shorthand for taking snapshots."""

from __future__ import annotations

import pytest
from tests.support.buckets import connection, refer  # noqa: F401 - fixtures
from tests.support.data_track import ACTOR, new_ledger, origin
from tests.support.s3 import s3, s3_endpoint  # noqa: F401 - fixtures

from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.storage.factory import open_store


@pytest.fixture
def ledger(tmp_path):
    """A ledger on SQLite."""
    return new_ledger(tmp_path)


@pytest.fixture
def files(tmp_path):
    """A store in a folder."""
    return open_store(f"file://{tmp_path}/store")


@pytest.fixture(params=["files", "s3"])
def store(request):
    """A new empty store of each kind."""
    if request.param == "files":
        return request.getfixturevalue("files")
    server = request.getfixturevalue("s3")
    return open_store(f"s3://{server.bucket}/data", s3_options=server.options)


@pytest.fixture
def snap(ledger):
    """Take a snapshot with few words."""

    def take(store, root, **changes):
        fields = {"name": "corpus", "mode": "copy", "actor": ACTOR, "origin": origin()}
        return create_snapshot(store, ledger, **fields | {"source_root": root} | changes)

    return take
