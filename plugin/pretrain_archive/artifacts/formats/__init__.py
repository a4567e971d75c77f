"""Checkpoint folders, read without trusting them: nothing is unpickled, nothing is allocated on their word."""

from pretrain_archive.artifacts.formats.folder import FileEntry, Inspection, inspect

__all__ = ["FileEntry", "Inspection", "inspect"]
