"""Fixtures of the gates' tests."""

from tests.unit.gates.fixtures import house, ledger, make_run, run, sqlite_template, store

__all__ = ["house", "ledger", "make_run", "run", "sqlite_template", "store"]
