"""Stamps: what need not be read again, and what must be."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.support.data_track import ACTOR, origin, write_tree

from pretrain_archive.data import layout, stamps
from pretrain_archive.data.buckets import Address, BucketTree
from pretrain_archive.data.snapshots import create_snapshot, open_version
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import StorageError
from pretrain_archive.storage.factory import open_bucket

pytestmark = pytest.mark.requirement("R052")
FILES = {b"a.txt": b"first", b"b/two.txt": b"second", b"z.txt": b"third"}


def age(root: Path) -> None:
    """Wait until every file below ``root`` is older than the clock's granularity that stamps assume."""
    newest = max(path.stat().st_ctime_ns for path in root.rglob("*"))
    while newest + stamps.AGE_NS >= time.time_ns():
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _short_age(monkeypatch):
    """The clock of the file system moves every few milliseconds: a tenth of a second is as good as two."""
    monkeypatch.setattr(stamps, "AGE_NS", 100_000_000)


@pytest.fixture
def root(tmp_path):
    """A small tree that is old enough."""
    made = write_tree(tmp_path / "in", FILES)
    age(made)
    return made


@pytest.fixture
def take(files, ledger, tmp_path):
    """Take an incremental snapshot."""

    def taken(root, **changes):
        fields = {"name": "corpus", "mode": "reference", "stamps": tmp_path / "stamps"}
        return create_snapshot(
            files, ledger, source_root=root, actor=ACTOR, origin=origin(), **fields | changes
        )

    return taken


@pytest.mark.parametrize("mode", ["reference", "copy"])
def test_an_unchanged_tree_is_not_read(take, root, ledger, mode, monkeypatch):
    """The second snapshot opens no file; its record says how many were taken from which version's stamps."""
    first = take(root, mode=mode)
    for method in ("content", "open"):
        monkeypatch.setattr(f"pretrain_archive.data.tree.FolderTree.{method}", None)
    second = take(root, mode=mode)

    assert ("every byte of 3 files read and hashed with SHA-256; none taken from stamps", 3, 0) == (
        first.check, first.files_read, first.files_from_stamps
    )  # fmt: skip
    looked = "; the stored copies of these were looked up, not read" if mode == "copy" else ""
    assert (True, 0, 3) == (second.unchanged, second.files_read, second.files_from_stamps)
    assert (
        "0 files read and hashed with SHA-256; 3 taken from stamps of snapshot:corpus@1 "
        "(device, inode, size, mtime, ctime)" + looked
    ) == second.check
    assert second.to_json() == list(ledger.records(kinds=["snapshot.created"]))[-1].payload
    assert first.manifest_digest == second.manifest_digest


@pytest.mark.case("S05")
def test_an_edit_that_restores_size_and_time_is_read(take, root, files):
    """Same size, modification time put back: the change time moved, so the file is read and is a new version."""
    take(root)
    path = root / "a.txt"
    before = path.stat()
    path.write_bytes(b"FIRST")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    second = take(root)

    assert (before.st_size, before.st_mtime_ns, before.st_ino) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ino,
    )
    assert (2, {"added": 0, "removed": 0, "modified": 1}) == (second.version, second.changes)
    assert (1, 2) == (second.files_read, second.files_from_stamps)
    assert "verified" == verify_snapshot(files, "corpus").verdict.value


def test_only_what_changed_is_read(take, root, files):
    """New, changed and renamed files are read, the others are not; digest and version are those of a full read."""
    take(root)
    write_tree(root, {b"a.txt": b"other", b"new.txt": b"n"})
    (root / "z.txt").rename(root / "y.txt")
    second = take(root)
    full = take(root, name="full", stamps=None)

    assert (3, 1) == (second.files_read, second.files_from_stamps)
    assert full.manifest_digest == second.manifest_digest
    assert "1 taken from stamps of snapshot:corpus@1" in open_version(files, "corpus", 2).check


def test_a_file_as_young_as_the_hashing_is_read_again(take, tmp_path, monkeypatch):
    """Written within the granularity before hashing: a second write could carry the same stamp, so none is kept."""
    monkeypatch.setattr(stamps, "AGE_NS", 3600 * 10**9)
    root = write_tree(tmp_path / "in", FILES)
    take(root)
    second = take(root)

    assert (True, 3, 0) == (second.unchanged, second.files_read, second.files_from_stamps)


def test_a_file_system_that_is_not_trusted_is_read(take, root, monkeypatch):
    """Where the change time comes from elsewhere (network file systems) every file is read."""
    monkeypatch.setattr(stamps, "trusted_devices", set)
    take(root)

    assert (3, 0) == ((second := take(root)).files_read, second.files_from_stamps)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda folder: [path.unlink() for path in folder.iterdir()], id="lost"),
        pytest.param(lambda folder: [path.write_bytes(b"{") for path in folder.iterdir()], id="broken"),
        pytest.param(
            lambda folder: [path.write_bytes(path.read_bytes()[:-9]) for path in folder.glob("*.jsonl")],
            id="cut",
        ),
    ],
)
def test_without_stamps_all_is_read(take, root, tmp_path, damage):
    """A lost or damaged cache costs a full read and nothing else."""
    take(root)
    damage(tmp_path / "stamps")
    write_tree(root, {b"a.txt": b"other"})
    second = take(root)

    assert (2, 3, 0) == (second.version, second.files_read, second.files_from_stamps)


