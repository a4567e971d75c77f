"""Both kinds of store, and the fake that other tests use."""

from __future__ import annotations

import pytest
from tests.fakes.storage import MemoryStore
from tests.support.s3 import s3, s3_endpoint  # noqa: F401 - fixtures

from pretrain_archive.storage.factory import open_store


@pytest.fixture(params=["files", "s3", "memory"])
def store(request, tmp_path):
    """A new empty store of each kind."""
    if request.param == "memory":
        return MemoryStore()
    if request.param == "files":
        return open_store(f"file://{tmp_path}/store")
    server = request.getfixturevalue("s3")
    return open_store(f"s3://{server.bucket}/some/prefix", s3_options=server.options)
