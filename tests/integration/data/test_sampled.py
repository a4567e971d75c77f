"""Verification by a sample: what it sees, what it says, and what it never claims."""

from __future__ import annotations

import io

import pytest
from tests.support.data_track import write_tree

from pretrain_archive.data import layout
from pretrain_archive.data.manifest import read_entries
from pretrain_archive.data.sampling import SampleRule
from pretrain_archive.data.snapshots import open_manifest
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.verdicts import Verdict

FILES = 200


@pytest.fixture
def root(tmp_path):
    """Two hundred files."""
    return write_tree(tmp_path / "in", {b"f%03d" % number: b"words %03d" % number for number in range(FILES)})


def rule(**changes) -> SampleRule:
    """One change in twenty files is seen with probability 0.9."""
    return SampleRule(**{"confidence": 0.9, "max_changed": 0.05, "seed": 11} | changes)


def drawn(store, snapshot, sample) -> list[str]:
    """The paths that are read."""
    with open_manifest(store, snapshot.manifest_digest) as stream:
        paths = [entry.path for entry in read_entries(stream)]
    return [path for path, read in zip(paths, sample.drawn(FILES), strict=True) if read]


@pytest.mark.requirement("R052")
@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_a_whole_sample_is_not_a_verified_snapshot(files, snap, root, mode):
    """The answer says how many of how many were read, with which confidence and seed, and not ``verified``."""
    snap(files, root, mode=mode)

    check = verify_snapshot(files, "corpus", sample=rule())

    size = rule().size(FILES)
    assert (20 < size < FILES, Verdict.UNRECORDED, "sampled") == (True, check.verdict, check.word)
    assert {"verified": size, "changed": 0, "unrecorded": 0} == check.counts
    document = check.to_json()
    assert "sampled" == document["verdict"]
    assert f"sampled: {size} of {FILES} files, confidence 0.9" in document["checked"]
    assert {
        "drawn": size, "files": FILES, "confidence": 0.9, "max_changed": 0.05, "seed": 11, "weighted_by": "files",
    } == document["sample"]  # fmt: skip


@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_a_change_in_a_drawn_file_is_found(files, snap, root, mode):
    """And one in a file that is not drawn is not: a sample is a sample."""
    made = snap(files, root, mode=mode)
    read = drawn(files, made, rule())
    other = sorted({f"f{number:03d}" for number in range(FILES)} - set(read))
    for path, expected in ((other[0], "sampled"), (read[3], "changed")):
        damage(files, made, root, path, mode)
        check = verify_snapshot(files, "corpus", sample=rule())
        assert expected == check.word
    assert [read[3]] == [item.path for item in check.items]
    assert Verdict.CHANGED == check.verdict


def damage(store, snapshot, root, path: str, mode: str) -> None:
    """Change a byte of a file and keep its size."""
    if mode == "reference":
        (root / path).write_bytes(b"W" + (root / path).read_bytes()[1:])
        return
    with open_manifest(store, snapshot.manifest_digest) as stream:
        digest = next(entry.sha256 for entry in read_entries(stream) if entry.path == path)
    store.delete(layout.blob_key(digest))
    store.put_if_absent(layout.blob_key(digest), io.BytesIO(b"Words " + path[1:].encode()))


@pytest.mark.parametrize("change", ["size", "added", "removed", "link"])
def test_names_and_sizes_of_a_live_source_are_all_compared(files, snap, root, change):
    """What a listing shows is found in every file, drawn or not."""
    made = snap(files, root, mode="reference")
    path = min({f"f{number:03d}" for number in range(FILES)} - set(drawn(files, made, rule())))
    named = "new" if change == "added" else path
    if change in {"removed", "link"}:
        (root / path).unlink()
    if change == "link":
        (root / path).symlink_to("elsewhere")
    if change in {"size", "added"}:
        (root / named).write_bytes(b"longer than before")

    check = verify_snapshot(files, "corpus", sample=rule())

    assert ([named], "changed") == ([item.path for item in check.items], check.word)


def test_a_sample_of_all_files_is_a_verification(files, snap, root):
    """Where so much confidence is asked that every file is read, the verdict is that of reading every file."""
    snap(files, root)

    check = verify_snapshot(files, "corpus", sample=rule(confidence=0.999999, max_changed=0.0001))

    assert (Verdict.VERIFIED, "verified") == (check.verdict, check.word)
