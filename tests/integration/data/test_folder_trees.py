"""Folders as sources: what a file may turn into while it is read, files with holes, and every single change."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.support.data_track import ACTOR, origin, write_tree

from pretrain_archive.data.manifest import read_entries
from pretrain_archive.data.snapshots import create_snapshot, open_manifest, versions
from pretrain_archive.data.tree import FolderTree, Listed
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import SourceChangedError, SourceError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.storage.factory import open_store

HOLE = 64 << 20


class Meddled(FolderTree):
    """A folder in which something happens when the first file is opened."""

    def __init__(self, root, act) -> None:
        super().__init__(os.fsencode(root))
        self._act = act

    def _once(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()

    def open(self, listed):
        """Act once, then open."""
        self._once()
        return super().open(listed)

    def content(self, listed):
        """Act once, then read."""
        self._once()
        return super().content(listed)


def _pipe(place) -> None:
    place.unlink()
    os.mkfifo(place)


def _socket(place) -> None:
    place.unlink()
    here = Path.cwd()
    # A socket's path is short by law: bind it from inside its folder.
    os.chdir(place.parent)
    try:
        socket.socket(socket.AF_UNIX).bind(place.name)
    finally:
        os.chdir(here)


def _folder(place) -> None:
    place.unlink()
    place.mkdir()
    (place / "inner").write_bytes(b"x")


def _link(place) -> None:
    place.rename(place.parent / "elsewhere")
    place.symlink_to("elsewhere")


@pytest.mark.parametrize("act", [_pipe, _socket, _folder, _link], ids=["pipe", "socket", "folder", "link"])
@pytest.mark.parametrize("size", [5, 1 << 19], ids=["small", "large"])
def test_what_takes_a_files_place_is_not_read(files, snap, tmp_path, act, size):
    """Nothing waits for a pipe or follows a link: no version is made, and the file is named."""
    root = write_tree(tmp_path / "in", {b"a": b"x" * size, b"b": b"y"})

    with pytest.raises((SourceChangedError, SourceError), match=r"\ba\b"):
        snap(files, Meddled(root, lambda: act(root / "a")))
    assert [] == versions(files, "corpus")


@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_a_file_with_holes(files, snap, tmp_path, mode):
    """Holes are read as the zeros that they stand for."""
    root = write_tree(tmp_path / "in", {b"dense": b"x"})
    with (root / "sparse").open("wb") as out:
        out.seek(HOLE - 1)
        out.write(b"!")
    expected = hashlib.sha256(b"\0" * (HOLE - 1) + b"!").hexdigest()

    made = snap(files, root, mode=mode)

    with open_manifest(files, made.manifest_digest) as stream:
        found = {entry.path: (entry.size, entry.sha256) for entry in read_entries(stream)}
    assert (HOLE, f"sha256:{expected}") == found["sparse"]
    assert "verified" == verify_snapshot(files, "corpus").verdict


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    """It is refused with the reason, and not called changed."""
    root = write_tree(tmp_path / "in", {b"secret": b"x"})
    (root / "secret").chmod(0o600)
    parents = [
        place for place in (root, *root.parents) if place.stat().st_uid == 0 and str(place).count("/") > 1
    ]
    modes = {place: place.stat().st_mode for place in parents}
    for place in parents:
        place.chmod(0o755)
    tree = FolderTree.at(root)
    os.seteuid(65534)
    try:
        with pytest.raises(SourceError, match=r"secret: cannot be read: Permission denied") as caught:
            tree.open(Listed(b"secret", 1, (0, 0, 1, 0, 0)))
    finally:
        os.seteuid(0)
        for place, mode in modes.items():
            place.chmod(mode)
    assert not isinstance(caught.value, SourceChangedError)


NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: not {0, 47} & set(name) and name not in {b".", b".."}
)
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map(b"/".join), st.binary(max_size=40), min_size=1, max_size=6
).filter(lambda files: not any(b.startswith(a + b"/") for a in files for b in files))  # fmt: skip


@settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # fmt: skip
@given(files=TREES, data=st.data())
@pytest.mark.requirement("R052")
@pytest.mark.case("S01", "S03")
def test_any_single_change_is_found(tmp_path_factory, files, data):
    """Names of any bytes: content, name, addition or removal is named by the verification, and nothing else is."""
    root = write_tree(tmp_path_factory.mktemp("in"), files)
    store = open_store(f"file://{tmp_path_factory.mktemp('store')}")
    create_snapshot(store, None, name="n", source_root=root, mode="reference", actor=ACTOR, origin=origin())
    assert "verified" == verify_snapshot(store, "n").verdict
    key = data.draw(st.sampled_from(sorted(files)))
    assume(not any(name.startswith(key + b"+") for name in files))
    place, other = (os.path.join(os.fsencode(root), name) for name in (key, key + b"+"))  # noqa: PTH118
    kind = data.draw(st.sampled_from(["content", "name", "added", "removed"]))
    if kind == "content":
        with open(place, "r+b") as stream:  # noqa: PTH123
            stream.write(bytes([(files[key] or b"\0")[0] ^ 1]))
    elif kind == "name":
        os.rename(place, other)  # noqa: PTH104
    elif kind == "removed":
        os.unlink(place)  # noqa: PTH108
    else:
        with open(other, "wb") as stream:  # noqa: PTH123
            stream.write(b"new")

    found = verify_snapshot(store, "n", source_root=root)

    touched = {"content": [key], "name": [key, key + b"+"], "added": [key + b"+"], "removed": [key]}[kind]
    assert [path_to_text(name) for name in sorted(touched)] == [item.path for item in found.items]
    assert "changed" == found.verdict
