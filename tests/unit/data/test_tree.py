"""Listing trees as bytes."""

from __future__ import annotations

import inspect
import os
import socket
import sys

import pytest
from tests.support.data_track import AWKWARD_NAMES, FOREIGN_NAMES, numbered, write_tree

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.tree import FolderTree
from pretrain_archive.domain.errors import SourceError


def paths(root, **patterns) -> list[bytes]:
    """The listed paths."""
    return [listed.path for listed in FolderTree(os.fsencode(root)).list(Filter(**patterns))]


def test_the_order_is_that_of_whole_paths(tmp_path):
    """Folders take the place that their whole paths have among the names of files."""
    names = [b"a/x", b"a/b/c", b"a-b", b"a.b", b"a", b"ab/c", b"\xff/a", b"\xc3\xa9"]
    names.remove(b"a")
    write_tree(tmp_path, dict.fromkeys(names, b""))

    assert sorted(names) == paths(tmp_path)


@pytest.mark.case("S01", "S03")
def test_every_name_is_listed(tmp_path):
    """Names with line breaks, percent signs or bytes that are not UTF-8 are all there."""
    names = AWKWARD_NAMES + FOREIGN_NAMES
    write_tree(tmp_path, numbered(names))

    assert sorted(names) == paths(tmp_path)


def test_links_are_listed_and_not_followed(tmp_path):
    """A link out of the tree, to a folder, to itself or to nothing is an entry with its target."""
    write_tree(tmp_path / "out", {b"secret": b"x"})
    root = write_tree(tmp_path / "in", {b"f": b"x"})
    for name, target in {"out": "../out/secret", "folder": "../out", "loop": "loop", "none": "/no"}.items():
        (root / name).symlink_to(target)

    found = {item.path: item.target for item in FolderTree(os.fsencode(root)).list(Filter())}

    assert {
        b"f": None,
        b"out": b"../out/secret",
        b"folder": b"../out",
        b"loop": b"loop",
        b"none": b"/no",
    } == found


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_special_files_are_refused_by_name(tmp_path, kind):
    """A pipe or socket is refused, unless a pattern leaves it out."""
    write_tree(tmp_path, {b"f": b"x"})
    place = tmp_path / "it\nself"
    if kind == "pipe":
        os.mkfifo(place)
    else:
        socket.socket(socket.AF_UNIX).bind(str(place))

    with pytest.raises(SourceError, match=r"it%0Aself: is a pipe, socket or device"):
        paths(tmp_path)
    assert [b"f"] == paths(tmp_path, exclude=("it*",))


def test_one_file_is_a_tree(tmp_path):
    """A root that is a file has one entry with its name."""
    write_tree(tmp_path, {b"rows.jsonl": b"{}"})

    assert [b"rows.jsonl"] == paths(tmp_path / "rows.jsonl")


def test_a_missing_root_is_named(tmp_path):
    """The error holds the path and what to check."""
    with pytest.raises(SourceError, match=r"no/way: is not there.*Check the path"):
        paths(tmp_path / "no/way")


def test_folders_nested_deeper_than_calls_may_be(tmp_path):
    """A tree that is nested deeper than the interpreter lets calls be is listed all the same."""
    deep = 500
    write_tree(tmp_path, {b"d/" * deep + b"f": b"x", b"e": b"y"})
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + deep // 2)
    try:
        found = paths(tmp_path)
    finally:
        sys.setrecursionlimit(before)

    assert [b"d/" * deep + b"f", b"e"] == found
