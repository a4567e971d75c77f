"""The append-only, verifiable log of records."""
