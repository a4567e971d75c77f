"""A new version rests on whole objects only, and a source is never what this program itself writes."""

from __future__ import annotations

import hashlib
import io

import pytest
from tests.support.data_track import write_tree

from pretrain_archive.data import layout
from pretrain_archive.data.buckets import Address, BucketTree
from pretrain_archive.data.places import refuse_own_places
from pretrain_archive.data.snapshots import manifest_key, versions
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import InputError, StorageError
from pretrain_archive.storage.factory import open_bucket, open_store


def damage(store, key: str, content: bytes) -> None:
    """Put other bytes under ``key``."""
    store.delete(key)
    assert store.put_if_absent(key, io.BytesIO(content))


@pytest.mark.parametrize(
    "content", [b"words 2\n", b"more words than before\n", b""], ids=["size", "more", "empty"]
)
def test_no_version_is_born_broken(store, snap, ledger, tmp_path, content):
    """A damaged object that a new version would rest on is named, and no version is made; moved away, all is whole."""
    root = write_tree(tmp_path / "in", {b"a": b"words 1\n", b"b": b"other\n", b"twin": b"words 1\n"})
    first = snap(store, root)
    digest = "sha256:" + hashlib.sha256(b"words 1\n").hexdigest()
    damage(store, layout.blob_key(digest), content)
    (root / "new").write_bytes(b"new\n")

    with pytest.raises(StorageError, match=digest.removeprefix("sha256:")) as caught:
        snap(store, root)
    assert ([1], 1) == (versions(store, "corpus"), len(list(ledger.records(kinds=["snapshot.created"]))))
    assert "move it away" in caught.value.hint

    store.delete(layout.blob_key(digest))
    second = snap(store, root)
    assert (1, 2) == (first.version, second.version)
    assert ["verified"] * 2 == [verify_snapshot(store, "corpus", n).verdict for n in (1, 2)]


def test_a_damaged_manifest_names_no_new_version(files, snap, tmp_path):
    """Content that was stored before under another name: its damaged manifest is found."""
    root = write_tree(tmp_path / "in", {b"a": b"words\n"})
    first = snap(files, root)
    damage(files, manifest_key(first.manifest_digest), b"{}")

    with pytest.raises(StorageError, match="holds 2 bytes"):
        snap(files, root, name="other")
    assert [] == versions(files, "other")


def test_each_object_is_proven_once(files, snap, tmp_path, monkeypatch):
    """Objects of this call are not read again, those of earlier ones once each, and none where nothing changed."""
    opened = []
    root = write_tree(tmp_path / "in", {b"a": b"words\n", b"b": b"words\n", b"c": b"other\n"})
    real = files.open
    monkeypatch.setattr(files, "open", lambda key: opened.append(key) or real(key))

    snap(files, root)
    assert [] == [key for key in opened if key.startswith("blobs/")]
    snap(files, root)
    assert [] == [key for key in opened if key.startswith("blobs/")]
    (root / "d").write_bytes(b"new\n")
    snap(files, root)
    assert 2 == len([key for key in opened if key.startswith("blobs/")])


@pytest.mark.parametrize(
    "source", [".", "store", "store/blobs", "work", "work/runs", "ledger.db", "link", "ledger.key"]
)
def test_own_places_are_refused(files, tmp_path, source):
    """Around, inside or equal, also through a link: both paths are named and nothing is written."""
    (tmp_path / "store/blobs").mkdir(parents=True)
    (tmp_path / "work/runs").mkdir(parents=True)
    (tmp_path / "link").symlink_to("store")
    own = {
        "ledger": tmp_path / "ledger.db",
        "signing key": tmp_path / "ledger.key",
        "work folder": tmp_path / "work",
    }
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(InputError) as caught:
        refuse_own_places(str(tmp_path / source).encode(), own, files)

    resolved = (tmp_path / source).resolve()
    assert str(resolved) in str(caught.value)
    assert any(str(place) in str(caught.value) for place in (*own.values(), tmp_path / "store"))
    assert before == sorted(tmp_path.rglob("*"))


def test_other_places_are_fine(files, tmp_path):
    """A neighbour whose name begins the same is no overlap."""
    refuse_own_places(str(tmp_path / "store2").encode(), {"work folder": tmp_path / "work"}, files)
    refuse_own_places(str(tmp_path / "wor").encode(), {"work folder": tmp_path / "work"}, None)


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        pytest.param("http://localhost:9000", "http://127.0.0.1:9000", True, id="this machine"),
        pytest.param("http://LOCALHOST:9000", "http://[::1]:9000/", True, id="case and IPv6"),
        pytest.param("https://minio.example", "https://MINIO.example:443", True, id="the scheme's own port"),
        pytest.param("http://minio.example", "https://minio.example", False, id="other ports"),
        pytest.param("http://localhost:9000", "http://localhost:9001", False, id="two services of a machine"),
        pytest.param("https://s3.amazonaws.com", "https://s3.eu-west-1.amazonaws.com", True, id="Amazon"),
    ],
)
def test_a_service_by_another_name_is_the_same(ours, theirs, same):
    """A source in the store's own part of a bucket is refused, however the service is called there."""
    keys = {"region_name": "us-east-1", "aws_access_key_id": "k", "aws_secret_access_key": "s"}
    store = open_store("s3://bucket/own", s3_options=keys | {"endpoint_url": ours})
    bucket = open_bucket("bucket", s3_options=keys | {"endpoint_url": theirs})
    tree = BucketTree(bucket, Address(bucket="bucket", prefix=b"own/in/"))

    if same:
        with pytest.raises(InputError, match="overlaps the store"):
            refuse_own_places(tree, {}, store)
    else:
        refuse_own_places(tree, {}, store)
