"""Airflow is only imported here, never started: its home is a folder that goes away."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

# Airflow writes its configuration file where it is imported: never into a person's home.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-home-"))

from pretrain_archive.ledger.factory import open_ledger
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.storage.files import FileStore


@pytest.fixture
def ledger(tmp_path: Path) -> SqlLedger:
    """A real ledger on SQLite."""
    return open_ledger(
        f"sqlite:///{tmp_path}/ledger.db", signing_key=tmp_path / "ledger.key", anchors=[], create=True
    )


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    """A real store in a folder."""
    return FileStore(tmp_path / "store")
