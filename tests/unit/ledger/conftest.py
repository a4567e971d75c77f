"""Fixtures of the ledger's tests."""

from tests.support.ledgers import place, postgres_server, postgres_template, sqlite_template

__all__ = ["place", "postgres_server", "postgres_template", "sqlite_template"]
