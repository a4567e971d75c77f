"""Sources in a bucket of a real S3 server, against the same files in a folder."""

from __future__ import annotations

import hashlib
import io

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from moto.s3.models import s3_backends
from tests.support.buckets import (
    HARD_KEYS,
    MANY,
    entries_of,
    keep_versions,
    manifest,
    paths,
    put,
    refill,
    tree,
)
from tests.support.data_track import ACTOR, origin, write_tree

from pretrain_archive.data.globs import Filter
from pretrain_archive.data.manifest import FORMAT, PINNED, Entry, Header, read_entries
from pretrain_archive.data.snapshots import create_snapshot
from pretrain_archive.data.tree import FolderTree
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import ArchiveError, SourceError
from pretrain_archive.domain.identity import path_to_text
from pretrain_archive.storage.factory import open_store


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


NAMES = st.text(
    st.characters(exclude_characters="/\n\r\0", exclude_categories=("Cs", "Cn")), min_size=1, max_size=12
).filter(lambda name: name not in {".", ".."} and len(name.encode()) < 60)  # fmt: skip


TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=40), min_size=1, max_size=6
).filter(lambda files: not any(b.startswith(a + "/") for a in files for b in files))  # fmt: skip


HARD = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # fmt: skip


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
    assume(not any(name.startswith(key + "+") for name in files))
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


@pytest.mark.parametrize(
    ("form", "version"),
    [pytest.param(FORMAT, "v1", id="a version"), pytest.param(PINNED, None, id="no version")],
)
def test_a_manifest_of_the_other_format_is_refused(form, version):
    """A version in format 1 or a file without one in format 2 is no manifest."""
    entry = Entry(path="a", size=1, sha256="sha256:" + "0" * 64, version=version)
    lines = Header(files=1, links=0, total_bytes=1, format=form).line() + entry.line()

    with pytest.raises(ArchiveError, match="manifest cannot be read: entry 'a' has version"):
        list(read_entries(io.BytesIO(lines)))


def test_formats(s3):
    """Format 2 is used where versions are pinned and nowhere else."""
    put(s3, {"a": b"words"})
    assert f'"format":"{FORMAT}"'.encode() in manifest(tree(s3))
    keep_versions(s3)
    assert f'"format":"{PINNED}"'.encode() in manifest(tree(s3))
