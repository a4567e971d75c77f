"""Patterns over paths that are bytes."""

from __future__ import annotations

import pytest

from pretrain_archive.data.globs import Filter


@pytest.mark.parametrize(
    ("pattern", "path", "taken"),
    [
        pytest.param("*.py", b"a.py", True, id="name"),
        pytest.param("*.py", b"x/y/a.py", True, id="name in a folder"),
        pytest.param("*.py", b"a.pyc", False, id="whole name"),
        pytest.param("x/*.py", b"x/a.py", True, id="path"),
        pytest.param("x/*.py", b"x/y/a.py", False, id="a star stays in its part"),
        pytest.param("x/**/*.py", b"x/y/z/a.py", True, id="two stars span folders"),
        pytest.param("x/**/*.py", b"x/a.py", True, id="two stars span no folder"),
        pytest.param("x/**", b"x/y/z", True, id="two stars at the end"),
        pytest.param("a?c", b"a\nc", True, id="question mark takes a line break"),
        pytest.param("a?c", b"a/c", False, id="question mark is no slash"),
        pytest.param("[ab].txt", b"b.txt", True, id="set"),
        pytest.param("[!ab].txt", b"b.txt", False, id="negated set"),
        pytest.param("[.txt", b"[.txt", True, id="a lone bracket is itself"),
        pytest.param("a+(b).txt", b"a+(b).txt", True, id="other marks are themselves"),
        pytest.param("*.txt", b"bad\xff.txt", True, id="not UTF-8"),
        pytest.param("é.txt", "é.txt".encode(), True, id="beyond ASCII"),
    ],
)
def test_include(pattern, path, taken):
    """An include pattern takes exactly the paths it describes."""
    assert taken is Filter(include=(pattern,)).takes(path)


def test_exclude_wins_and_closes_folders():
    """What is excluded is not taken, and an excluded folder is not entered."""
    chosen = Filter(include=("*.py",), exclude=("test*", "lib/old"))

    assert not chosen.takes(b"test_a.py")
    assert not chosen.enters(b"x/tests")
    assert not chosen.enters(b"lib/old")
    assert chosen.enters(b"old")
    assert chosen.takes(b"x/a.py")


def test_no_pattern_takes_everything():
    """Without patterns every file belongs."""
    assert Filter().takes(b"any/\xff")
