"""From rules to gates: Great Expectations judges, and what it says becomes what passed, failed or was not checked."""
