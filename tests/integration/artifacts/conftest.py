"""A real ledger on SQLite, its keys and a store in a folder."""

from __future__ import annotations

import pytest

from pretrain_archive.domain.records import Actor, Origin
from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.storage.files import FileStore


@pytest.fixture
def ledger_url(tmp_path):
    """A migrated, empty ledger's address."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    open_ledger(url, signing_key=None, anchors=(), create=True)
    return url


@pytest.fixture
def ledger(ledger_url):
    """The ledger, opened."""
    return open_ledger(ledger_url, signing_key=None, anchors=())


@pytest.fixture
def store(tmp_path):
    """A store in a folder."""
    return FileStore(tmp_path / "store")


@pytest.fixture
def actor():
    """The task that writes."""
    return Actor(type="task", name="archive_close")


@pytest.fixture
def origin():
    """Its first try."""
    return Origin(dag_id="pretraining_reference", dag_run_id="manual__1", task_id="archive_close")
