"""Services that cut connections, throttle, list wrongly or hold keys that XML cannot carry."""

from __future__ import annotations

import errno
import hashlib
import tempfile

import pytest
from tests.support.odd_s3 import BUCKET, odd_s3

from pretrain_archive.data import fetching
from pretrain_archive.data.buckets import Address, BucketTree
from pretrain_archive.data.globs import Filter
from pretrain_archive.data.licences import object_digest
from pretrain_archive.data.tree import Listed
from pretrain_archive.data.verify import verify_snapshot
from pretrain_archive.domain.errors import SourceChangedError, SourceError, StorageError
from pretrain_archive.storage import resuming
from pretrain_archive.storage.factory import open_bucket, open_store

BIG = bytes(range(256)) * 1024

KEYS = (
    b"a b", b"a+b", b"a%2Bb", b"a%20b", "é".encode(), b"#x?", b"s;c:", b"../up", b"line\nbreak", b"cr\r", b"\x01\x07",
    b" lead", b"a//b", b"a/./b", b"a\\b", b"<&>\"'", "数据".encode(), b"\x7f",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(resuming, "PAUSE", 0.001)


def tree(odd) -> BucketTree:
    """The tree of the whole bucket."""
    return BucketTree.at(open_bucket(BUCKET, s3_options=odd.options), Address(bucket=BUCKET))


def content(found, path: bytes) -> bytes:
    """What a listed file holds."""
    (listed,) = (item for item in found.list(Filter()) if item.path == path)
    with found.open(listed) as stream:
        return stream.read()


@pytest.mark.case("S01", "S11")
@pytest.mark.parametrize("space", ["%20", "+"])
def test_every_key_is_listed_and_read(space):
    """Whichever way a service writes a space in a listing, each object holds its own key."""
    with odd_s3({key: key for key in KEYS}, space=space) as odd:
        found = tree(odd)

        listed = list(found.list(Filter()))

        assert sorted(KEYS) == [item.path for item in listed]
        for item in listed:
            with found.open(item) as stream:
                assert item.path == stream.read()


@pytest.mark.case("S09", "S11")
@pytest.mark.parametrize("page", [1, 2, 5])
@pytest.mark.parametrize("space", ["%20", "+"])
def test_every_key_of_a_versioned_bucket(space, page):
    """Wherever a page ends, each key is there once at its newest version; what ends in a delete marker is absent."""
    deleted = frozenset({b"a+b", b"line\nbreak"})
    with odd_s3({key: key for key in KEYS}, versions=True, deleted=deleted, page=page, space=space) as odd:
        listed = list(tree(odd).list(Filter()))

    assert [(key, "2") for key in sorted(KEYS) if key not in deleted] == [(i.path, i.version) for i in listed]


def test_another_version_than_the_pinned_one_is_refused():
    """A service that does not know version ids answers with the newest: it is not taken."""
    with (
        odd_s3({b"a": b"words"}, versions=True, knows_ids=False) as odd,
        pytest.raises(SourceError, match="version 2 was asked for and 9 came"),
    ):
        content(tree(odd), b"a")


@pytest.mark.case("S03")
def test_a_key_that_is_not_utf8_is_named():
    """No request can ask for it: it is refused with its bytes escaped."""
    with odd_s3({b"bad\xff": b"x"}) as odd, pytest.raises(SourceError, match="bad%FF: is not UTF-8"):
        list(tree(odd).list(Filter()))


def test_another_order_is_refused():
    """A service that does not sort would give a wrong manifest."""
    with (
        odd_s3({b"a": b"", b"b": b""}, backwards=True) as odd,
        pytest.raises(SourceError, match="/a: listed after b, expected ascending"),
    ):
        list(tree(odd).list(Filter()))


def test_a_listing_that_is_cut_is_no_whole():
    """More keys are announced and no way to them is told: that is an error and not an end."""
    with (
        odd_s3({b"a": b"", b"b": b"", b"c": b""}, says_how_to_go_on=False) as odd,
        pytest.raises(SourceError, match="the listing is cut"),
    ):
        list(tree(odd).list(Filter()))


def test_reading_goes_on_where_it_broke():
    """Connections that break again and again cost no byte and no byte twice."""
    with odd_s3({b"big": BIG}, cut_after=100_000, cuts=2) as odd:
        assert content(tree(odd), b"big") == BIG
        assert ["big", "big bytes=100000-", "big bytes=200000-"] == odd.asked


def test_a_connection_that_never_holds_is_an_error():
    """Without a byte of progress reading is given up, and the place is told."""
    with odd_s3({b"big": BIG}, cut_after=0, cuts=99) as odd:
        with pytest.raises(SourceError, match=f"reading broke off at byte 0 of {len(BIG)}"):
            content(tree(odd), b"big")
        assert resuming.RESUMES + 1 == len(odd.asked)


def test_what_was_written_between_two_connections_is_not_joined():
    """The second half comes from the object that the first came from, or not at all."""
    with (
        odd_s3({b"big": BIG}, cut_after=1000, cuts=1, rewrite_on_cut=True) as odd,
        pytest.raises(SourceChangedError, match="/big: changed while it was read"),
    ):
        content(tree(odd), b"big")


def test_nor_where_no_state_was_pinned():
    """A file that is opened by its name alone is pinned by the first answer."""
    with (
        odd_s3({b"big": BIG}, cut_after=1000, cuts=1, rewrite_on_cut=True) as odd,
        tree(odd).open(Listed(b"big", len(BIG))) as stream,
        pytest.raises(SourceChangedError),
    ):
        stream.read()


def test_a_service_without_ranges_is_no_reason_to_begin_again():
    """Bytes from the beginning are never taken for those that are missing."""
    with (
        odd_s3({b"big": BIG}, cut_after=1000, cuts=1, knows_ranges=False) as odd,
        pytest.raises(SourceError, match="does not go on at byte 1000"),
    ):
        content(tree(odd), b"big")


@pytest.mark.parametrize("in_memory", [fetching.IN_MEMORY, 3], ids=["in memory", "on disk"])
@pytest.mark.parametrize("kept", [fetching.KEPT, 10])
def test_a_copy_fetches_each_object_once(monkeypatch, snap, files, kept, in_memory):
    """And what is too large to be kept twice: for its digest, under which the second goes straight to the store."""
    monkeypatch.setattr(fetching, "KEPT", kept)
    monkeypatch.setattr(fetching, "IN_MEMORY", in_memory)
    with odd_s3({b"a": b"word", b"b": b"many more words"}) as odd:
        snap(files, tree(odd))

        assert (["a", "b"] if kept > 10 else ["a", "b", "b"]) == sorted(odd.asked)
    assert {"verified": 2, "changed": 0, "unrecorded": 0} == verify_snapshot(files, "corpus").counts


def test_a_copy_without_room_to_keep_fetches_again(monkeypatch, snap, files):
    """A full disk for what waits costs a second request, and not the snapshot."""

    class Full(tempfile.SpooledTemporaryFile):
        def write(self, _block):
            raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(fetching.tempfile, "SpooledTemporaryFile", Full)
    with odd_s3({b"a": b"word"}) as odd:
        snap(files, tree(odd))

        assert ["a", "a"] == odd.asked
    assert 1 == verify_snapshot(files, "corpus").counts["verified"]


def test_what_was_read_in_part_is_not_taken_for_the_whole():
    """A file that was not read to its end, or is listed anew with another state, is fetched again."""
    with odd_s3({b"a": b"word"}) as odd:
        once = fetching.fetched_once(tree(odd))
        [listed] = once.list(Filter())
        with once.open(listed) as stream:
            assert b"wo" == stream.read(2)
        with once.open(listed) as stream:
            assert b"word" == stream.read()
        odd.objects[b"a"] = b"next"
        [rewritten] = once.list(Filter())
        with once.open(rewritten) as stream:
            assert b"next" == stream.read()


def test_a_service_that_tells_no_size_is_an_error():
    """Nobody could say whether an answer was cut."""
    with odd_s3({b"a": b"words"}, tells_size=False) as odd:
        with pytest.raises(SourceError, match="does not say how many bytes there are"):
            content(tree(odd), b"a")
        store = open_store(f"s3://{BUCKET}", s3_options=odd.options)
        with pytest.raises(StorageError, match="does not say how many bytes there are"):
            store.open("a")


def test_throttling_is_waited_out():
    """503 SlowDown is answered by trying again."""
    with odd_s3({b"a": b"words"}, slow_downs=2) as odd:
        assert b"words" == content(tree(odd), b"a")


def test_an_endpoint_that_is_a_web_site_is_an_error():
    """An answer that is none of S3 ends in a message and not in a traceback."""
    with (
        odd_s3({}, web_page=True) as odd,
        pytest.raises(SourceError, match="cannot ask for the versioning of it: "),
    ):
        list(tree(odd).list(Filter()))


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        pytest.param("AccessDenied", "A bucket whose reader has to pay cannot be read.", id="denied"),
        pytest.param("ExpiredToken", "Renew the credentials and try again.", id="expired"),
        pytest.param("InternalFault", "Check the address", id="any other"),
    ],
)
def test_a_refusal_says_what_to_do(code, remedy):
    """The service's word for it and the remedy, while listing."""
    with odd_s3({}, refuses="no", code=code) as odd, pytest.raises(SourceError, match=code) as caught:
        list(tree(odd).list(Filter()))
    assert remedy in str(caught.value)


def test_a_key_id_that_the_service_repeats_is_not_told():
    """Neither key id nor secret stand in an error."""
    with odd_s3({}) as odd:
        odd.refuses = f"the key {odd.options['aws_access_key_id']} may not"
        with pytest.raises(SourceError, match="the key … may not") as caught:
            list(tree(odd).list(Filter()))
    assert not any(odd.options[name] in str(caught.value) for name in odd.options if name.startswith("aws_"))


def test_a_licence_that_cannot_be_read_is_not_taken_for_none():
    """What is there and cannot be had is an error; what is not there is unrecorded."""
    with odd_s3({b"LICENSE": b"may be used", b"a": b"words"}, cut_after=0, cuts=10_000) as odd:
        with pytest.raises(SourceError, match="reading broke off"):
            object_digest(tree(odd))
        odd.cuts = 0
        assert "sha256:" + hashlib.sha256(b"may be used").hexdigest() == object_digest(tree(odd))
        del odd.objects[b"LICENSE"]
        assert object_digest(tree(odd)) is None
