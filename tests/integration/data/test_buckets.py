"""Sources in a bucket of a real S3 server, against the same files in a folder."""

from __future__ import annotations

import hashlib
import json
import logging
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto.s3.models import s3_backends
from tests.support.data_track import ACTOR, origin, write_tree

from pretrain_archive.data.buckets import Address, BucketTree
from pretrain_archive.data.building import build
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.manifest import FORMAT, PINNED, Entry, read_entries
from pretrain_archive.data.materialise import materialise
from pretrain_archive.data.places import refuse_own_places
from pretrain_archive.data.snapshots import create_snapshot, open_manifest, versions
from pretrain_archive.data.sources import resolve_source
from pretrain_archive.data.splits import create_split
from pretrain_archive.data.tree import FolderTree
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import InputError, SourceChangedError, SourceError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.storage.factory import open_bucket, open_store

HARD_KEYS = (
    "k/a b.txt", "k/a+b.txt", "k/a%2Bb.txt", "k/a%20b.txt", "k/é.txt", "k/#x?.txt", "k/s;c:.txt",
    "k/../up.txt", "k/bell\x07", "k/\x01\x02", "k/ space ", "k//empty part", "k/./dot", "k/数据&<>\"'",
)  # fmt: skip
"""Characters that get lost where a key is decoded once too often, or that XML 1.0 cannot carry."""

MANY = 1100
"""More than the 1,000 keys of a page."""

KEY_ID, SECRET = "AKIAEXAMPLEKEY7777", "geheim+geheim/geheim"


def put(s3, files: dict[str, bytes]) -> None:
    """Store objects."""
    client = opened(s3)[1]
    for key, body in files.items():
        client.put_object(Bucket=s3.bucket, Key=key, Body=body)


def keep_versions(s3, status: str = "Enabled") -> None:
    """Let the bucket keep versions."""
    s3.client().put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": status})


@cache
def opened(s3):
    """The bucket to read, and a client to write: making one takes longer than most tests."""
    return open_bucket(s3.bucket, s3_options=s3.options), s3.client()


def tree(s3, prefix: str = "") -> BucketTree:
    """The tree below a prefix."""
    return BucketTree.at(opened(s3)[0], Address(bucket=s3.bucket, prefix=prefix.encode()))


def paths(found, **patterns) -> list[bytes]:
    """The listed paths."""
    return [listed.path for listed in found.list(Filter(**patterns))]


def manifest(found) -> bytes:
    """The bytes of a tree's manifest."""
    with build(found, Filter()).file as file:
        return file.read()


def entries_of(store, made) -> dict[str, Entry]:
    """The entries of a snapshot by path."""
    with open_manifest(store, made.manifest_digest) as stream:
        return {entry.path: entry for entry in read_entries(stream)}


