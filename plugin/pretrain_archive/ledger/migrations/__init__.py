"""Alembic environment and revisions of the ledger."""
