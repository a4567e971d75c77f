"""What every store promises, on a folder and on an S3 server over HTTP."""

from __future__ import annotations

import hashlib
import io
import threading

import pytest

from pretrain_archive.domain.errors import StorageError
from pretrain_archive.storage.port import ObjectInfo

# One part more than a single S3 request takes, and not a multiple of the part size.
LARGE = (bytes(range(256)) * 4096 * 20)[:20_000_001]


def put(store, key: str, content: bytes) -> bool:
    """Store bytes."""
    return store.put_if_absent(key, io.BytesIO(content))


def read(store, key: str) -> bytes:
    """Read an object whole."""
    with store.open(key) as stream:
        return stream.read()


def test_an_object_is_written_once(store):
    """The first writer stores, the second is told so and changes nothing."""
    assert put(store, "a/b.txt", b"first") is True
    assert put(store, "a/b.txt", b"second") is False
    assert b"first" == read(store, "a/b.txt")
    assert ObjectInfo(key="a/b.txt", size=5) == store.stat("a/b.txt")


@pytest.mark.parametrize("content", [pytest.param(b"", id="empty"), pytest.param(LARGE, id="large")])
def test_bytes_come_back_as_they_went_in(store, content):
    """Empty and large objects, which take other ways on S3, keep every byte and are written once."""
    assert put(store, "x", content) is True
    assert hashlib.sha256(content).digest() == hashlib.sha256(read(store, "x")).digest()
    assert put(store, "x", content + b"!") is False
    assert len(content) == store.stat("x").size


def test_reading_in_pieces(store):
    """A stream gives lines and pieces across block borders."""
    put(store, "x", b"one\ntwo\nthree")

    with store.open("x") as stream:
        assert [b"one\n", b"tw", b"o\nthree"] == [stream.readline(), stream.read(2), stream.read()]


def test_a_list_is_sorted_by_key_and_complete(store):
    """Keys come in the order of their bytes, also where a folder and a file share a beginning."""
    keys = ["a/x", "a-b", "a.b", "a/b/c", "é", "a/b.c", "z/1", "zz", "z/10", "z/2"]
    for key in keys:
        put(store, key, key.encode())

    assert sorted(keys) == [info.key for info in store.list("")]
    assert ["a/b.c", "a/b/c", "a/x"] == [info.key for info in store.list("a/")]
    assert ["z/1", "z/10"] == [info.key for info in store.list("z/1")]
    assert [] == list(store.list("nothing/"))


@pytest.mark.parametrize(
    "key",
    [
        "k/a b.txt",
        "k/a+b.txt",
        "k/a%2Bb.txt",
        "k/a%20b.txt",
        "k/é.txt",
        "k/#x?.txt",
        "k/s;c:.txt",
        "k/-r*[1]",
    ],
)
def test_keys_are_kept_letter_by_letter(store, key):
    """A key with plus, percent, space or other marks names one object in every operation."""
    put(store, "k/a b", b"other")
    assert put(store, key, key.encode()) is True

    assert key.encode() == read(store, key)
    assert ObjectInfo(key=key, size=len(key.encode())) in list(store.list("k/"))
    store.delete(key)
    assert store.stat(key) is None


@pytest.mark.parametrize(
    "key", ["", "/a", "a//b", "a/", "../a", "a/../b", "./a", "a\nb", "a\0b", "\udcff", "k" * 300]
)
def test_a_key_that_no_store_can_hold_is_refused(store, key):
    """Keys that leave the store or lose letters are refused by every operation, and nothing is written."""
    for act in (lambda: put(store, key, b"x"), lambda: store.open(key), lambda: store.stat(key)):
        with pytest.raises(StorageError, match="storage key"):
            act()
    assert [] == list(store.list(""))


def test_what_is_not_there(store):
    """An absent object has no stat, cannot be opened, and may be deleted again."""
    assert store.stat("a/b") is None
    with pytest.raises(StorageError, match=r"a/b: cannot read: not there"):
        store.open("a/b")
    store.delete("a/b")
    put(store, "a/b", b"x")
    store.delete("a/b")
    assert store.stat("a/b") is None
    assert put(store, "a/b", b"new") is True


def test_a_location_is_an_address_of_the_object(store):
    """The address is percent-encoded and ends with the key."""
    location = store.location("k/a b%é")

    assert location.startswith(("file:///", "s3://", "memory:///"))
    assert location.endswith("/k/a%20b%25%C3%A9")


@pytest.mark.parametrize("size", [pytest.param(10, id="small"), pytest.param(9_000_000, id="in parts")])
def test_one_of_many_writers_wins(store, size):
    """Eight writers at once: one is told that it stored, and its bytes are there."""
    barrier = threading.Barrier(8)
    won: list[int] = []

    def write(number: int) -> None:
        content = bytes([number]) * size
        barrier.wait()
        if put(store, "race", content):
            won.append(number)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == len(won)
    assert bytes([won[0]]) * size == read(store, "race")


class _Breaks(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        block = super().read(size)
        if not block:
            raise RuntimeError("the source broke")
        return block


@pytest.mark.parametrize("size", [pytest.param(10, id="small"), pytest.param(20_000_000, id="in parts")])
def test_a_write_that_breaks_leaves_nothing(store, size):
    """If reading the data fails, no object and no part of one is visible, and the key is free."""
    with pytest.raises(RuntimeError, match="the source broke"):
        store.put_if_absent("x/y", _Breaks(b"a" * size))

    assert store.stat("x/y") is None
    assert [] == list(store.list(""))
    assert put(store, "x/y", b"good") is True
