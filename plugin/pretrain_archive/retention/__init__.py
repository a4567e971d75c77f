"""Plan, approve, delete, verify absent, tombstone."""
