"""Words and rules: records, identity, edges, verdicts, gates, policy. Standard library and pydantic only."""
