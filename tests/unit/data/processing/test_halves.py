"""How the two files of a split list are called."""

from __future__ import annotations

import pytest

from pretrain_archive.data.processing.halves import named


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b.jsonl.gz", "a/b.train.jsonl.gz"),
        ("a.b/c.jsonl", "a.b/c.train.jsonl"),
        (".jsonl", ".train.jsonl"),
        ("a/.jsonl.zst", "a/.train.jsonl.zst"),
        ("a.b/part", "a.b/part.train"),
        ("x.gz", "x.train.gz"),
    ],
)
def test_names_keep_their_ending(path, expected):
    """The part stands before the endings, by which readers know what a file is."""
    assert expected == named(path, "train")
