"""Revisions: running number, package version, what they do."""
