"""Exact and near duplicates of documents: sketches written while data is read, then one search over them.

:mod:`.sketch` writes what a search needs of each document, :mod:`.search` finds twins within one corpus and
between two. Memory is bounded by a setting; what does not fit is sorted on disk.
"""