@pytest.mark.parametrize("field", ["host", "boot", "source"])
def test_stamps_are_bound(take, root, tmp_path, field):
    """Stamps of another host, boot or source are not believed."""
    take(root)
    (head,) = (tmp_path / "stamps").glob("*.json")
    head.write_text(json.dumps(json.loads(head.read_text()) | {field: "another"}))

    assert 3 == take(root).files_read


def test_a_copy_that_is_gone_is_made_again(take, root, files):
    """A stored copy that a stamp would rest on is looked up; where it is gone the file is read and copied again."""
    take(root, mode="copy")
    made = open_version(files, "corpus")
    (blob,) = [info.key for info in files.list("blobs/") if info.size == len(b"second")]
    files.delete(blob)
    second = take(root, mode="copy")

    assert (True, 1, 2) == (second.unchanged, second.files_read, second.files_from_stamps)
    assert layout.blob_key(blob.rpartition("/")[2]) == blob
    assert "verified" == verify_snapshot(files, "corpus", made.version).verdict.value


def test_another_store_is_not_taken_for_this_one(take, root, ledger, tmp_path):
    """Stamps belong to the source; a store that holds nothing gets everything."""
    from pretrain_archive.storage.factory import open_store

    take(root, mode="copy")
    other = open_store(f"file://{tmp_path}/other")
    made = create_snapshot(
        other, ledger, name="corpus", source_root=root, mode="copy", actor=ACTOR, origin=origin(),
        stamps=tmp_path / "stamps",
    )  # fmt: skip

    assert 3 == made.files_read
    assert "verified" == verify_snapshot(other, "corpus").verdict.value


@pytest.mark.parametrize(
    "changes", [{"name": "twin"}, {"mode": "copy"}], ids=["another name", "another mode"]
)
def test_an_unchanged_tree_becomes_a_new_version(store, ledger, root, tmp_path, changes):
    """What stamps prove unchanged is a version under another name or mode too, in any store."""
    fields = {"name": "corpus", "mode": "reference"}
    made = [
        create_snapshot(
            store, ledger, source_root=root, actor=ACTOR, origin=origin(), stamps=tmp_path / "stamps", **each
        )
        for each in (fields, fields | changes)
    ]

    assert made[0].manifest_digest == made[1].manifest_digest
    assert (False, False) == (made[0].unchanged, made[1].unchanged)
    assert "verified" == verify_snapshot(store, made[1].name).verdict.value


def test_a_damaged_manifest_is_not_taken_over(take, root, files):
    """The manifest that an unchanged tree leads to is proven before anything rests on it."""
    made = take(root)
    from pretrain_archive.data.snapshots import manifest_key

    path = Path(files.folder) / manifest_key(made.manifest_digest)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"a.txt", b"e.txt"))

    with pytest.raises(StorageError, match="expected " + made.manifest_digest):
        take(root)


def test_verify_reads_everything(take, root, files):
    """Verification takes no stamp: it finds what the file system hides."""
    take(root)
    hidden = root / "a.txt"
    hidden.write_bytes(b"wrong")
    found = verify_snapshot(files, "corpus")

    assert ["a.txt"] == [item.path for item in found.items]


def test_nothing_is_left_over(take, root, tmp_path):
    """After many snapshots there is one file of stamps and its head."""
    for number in range(4):
        write_tree(root, {b"a.txt": b"%d" % number})
        take(root)

    assert [".json", ".jsonl"] == sorted(path.suffix for path in (tmp_path / "stamps").iterdir())


@pytest.mark.parametrize("versioned", [True, False])
def test_in_a_bucket_only_the_same_version_id_is_taken(take, s3, versioned):
    """A pinned version id is one content for ever; without versions every object is read."""
    client = s3.client()
    if versioned:
        client.put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": "Enabled"})
    for name in ("a", "b", "c"):
        client.put_object(Bucket=s3.bucket, Key=f"data/{name}", Body=name.encode())
    tree = BucketTree.at(
        open_bucket(s3.bucket, s3_options=s3.options), Address(bucket=s3.bucket, prefix=b"data/")
    )
    first = take(tree)
    same = take(tree)
    client.put_object(Bucket=s3.bucket, Key="data/b", Body=b"b")
    again = take(tree)

    assert ((0, 3) if versioned else (3, 0)) == (same.files_read, same.files_from_stamps)
    assert ((1, 2) if versioned else (3, 0)) == (again.files_read, again.files_from_stamps)
    assert same.manifest_digest == first.manifest_digest
    assert versioned == ("(version id)" in same.check)


def test_the_version_of_a_suspended_bucket_is_no_pin(take, s3):
    """It is called null and written over in place, within one second too: it is read each time."""
    client = s3.client()
    for status in ("Enabled", "Suspended"):
        client.put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": status})
    client.put_object(Bucket=s3.bucket, Key="data/a", Body=b"a")
    place = Address(bucket=s3.bucket, prefix=b"data/")
    tree = BucketTree.at(open_bucket(s3.bucket, s3_options=s3.options), place)
    take(tree)

    assert (1, 0) == ((again := take(tree)).files_read, again.files_from_stamps)
