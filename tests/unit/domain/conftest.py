"""Fixtures of the domain's tests."""

from tests.unit.gates.fixtures import house, ledger, make_run, run, sqlite_template, store

__all__ = ["house", "ledger", "make_run", "run", "sqlite_template", "store"]
