"""The Merkle tree against a naive reading of RFC 6962, in generated cases."""

from __future__ import annotations

import hashlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain_archive.domain.merkle import (
    Frontier,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root_from_inclusion,
    root_of,
    subtree_reader,
)

LARGEST = 70


def naive_root(data: list[bytes]) -> bytes:
    """MTH of RFC 6962 section 2.1, as it stands there."""
    if not data:
        return hashlib.sha256().digest()
    if len(data) == 1:
        return hashlib.sha256(b"\x00" + data[0]).digest()
    k = 1
    while k * 2 < len(data):
        k *= 2
    return hashlib.sha256(b"\x01" + naive_root(data[:k]) + naive_root(data[k:])).digest()


def naive_path(m: int, data: list[bytes]) -> list[bytes]:
    """PATH of RFC 6962 section 2.1.1, as it stands there."""
    if len(data) == 1:
        return []
    k = 1
    while k * 2 < len(data):
        k *= 2
    if m < k:
        return [*naive_path(m, data[:k]), naive_root(data[k:])]
    return [*naive_path(m - k, data[k:]), naive_root(data[:k])]


def entries(size: int) -> list[bytes]:
    """Entries of different lengths, an empty one among them."""
    return [b"entry" * (number % 3) + bytes([number]) * (number > 0) for number in range(size)]


def leaves(size: int) -> list[bytes]:
    """The leaf hashes of :func:`entries`."""
    return [leaf_hash(entry) for entry in entries(size)]


@pytest.mark.parametrize(
    ("size", "root"),
    [
        pytest.param(0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", id="empty"),
        pytest.param(1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d", id="one empty entry"),
    ],
)  # fmt: skip
def test_published_roots(size, root):
    """The two roots that everybody knows: no entry, and one empty entry."""
    assert root == root_of([leaf_hash(b"")] * size).hex()


@pytest.mark.parametrize("size", range(LARGEST + 1))
def test_root(size):
    """The root equals the naive one, also when leaves are added one by one."""
    frontier = Frontier()
    for leaf in leaves(size):
        frontier.add(leaf)

    assert naive_root(entries(size)) == root_of(leaves(size)) == frontier.root()
    assert (size, size.bit_count()) == (frontier.size, len(frontier.stack))


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=8), max_size=200))
def test_generated_root(data):
    """Any entries give the naive root."""
    assert naive_root(data) == root_of(leaf_hash(entry) for entry in data)


@pytest.mark.parametrize("size", range(1, LARGEST + 1))
def test_every_inclusion_proof(size):
    """Every proof of every leaf equals the naive one and leads to the root."""
    data, hashes = entries(size), leaves(size)
    read, root = subtree_reader(hashes), naive_root(data)
    for index in range(size):
        path = inclusion_proof(read, index, size)
        assert naive_path(index, data) == path
        assert root == root_from_inclusion(hashes[index], index, size, path)


def leads(leaf: bytes, index: int, size: int, path: list[bytes], root: bytes) -> bool:
    """Whether a proof is accepted."""
    try:
        return root_from_inclusion(leaf, index, size, path) == root
    except ValueError:
        return False


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 31, 32, 33, 64, 70])
def test_wrong_proofs(size):
    """A bit, a sibling, the place, the size or the leaf changed: none of them leads to the root."""
    rng = random.Random(size)
    hashes = leaves(size)
    read, root = subtree_reader(hashes), root_of(hashes)
    for index in range(size):
        path, leaf = inclusion_proof(read, index, size), hashes[index]
        wrong: list[tuple[bytes, int, int, list[bytes]]] = [
            (leaf_hash(b"forged"), index, size, path),
            (leaf, index, size, [*path, rng.randbytes(32)]),
            *((leaf, index, size, path[:n] + path[n + 1 :]) for n in range(len(path))),
            *((leaf, other, size, path) for other in range(-1, size + 1) if other != index),
        ]
        for n in range(len(path)):
            flipped = bytearray(path[n])
            flipped[rng.randrange(32)] ^= 1 << rng.randrange(8)
            wrong.append((leaf, index, size, [*path[:n], bytes(flipped), *path[n + 1 :]]))
            if n and path[n] != path[n - 1]:
                wrong.append((leaf, index, size, [*path[: n - 1], path[n], path[n - 1], *path[n + 1 :]]))
        for case in wrong:
            assert not leads(*case, root), case[1:3]


def test_node_is_no_leaf():
    """A node cannot be passed off as an entry: the two are hashed apart."""
    left, right = leaves(2)

    assert node_hash(left, right) != leaf_hash(left + right)
    assert root_of([left, right]) != root_of([leaf_hash(left + right)])


@pytest.mark.parametrize("index", [-1, 3, 4])
def test_outside_the_tree(index):
    """A leaf outside the tree has no proof."""
    with pytest.raises(ValueError, match="is not in a tree of 3"):
        inclusion_proof(subtree_reader(leaves(3)), index, 3)
    with pytest.raises(ValueError, match="is not in a tree of 3"):
        root_from_inclusion(leaves(1)[0], index, 3, [])


@pytest.mark.parametrize(
    ("path", "text"),
    [pytest.param([], "too short", id="short"), pytest.param([b"\x00" * 32] * 3, "too long", id="long")],
)
def test_proof_of_wrong_length(path, text):
    """A proof of the wrong length says so."""
    with pytest.raises(ValueError, match=text):
        root_from_inclusion(leaves(1)[0], 0, 4, path)
