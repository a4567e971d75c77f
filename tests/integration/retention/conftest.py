"""A real ledger on SQLite, a store, and a closed run with checkpoints."""

from __future__ import annotations

import pytest
from tests.support.artifact_run import Run

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
def run(ledger, tmp_path):
    """A closed run with three recovery checkpoints."""
    made = Run(ledger, FileStore(tmp_path / "store"), tmp_path / "checkpoints").open()
    for step in (100, 200, 300):
        made.checkpoint(step)
    made.close()
    return made
