"""Quality of a snapshot: per-document statistics, and gates over them run by Great Expectations."""
