"""What is pinned, what changes while it is read, and what a program gets."""

from __future__ import annotations

import hashlib
import json

import pytest
from tests.support.buckets import (
    HARD_KEYS,
    Meddled,
    entries_of,
    keep_versions,
    manifest,
    put,
    tree,
)
from tests.support.data_track import ACTOR, origin

from pretrain_archive.data.materialise import materialise
from pretrain_archive.data.parts import hash_part, merge_parts
from pretrain_archive.data.planning import make_plan
from pretrain_archive.data.shards import of_snapshot
from pretrain_archive.data.snapshots import create_snapshot, versions
from pretrain_archive.data.sources import resolve_source
from pretrain_archive.data.splits import create_split
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import SourceChangedError
from pretrain_archive.domain.identity import path_to_text


@pytest.mark.case("S09")
def test_pinned_versions(s3, refer, files):
    """The newest version of what is not deleted is pinned and read for ever; without it nothing takes its place."""
    client = s3.client()
    put(s3, {"v/old.txt": b"before versioning\n"})
    keep_versions(s3)
    put(s3, {"v/a.txt": b"a1\n", "v/b.txt": b"b\n", "v/c.txt": b"c\n"})
    newest = client.put_object(Bucket=s3.bucket, Key="v/a.txt", Body=b"a2\n")["VersionId"]
    client.delete_object(Bucket=s3.bucket, Key="v/b.txt")
    marker = client.delete_object(Bucket=s3.bucket, Key="v/c.txt")["VersionId"]
    client.delete_object(Bucket=s3.bucket, Key="v/c.txt", VersionId=marker)

    found = entries_of(files, refer())
    assert ["a.txt", "c.txt", "old.txt"] == list(found)
    assert (newest, "null") == (found["a.txt"].version, found["old.txt"].version)
    assert "sha256:" + hashlib.sha256(b"a2\n").hexdigest() == found["a.txt"].sha256

    put(s3, {"v/a.txt": b"a3\n", "v/new": b"new"})
    client.delete_object(Bucket=s3.bucket, Key="v/c.txt")
    assert "verified" == verify_snapshot(files, "corpus").verdict

    client.delete_object(Bucket=s3.bucket, Key="v/a.txt", VersionId=newest)
    (item,) = verify_snapshot(files, "corpus").items
    assert ("a.txt", "changed", f"the pinned version {newest} is gone") == (
        item.path,
        item.verdict,
        item.found,
    )


@pytest.mark.case("S09")
def test_an_overwritten_null_version_is_found(s3, refer, files):
    """Where versioning is suspended the version ``null`` is written over: its digest tells."""
    keep_versions(s3)
    keep_versions(s3, "Suspended")
    put(s3, {"v/a": b"words"})
    assert "null" == entries_of(files, refer())["a"].version

    put(s3, {"v/a": b"sword"})

    (item,) = verify_snapshot(files, "corpus").items
    assert ("a", "changed", "sha256:" + hashlib.sha256(b"sword").hexdigest()) == (
        item.path,
        item.verdict,
        item.found,
    )


@pytest.mark.case("S09")
@pytest.mark.parametrize("prefix", ["v", "v/only"], ids=["prefix", "object"])
def test_pins_hold_where_everything_was_deleted(s3, files, connection, prefix):
    """Delete markers hide all keys: the pinned versions are read all the same, for a check and for a program."""
    keep_versions(s3)
    put(s3, {"v/only": b"words"})
    source = resolve_source(f"s3://{connection}@{s3.bucket}/{prefix}")
    assert source.licence_file_digest is None
    made = create_snapshot(
        files, None, name="corpus", source_root=source.tree, mode="reference", actor=ACTOR, origin=origin()
    )
    s3.client().delete_object(Bucket=s3.bucket, Key="v/only")
    if prefix == "v/only":
        put(s3, {"v/only/later": b"below a name that was an object"})

    check = verify_snapshot(files, "corpus")
    assert ("verified", "the pinned versions of the source, every byte") == (check.verdict, check.checked)
    ((entry, shard),) = of_snapshot(files, made)
    with shard.open() as stream:
        assert ("only", b"words") == (entry.path, stream.read())


@pytest.mark.case("S09")
def test_documents_are_read_at_their_pins(s3, refer, files):
    """What a quality check or a split reads of a snapshot by reference are the pinned bytes, not the newest."""
    keep_versions(s3)
    put(s3, {"v/a": b"words", "v/b": b"more"})
    made = refer()
    put(s3, {"v/a": b"later", "v/b": b""})

    found = {}
    for entry, shard in of_snapshot(files, made):
        with shard.open() as stream:
            found[entry.path] = stream.read()

    assert {"a": b"words", "b": b"more"} == found


