"""The stored tree: the same roots and proofs as the whole tree, with work that hardly grows with the log."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import pytest

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.domain.merkle import Frontier, inclusion_proof, node_hash
from pretrain_archive.ledger import tree as stored
from pretrain_archive.ledger.tree import TILE, StoredTree, full_tile

MANY = 3 * TILE + 77
LARGE = TILE * TILE + 5 * TILE + 3


def leaves(size: int) -> list[bytes]:
    """Hashes of ``size`` leaves."""
    return [hashlib.sha256(b"%d" % n).digest() for n in range(size)]


class Rows:
    """The rows that the tree reads, with what is missing of them."""

    def __init__(self, hashes: list[bytes]) -> None:
        self.rows = {0: dict(enumerate(hashes))}
        level = 0
        while len(self.rows[level]) >= TILE:
            row = self.rows[level]
            self.rows[level + 1] = {
                n: full_tile([row[n * TILE + i] for i in range(TILE)]) for n in range(len(row) // TILE)
            }
            level += 1

    def all(self, text: str, args: tuple[int, ...]) -> list[tuple[int, bytes]]:
        """Rows of one level between two numbers."""
        level = args[0] if "level" in text else 0
        row = self.rows.get(level, {})
        return [(n, row[n]) for n in range(*args[-2:]) if n in row]


def tree_over(rows: Rows) -> StoredTree:
    """A tree over rows."""
    session: Any = rows
    return StoredTree(session)


def whole(hashes: list[bytes], start: int, end: int) -> bytes:
    """A subtree's root by the definition of RFC 6962."""
    if end - start == 1:
        return hashes[start]
    middle = start + (1 << (end - start - 1).bit_length() - 1)
    return node_hash(whole(hashes, start, middle), whole(hashes, middle, end))


def test_roots_frontiers_and_proofs_are_those_of_the_whole_tree() -> None:
    """For sizes around every edge of a tile, and for some between."""
    hashes = leaves(MANY)
    sizes = {
        1,
        2,
        3,
        TILE - 1,
        TILE,
        TILE + 1,
        2 * TILE,
        2 * TILE + 128,
        MANY,
        *random.Random(3).sample(range(1, MANY), 20),
    }
    for size in sorted(sizes):
        tree, root = tree_over(Rows(hashes)), whole(hashes, 0, size)
        assert root == tree.root(size)
        assert root == tree.frontier(size).root()
        for position in {0, size // 2, size - 1}:
            expected = inclusion_proof(lambda start, end: whole(hashes, start, end), position, size)
            assert [sibling.hex() for sibling in expected] == tree.proof(position, size)


def test_no_leaves() -> None:
    """The empty tree has the root that the standard gives it."""
    assert Frontier().root() == tree_over(Rows([])).root(0)


def test_work_follows_from_tiles_and_not_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A root and the proofs of a run's sixty records: two tiles of each of three levels, each hashed once."""
    hashed = 0

    def counted(left: bytes, right: bytes) -> bytes:
        nonlocal hashed
        hashed += 1
        return node_hash(left, right)

    rows = Rows(leaves(LARGE))
    monkeypatch.setattr(stored, "node_hash", counted)
    tree = tree_over(rows)
    tree.root(LARGE)
    for position in range(40_000, 40_060):
        tree.proof(position, LARGE)
    assert 0 < hashed <= 6 * TILE


@pytest.mark.parametrize(
    ("level", "number", "named"),
    [
        pytest.param(0, MANY - 2, f"record at position {MANY - 2}", id="leaf"),
        pytest.param(1, 1, "tree node 1/1", id="node"),
    ],
)
def test_what_is_missing_is_named(level: int, number: int, named: str) -> None:
    """A row that is gone ends the reading of the tree; it is never hashed around."""
    rows = Rows(leaves(MANY))
    del rows.rows[level][number]
    with pytest.raises(LedgerError, match=named):
        tree_over(rows).root(MANY)