@pytest.fixture
def connection(monkeypatch, s3) -> str:
    """The id of an Airflow connection to the server."""
    extra = {"endpoint_url": s3.endpoint, "region_name": "us-east-1"}
    fields = {"conn_type": "aws", "login": KEY_ID, "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(fields))
    return "lake"


@pytest.fixture
def refer(files, connection, s3):
    """Take snapshots by reference of what lies below ``v/``, through the connection."""

    def take(**changes):
        source = resolve_source(f"s3://{connection}@{s3.bucket}/v")
        fields = {"name": "corpus", "mode": "reference", "actor": ACTOR, "origin": origin()}
        return create_snapshot(files, None, source_root=source.tree, **fields | changes)

    return take


@pytest.mark.case("S11")
@pytest.mark.parametrize("mode", ["copy", "reference"])
def test_every_key_is_read_as_it_is(s3, snap, files, mode):
    """Each object holds its own key; it is listed and read under exactly that, in the order of the raw bytes."""
    put(s3, {key: key.encode() for key in HARD_KEYS})

    made = snap(files, tree(s3), mode=mode)

    expected = sorted(key.encode() for key in HARD_KEYS)
    found = entries_of(files, made)
    assert [path_to_text(key) for key in expected] == list(found)
    assert ["sha256:" + hashlib.sha256(key).hexdigest() for key in expected] == [
        e.sha256 for e in found.values()
    ]
    assert "verified" == verify_snapshot(files, "corpus", source_root=tree(s3)).verdict


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


@pytest.mark.requirement("R051")
def test_a_new_version_of_an_object_is_a_new_version_of_the_snapshot(s3, refer):
    """Also with the same bytes: what is pinned is another object. Without one the snapshot is unchanged."""
    keep_versions(s3)
    put(s3, {"v/a": b"words", "v/b": b"more"})
    assert (1, False) == ((first := refer()).version, first.unchanged)
    assert (1, True) == ((same := refer()).version, same.unchanged)

    put(s3, {"v/a": b"words"})

    assert (2, 1) == ((second := refer()).version, second.changes["modified"])


@pytest.mark.case("S07")
def test_one_content_is_one_whatever_its_etag(s3, snap, files):
    """Stored in one, two or one single part, the same bytes have one digest and one copy; no ETag is kept."""
    client, body = s3.client(), bytes(range(256)) * (6 * 4096)
    put(s3, {"single": body})
    for key, size in {"two": 5 << 20, "one": 6 << 20}.items():
        target = {"Bucket": s3.bucket, "Key": key}
        upload = target | {"UploadId": client.create_multipart_upload(**target)["UploadId"]}
        parts = [
            {
                "PartNumber": n,
                "ETag": client.upload_part(**upload, PartNumber=n, Body=body[at : at + size])["ETag"],
            }
            for n, at in enumerate(range(0, len(body), size), 1)
        ]
        client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    etags = {item["ETag"].strip('"') for item in client.list_objects_v2(Bucket=s3.bucket)["Contents"]}
    assert 3 == len(etags)

    made = snap(files, tree(s3))

    digest = "sha256:" + hashlib.sha256(body).hexdigest()
    assert {digest} == {entry.sha256 for entry in entries_of(files, made).values()}
    assert 1 == len(list(files.list("blobs/")))
    assert not any(etag.encode() in manifest(tree(s3)) or etag in str(made) for etag in etags)
    assert "verified" == verify_snapshot(files, "corpus", source_root=tree(s3)).verdict


@pytest.mark.parametrize("pinned", [False, True], ids=["unversioned", "versioned"])
def test_more_than_a_page(s3, pinned):
    """Every key beyond the first page is there once, also where versions of one key fill a page."""
    if pinned:
        keep_versions(s3)
    backend = s3_backends["123456789012"]["aws"]
    keys = [f"n/{number:05d}" for number in range(MANY)]
    for key in keys if not pinned else [*keys[:5] * 250, *keys]:
        backend.put_object(s3.bucket, key, b"")

    listed = list(tree(s3, "n").list(Filter()))

    assert [key.removeprefix("n/").encode() for key in keys] == [item.path for item in listed]
    assert {pinned} == {item.version is not None for item in listed}


def test_a_prefix_ends_at_a_part(s3):
    """``data`` is what lies below ``data/``; a marker of a folder holds no data; neighbours stay out."""
    put(s3, {
        "data/": b"", "data/a": b"1", "data/sub/": b"", "data/sub/b": b"2", "data2/c": b"3", "data-x": b"4", "d": b"5",
        "data/full/": b"a name that ends in a slash",
    })  # fmt: skip

    for prefix in ("data", "data/"):
        found = tree(s3, prefix)
        assert ([b"a", b"full/", b"sub/b"], f"s3://{s3.bucket}/data/") == (paths(found), found.uri)
    assert [b"data-x", b"data/a", b"data2/c"] == paths(tree(s3), exclude=("sub", "full", "d"))
    assert [b"data2/c"] == paths(tree(s3), include=("data2/**",))
    assert [] == paths(tree(s3, "dat"))


def test_an_object_is_a_tree(s3):
    """The address of one object is that object, under the last part of its key."""
    put(s3, {"data/rows.jsonl": b"{}", "data/rows.jsonl.bak": b"{}"})

    found = tree(s3, "data/rows.jsonl")

    assert ([b"rows.jsonl"], f"s3://{s3.bucket}/data/rows.jsonl") == (paths(found), found.uri)
    assert b'"path":"rows.jsonl"' in manifest(found)


def test_an_object_and_a_folder_of_one_name(s3):
    """Both with bytes: whoever means one of them must say so. An empty object is a marker."""
    put(s3, {"data": b"bytes", "data/a": b"1", "mark": b"", "mark/a": b"1"})

    with pytest.raises(SourceError, match="is an object of 5 bytes, and there are objects below"):
        tree(s3, "data")
    assert [b"a"] == paths(tree(s3, "data/")) == paths(tree(s3, "mark"))


class Meddled:
    """A tree in which somebody writes at the moment when a file is opened."""

    def __init__(self, inner: BucketTree, when: bytes, act) -> None:
        self._inner, self._when, self._act = inner, when, act
        self.uri, self.list, self.same = inner.uri, inner.list, inner.same

    def open(self, listed):
        """Write, and then open."""
        if listed.path == self._when:
            self._when = b""
            self._act()
        return self._inner.open(listed)


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


NAMES = st.text(
    st.characters(exclude_characters="/\n\r\0", exclude_categories=("Cs", "Cn")), min_size=1, max_size=12
).filter(lambda name: name not in {".", ".."} and len(name.encode()) < 60)  # fmt: skip
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=40), min_size=1, max_size=6
).filter(lambda files: not any(b.startswith(a + "/") for a in files for b in files))  # fmt: skip
HARD = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # fmt: skip


def refill(s3, files: dict[str, bytes]) -> None:
    """Let the bucket hold these objects only; put in behind the server, since there are many of them."""
    backend = s3_backends["123456789012"]["aws"]
    for key in list(backend.buckets[s3.bucket].keys):
        del backend.buckets[s3.bucket].keys[key]
    for key, body in files.items():
        backend.put_object(s3.bucket, key, body)


