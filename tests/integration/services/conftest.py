"""A real ledger on SQLite and a store in a folder."""

from __future__ import annotations

import os
import tempfile

# Airflow writes its configuration file where it is imported: never into a person's home.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-home-"))

from tests.unit.gates.fixtures import house, ledger, make_run, run, sqlite_template, store

__all__ = ["house", "ledger", "make_run", "run", "sqlite_template", "store"]
