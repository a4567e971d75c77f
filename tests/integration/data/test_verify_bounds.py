"""Verification where everything is wrong, or a file has no end."""

from __future__ import annotations

import io
import os

import pytest
from tests.support.data_track import write_tree

from pretrain_archive.data import verify
from pretrain_archive.data.manifest import Header, read_entries
from pretrain_archive.data.tree import FolderTree
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import ArchiveError


def test_findings_are_counted_all_and_named_up_to_a_limit(monkeypatch, files, snap, tmp_path):
    """A source that changed as a whole does not fill the memory; what is not named is counted."""
    monkeypatch.setattr(verify, "LISTED", 3)
    root = write_tree(tmp_path / "in", {b"f%d" % number: b"words" for number in range(8)})
    snap(files, root)
    write_tree(root, {b"f%d" % number: b"other" for number in range(8)})

    check = verify_snapshot(files, "corpus", source_root=root)

    assert (["f0", "f1", "f2"], 5, 8) == (
        [i.path for i in check.items],
        check.left_out,
        check.counts["changed"],
    )
    assert 5 == check.to_json()["items_left_out"]


class _Endless(io.RawIOBase):
    """Words without end; who reads too many of them is told off."""

    left = 64

    def readable(self):
        return True

    def readinto(self, buffer):
        self.left -= 1
        assert self.left, "read on and on"
        buffer[:] = b"w" * len(buffer)
        return len(buffer)


class _Growing(FolderTree):
    def open(self, listed):  # noqa: ARG002 - the form of a tree
        return _Endless()


def test_a_file_without_end_is_a_finding(files, snap, tmp_path):
    """What is written faster than it can be read is not read for ever."""
    root = write_tree(tmp_path / "in", {b"a": b"words"})
    snap(files, root)

    [item] = verify_snapshot(files, "corpus", source_root=_Growing(os.fsencode(root))).items

    assert "a file that grows: more than the 5 bytes that were listed" == item.found


@pytest.mark.parametrize("line", [b"[]", b"7", b'{"path": 7, "sha256": "", "size": 1}', b'"a"'])
def test_a_manifest_of_something_else_is_an_error(line):
    """JSON that is no entry ends in a message."""
    header = Header(files=1, links=0, total_bytes=1).line()

    with pytest.raises(ArchiveError, match="manifest cannot be read"):
        list(read_entries(io.BytesIO(header + line + b"\n")))
