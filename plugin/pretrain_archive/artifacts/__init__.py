"""Checkpoint formats, registration, evaluation, candidates and releases."""