@HARD
@given(files=TREES)
def test_folder_equals_bucket(s3, tmp_path_factory, files):
    """The same names and bytes give the same manifest, byte for byte."""
    refill(s3, files)
    folder = write_tree(tmp_path_factory.mktemp("in"), {name.encode(): body for name, body in files.items()})

    assert manifest(FolderTree.at(folder)) == manifest(tree(s3))


@HARD
@given(files=TREES, data=st.data())
@pytest.mark.requirement("R052")
def test_any_single_change_is_found(s3, tmp_path_factory, files, data):
    """Content, name, addition or removal: the verification by reference names what changed, and nothing else."""
    refill(s3, files)
    store = open_store(f"file://{tmp_path_factory.mktemp('store')}")
    create_snapshot(
        store, None, name="n", source_root=tree(s3), mode="reference", actor=ACTOR, origin=origin()
    )
    assert "verified" == verify_snapshot(store, "n", source_root=tree(s3)).verdict
    key = data.draw(st.sampled_from(sorted(files)))
    changed = dict(files)
    kind = data.draw(st.sampled_from(["content", "name", "added", "removed"]))
    if kind in {"added", "name"}:
        changed[key + "+"] = files[key]
    if kind in {"removed", "name"}:
        del changed[key]
    if kind == "content":
        changed[key] = files[key][:-1] + bytes([(files[key] or b"\0")[-1] ^ 1])
    refill(s3, changed | ({"~ something else": b""} if not changed else {}))

    found = verify_snapshot(store, "n", source_root=tree(s3))

    named = {
        path_to_text(k.encode()) for k in files.keys() | changed.keys() if files.get(k) != changed.get(k)
    }
    assert named == {item.path for item in found.items} - {path_to_text(b"~ something else")}
    assert "changed" == found.verdict


@pytest.mark.requirement("R055")
def test_who_reads_is_told_without_the_secret(connection, s3):
    """The identity of a bucket is connection and masked key id; the address names the connection and no key."""
    put(s3, {"v/a": b"words", "v/LICENSE": b"CC0"})

    source = resolve_source(f"s3://{connection}@{s3.bucket}/v/")

    assert "connection lake, access key AKIA…7777" == source.identity
    assert f"s3://lake@{s3.bucket}/v/" == source.uri
    assert "sha256:" + hashlib.sha256(b"CC0").hexdigest() == source.licence_file_digest
    assert SECRET not in repr(source)
    with pytest.raises(InputError, match="is not a folder"):
        source.root  # noqa: B018 - it raises


def test_no_error_or_log_holds_a_credential(connection, s3, caplog, monkeypatch):
    """A bucket that is not there, an endpoint that does not answer, a key that is refused: all without the secret."""
    caplog.set_level(logging.DEBUG, logger="pretrain_archive")
    texts = []
    for uri in (f"s3://{connection}@nobucket-{s3.bucket}/", f"s3://{connection}@{s3.bucket}/none"):
        with pytest.raises(SourceError) as caught:
            resolve_source(uri)
        texts.append(str(caught.value))
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", f"aws://{KEY_ID}:geheim@/?role_arn=arn")
    for uri in (f"s3://{connection}@{s3.bucket}/", f"s3://{KEY_ID}:geheim@{s3.bucket}/"):
        with pytest.raises(InputError) as refused:
            resolve_source(uri)
        texts.append(str(refused.value))

    assert ("NoSuchBucket" in texts[0], "holds no file" in texts[1]) == (True, True)
    assert ("role_arn, which is not supported" in texts[2], "looks like credentials" in texts[3]) == (
        True,
        True,
    )
    assert not any(word in text + caplog.text for text in texts for word in ("geheim", KEY_ID))


@pytest.mark.parametrize(
    ("prefix", "overlaps"),
    [
        ("", True),
        ("own/", True),
        ("own/data", True),
        ("own/data/blobs/", True),
        ("own/data2/", False),
        ("in/", False),
    ],
)
def test_the_stores_own_prefix_is_refused(s3, prefix, overlaps):
    """Around, inside or equal in one bucket of one service; another bucket, service or prefix is fine."""
    store = open_store(f"s3://{s3.bucket}/own/data", s3_options=s3.options)
    address = Address(bucket=s3.bucket, prefix=prefix.encode())
    source = BucketTree(open_bucket(s3.bucket, s3_options=s3.options), address)
    other = open_bucket(s3.bucket, s3_options=s3.options | {"endpoint_url": "http://127.0.0.1:9"})

    refuse_own_places(BucketTree(other, address), {}, store)
    if not overlaps:
        refuse_own_places(source, {"anchor": store}, store)
        return
    with pytest.raises(InputError, match=f"overlaps the store, s3://{s3.bucket}/own/data/"):
        refuse_own_places(source, {}, store)


def test_formats(s3):
    """Format 2 is used where versions are pinned and nowhere else."""
    put(s3, {"a": b"words"})
    assert f'"format":"{FORMAT}"'.encode() in manifest(tree(s3))
    keep_versions(s3)
    assert f'"format":"{PINNED}"'.encode() in manifest(tree(s3))
