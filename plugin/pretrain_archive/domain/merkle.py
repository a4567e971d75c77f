"""Merkle tree of RFC 6962 section 2.1 (SHA-256 with domain separation): roots and proofs.

A leaf is ``SHA-256(0x00 || data)``, a node ``SHA-256(0x01 || left || right)``; the empty tree's root is
``SHA-256("")``. :class:`Frontier` keeps the right edge of the tree, so that a root is brought forward in
time and space proportional to the logarithm of its size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


def leaf_hash(data: bytes) -> bytes:
    """Hash of a leaf, 32 bytes."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an inner node, 32 bytes."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(slots=True)
class Frontier:
    """The roots of the full subtrees along the right edge, largest first, and the tree's size."""

    size: int = 0
    stack: list[bytes] = field(default_factory=list)

    def add(self, leaf: bytes) -> None:
        """Add the next leaf hash."""
        position = self.size
        while position & 1:
            leaf = node_hash(self.stack.pop(), leaf)
            position >>= 1
        self.stack.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """The root over all leaves that were added."""
        if not self.stack:
            return hashlib.sha256(b"").digest()
        root = self.stack[-1]
        for left in reversed(self.stack[:-1]):
            root = node_hash(left, root)
        return root


def root_of(leaves: Iterable[bytes]) -> bytes:
    """The root over leaf hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.add(leaf)
    return frontier.root()


def _split(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << (size - 1).bit_length() - 1


SubtreeRoot = Callable[[int, int], bytes]
"""Returns the root of leaves ``start`` (included) to ``end`` (excluded)."""


def subtree_reader(leaves: list[bytes]) -> SubtreeRoot:
    """A :data:`SubtreeRoot` over leaf hashes in memory, computed once per full subtree."""
    known: dict[tuple[int, int], bytes] = {}

    def root(start: int, end: int) -> bytes:
        if end - start == 1:
            return leaves[start]
        found = known.get((start, end))
        if found is None:
            middle = start + _split(end - start)
            found = known[start, end] = node_hash(root(start, middle), root(middle, end))
        return found

    return root


def inclusion_proof(subtree: SubtreeRoot, index: int, size: int) -> list[bytes]:
    """Audit path of leaf ``index`` in the tree of ``size`` leaves (RFC 6962 section 2.1.1), nearest first."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(subtree(middle, end))
            end = middle
        else:
            path.append(subtree(start, middle))
            start = middle
    return path[::-1]


def root_from_inclusion(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """Root that ``path`` leads to from ``leaf`` (RFC 9162 section 2.1.3.2); ``ValueError`` if ill-formed."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    number, last, result = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            raise ValueError("the proof is too long")
        if number & 1 or number == last:
            result = node_hash(sibling, result)
            while not number & 1 and number:
                number >>= 1
                last >>= 1
        else:
            result = node_hash(result, sibling)
        number >>= 1
        last >>= 1
    if last:
        raise ValueError("the proof is too short")
    return result
