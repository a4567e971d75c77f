"""Reading a tree into a manifest: lines, batches, and what a listing notices."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.data_track import write_tree

from pretrain_archive.data.building import TICK_NS, build
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.listing import BATCH_BYTES, BATCH_FILES, CHUNK, Listing, batches
from pretrain_archive.data.manifest import Entry
from pretrain_archive.data.tree import FolderTree, Listed
from pretrain_archive.domain.errors import SourceChangedError
from pretrain_archive.domain.identity import path_to_text, text_to_path
from pretrain_archive.ledger.canonical import canonical_bytes


@given(st.binary(min_size=1), st.integers(0, 2**53 - 1))
def test_a_line_is_canonical_json(raw: bytes, size: int) -> None:
    """The line that is written fast has the bytes of the general encoder, for any name; and it reads back."""
    entry = Entry(path=path_to_text(raw), size=size, sha256="sha256:" + "0" * 64)
    fields = {"path": entry.path, "size": size, "sha256": entry.sha256}

    assert canonical_bytes(fields) + b"\n" == entry.line()
    assert entry == Entry.parse(entry.line())
    assert raw == text_to_path(entry.path)


def test_batches_are_small_in_files_and_bytes() -> None:
    """Many small files are one job, a large file is one, and nothing is lost or moved."""
    sizes = [1] * 300 + [BATCH_BYTES] * 3 + [10]
    listing = [Listed(b"%04d" % number, size) for number, size in enumerate(sizes)]
    made = list(batches(listing))

    assert listing == [item for batch in made for item in batch]
    assert all(len(batch) <= BATCH_FILES for batch in made)
    assert all(sum(item.size for item in batch[:-1]) < BATCH_BYTES for batch in made)
    assert len(made) < 10


@pytest.fixture
def tree(tmp_path: Path) -> FolderTree:
    """More files than a chunk of a listing holds, and a link."""
    write_tree(tmp_path / "in", {b"%04d" % n: b"x" for n in range(CHUNK + 3)})
    (tmp_path / "in/link").symlink_to("0001")
    return FolderTree.at(tmp_path / "in")


def test_a_listing_is_what_the_tree_lists(tree: FolderTree) -> None:
    """On disk and back nothing is lost; totals count files, links and bytes."""
    with Listing.take(tree, Filter()) as listing:
        assert list(tree.list(Filter())) == list(listing) == list(listing)
        assert (CHUNK + 3, 1, CHUNK + 3, 0) == (listing.files, listing.links, listing.size, listing.pinned)
        assert [] == listing.changed_since(tree, Filter())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(lambda root: (root / "0600").write_bytes(b"y"), ["0600"], id="new"),
        pytest.param(lambda root: (root / "0007").write_bytes(b"y"), ["0007"], id="edited"),
        pytest.param(lambda root: (root / "0514").unlink(), ["0514"], id="the last one gone"),
        pytest.param(lambda root: os.replace(root / "0007", root / "0007b"), ["0007", "0007b"], id="renamed"),  # noqa: PTH105
        pytest.param(lambda root: (root / "link").unlink(), ["link"], id="link gone"),
    ],
)
def test_what_changed_is_named(tree: FolderTree, change, named: list[str]) -> None:
    """A later look names each path that came, went or was written."""
    root = Path(os.fsdecode(tree.root))
    with Listing.take(tree, Filter()) as listing:
        change(root)
        assert named == listing.changed_since(tree, Filter())


def test_a_file_of_this_very_tick_grows_older_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writes within a tick of the clock may carry one stamp: reading waits until a later write must show."""
    read: list[tuple[int, int]] = []
    real = FolderTree.content

    def content(tree: FolderTree, listed: Listed) -> bytes:
        read.append((time.time_ns(), int(listed.mark[4])))
        return real(tree, listed)

    monkeypatch.setattr(FolderTree, "content", content)
    for number in range(5):
        root = write_tree(tmp_path / str(number), {b"f": b"x"})
        build(FolderTree.at(root), Filter()).file.close()

    assert 5 == len(read)
    assert all(now - written >= TICK_NS for now, written in read)


def test_a_small_file_that_is_not_the_listed_one(tmp_path: Path) -> None:
    """Swapped for another of the same size and time, grown, cut, gone or turned into a link: it is refused by name."""
    root = write_tree(
        tmp_path / "in", dict.fromkeys((b"swapped", b"grown", b"cut", b"gone", b"link", b"kept"), b"old")
    )
    tree = FolderTree.at(root)
    listing = list(tree.list(Filter()))
    times = (root / "swapped").stat()
    (root / "new").write_bytes(b"new")
    os.utime(root / "new", ns=(times.st_atime_ns, times.st_mtime_ns))
    (root / "new").replace(root / "swapped")
    (root / "grown").write_bytes(b"older")
    (root / "cut").write_bytes(b"o")
    (root / "gone").unlink()
    (root / "link").unlink()
    (root / "link").symlink_to("kept")
    refused = []
    for listed in listing:
        try:
            assert b"old" == tree.content(listed)
        except SourceChangedError as error:
            refused += error.paths

    assert ["cut", "gone", "grown", "link", "swapped"] == refused