@pytest.mark.requirement("R051")
def test_a_new_version_of_an_object_is_a_new_version_of_the_snapshot(s3, refer):
    """Also with the same bytes: what is pinned is another object. Without one the snapshot is unchanged."""
    keep_versions(s3)
    put(s3, {"v/a": b"words", "v/b": b"more"})
    assert (1, False) == ((first := refer()).version, first.unchanged)
    assert (1, True) == ((same := refer()).version, same.unchanged)

    put(s3, {"v/a": b"words"})

    assert (2, 1) == ((second := refer()).version, second.changes["modified"])


@pytest.mark.parametrize("mode", ["copy", "reference"])
@pytest.mark.parametrize("pinned", [False, True], ids=["unversioned", "versioned"])
@pytest.mark.parametrize("touched", ["a", "b", "c", "d"], ids=["before", "itself", "after", "added"])
def test_a_change_while_reading_makes_no_version(s3, snap, files, mode, pinned, touched):
    """Whenever it comes, the key is named: before, in, or after the object that is read, or a new one."""
    if pinned:
        keep_versions(s3)
    put(s3, {"a": b"one", "b": b"two", "c": b"three"})
    meddled = Meddled(tree(s3), b"b", lambda: put(s3, {touched: b"NEW"}))

    with pytest.raises(SourceChangedError) as caught:
        snap(files, meddled, mode=mode)

    assert (touched,) == caught.value.paths
    assert [] == versions(files, "corpus")


def test_a_key_that_vanishes_while_reading_is_named(s3, snap, files):
    """Deleted between listing and reading."""
    put(s3, {"a": b"one", "b": b"two"})
    meddled = Meddled(tree(s3), b"b", lambda: s3.client().delete_object(Bucket=s3.bucket, Key="b"))

    with pytest.raises(SourceChangedError, match="1 files changed while they were read: b"):
        snap(files, meddled)


@pytest.mark.requirement("R052")
@pytest.mark.case("S11")
@pytest.mark.parametrize("pinned", [False, True], ids=["unversioned", "versioned"])
def test_a_training_program_gets_the_pinned_bytes(s3, refer, files, tmp_path, pinned):
    """A snapshot by reference is laid out in the work folder under digests, whatever the keys say."""
    # The server writes the keys of versions as they are: those that XML cannot carry would break its answer.
    keys = [key for key in HARD_KEYS if not pinned or key.isprintable()]
    if pinned:
        keep_versions(s3)
    put(s3, {f"v/{key}": b"words of " + key.encode() for key in keys})
    snapshot = refer()
    split = create_split(
        files, None, snapshot=snapshot, seed=1, validation_fraction=0.3, actor=ACTOR, origin=origin()
    )
    if pinned:
        put(s3, {f"v/{key}": b"newer" for key in keys})
    outside = {path for path in tmp_path.rglob("*") if "work" not in path.parts}

    listed = materialise(files, snapshot, split, tmp_path / "work")

    rows = [json.loads(line) for line in listed.read_bytes().splitlines()]
    assert {path_to_text(key.encode()) for key in keys} == {row["path"] for row in rows}
    for row in rows:
        with open(row["location"], "rb") as stream:  # noqa: PTH123 - the name as a program gets it
            assert row["sha256"] == "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
        assert row["location"].startswith(str(tmp_path / "work/documents"))
    assert outside == {path for path in tmp_path.rglob("*") if "work" not in path.parts}


@pytest.mark.parametrize("pinned", [False, True], ids=["unversioned", "versioned"])
def test_parts_of_a_bucket_give_the_manifest_of_the_whole(s3, files, pinned):
    """Hashed in parts by the listing of the plan: same digest; what is written in between is named at the merge."""
    if pinned:
        keep_versions(s3)
    put(s3, {f"k/{number:02d}": b"%d" % number for number in range(10)})
    wish = {"name": "corpus", "mode": "reference", "include": [], "exclude": []}
    plan = make_plan(files, tree(s3), wish, stream="data/corpus", parts=3, step_files=2)
    for number in range(1, len(plan.parts) + 1):
        hash_part(files, plan, number, tree(s3))

    with merge_parts(files, plan, tree(s3)).file as merged:
        merged.seek(0)
        assert manifest(tree(s3)) == merged.read()
    put(s3, {"k/05": b"6"})
    with pytest.raises(SourceChangedError, match="k/05"):
        merge_parts(files, plan, tree(s3))


def test_stamps_are_not_taken_from_a_bucket(s3, snap, files, tmp_path):
    """Where only ETag and time say that an object is the same, it is read again."""
    put(s3, {"a": b"words"})
    for _ in range(2):
        made = snap(files, tree(s3), stamps=tmp_path / "stamps")

    assert (1, True) == (made.version, made.unchanged)
    assert "every byte of 1 files read" in made.check
