"""Roots and proofs of the log, read from the database with few rows.

``node`` keeps the root of every full subtree of 256, 65,536, … leaves. A tile is 256 hashes of one level:
leaves come from ``record``, higher ones from ``node``. The root of any size and a proof of any leaf need at
most one or two tiles per level. What is read here is not trusted: sealing and the audit compute it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.domain.merkle import Frontier, inclusion_proof, node_hash
from pretrain_archive.ledger.engine import Session
from pretrain_archive.ledger.rows import plain_bytes

TILE = 256
TILE_BITS = 8
_KEPT_TILES = 2048
"""With the trees over them about 0.1 GB."""

_LEAVES = "SELECT position, leaf FROM pretrain_archive_record WHERE position >= ? AND position < ? ORDER BY position"
_NODES = (
    "SELECT number, hash FROM pretrain_archive_node "
    "WHERE level = ? AND number >= ? AND number < ? ORDER BY number"
)
_INSERT_NODE = "INSERT INTO pretrain_archive_node (level, number, hash) VALUES (?, ?, ?)"


class StoredTree:
    """The Merkle tree as the rows of one transaction show it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tiles: OrderedDict[tuple[int, int], list[dict[int, bytes]]] = OrderedDict()
        self._known: dict[tuple[int, int], bytes] = {}

    def root(self, size: int) -> bytes:
        """The root over the first ``size`` leaves."""
        return self.subtree(0, size) if size else Frontier().root()

    def subtree(self, start: int, end: int) -> bytes:
        """The root of leaves ``start`` (included) to ``end`` (excluded), split as RFC 6962 demands."""
        width = end - start
        found = self._known.get((start, end))
        if found is None and width & (width - 1) == 0 and start % width == 0:
            return self._full(start, width.bit_length() - 1)
        if found is None:
            middle = start + (1 << (width - 1).bit_length() - 1)
            found = self._known[start, end] = node_hash(
                self.subtree(start, middle), self.subtree(middle, end)
            )
        return found

    def _full(self, start: int, bits: int) -> bytes:
        """The root of the full subtree of ``1 << bits`` leaves from ``start``: one node of a tile's own tree."""
        level, height = divmod(bits, TILE_BITS)
        number = start >> bits
        rows = self._tile(level, number << height >> TILE_BITS)
        while len(rows) <= height:
            rows.append(_parents(rows[-1]))
        if number not in rows[height]:
            raise _missing(level, number << height, (number + 1) << height, rows[0])
        return rows[height][number]

    def frontier(self, size: int) -> Frontier:
        """The right edge of the tree of ``size`` leaves, ready to be brought forward."""
        stack, start = [], 0
        for bit in reversed(range(size.bit_length())):
            if size >> bit & 1:
                stack.append(self.subtree(start, start + (1 << bit)))
                start += 1 << bit
        return Frontier(size=size, stack=stack)

    def proof(self, position: int, size: int) -> list[str]:
        """The hex inclusion proof of a leaf in the tree of ``size`` leaves, nearest sibling first."""
        return [sibling.hex() for sibling in inclusion_proof(self.subtree, position, size)]

    def _tile(self, level: int, tile: int) -> list[dict[int, bytes]]:
        """The hashes of a tile by number, and above them the rows of its tree that were asked for."""
        rows = self._tiles.get((level, tile))
        if rows is None:
            first, last = tile * TILE, (tile + 1) * TILE
            found = (
                self._session.all(_NODES, (level, first, last))
                if level
                else self._session.all(_LEAVES, (first, last))
            )
            rows = self._tiles[level, tile] = [_hashes(found)]
            if len(self._tiles) > _KEPT_TILES:
                self._tiles.popitem(last=False)
        return rows


def _parents(row: Mapping[int, bytes]) -> dict[int, bytes]:
    """The row above: a node for each pair of which both are there."""
    return {
        number >> 1: node_hash(left, row[number + 1])
        for number, left in row.items()
        if not number & 1 and number + 1 in row
    }


def _missing(level: int, first: int, last: int, known: Mapping[int, bytes]) -> LedgerError:
    """The first hash between ``first`` and ``last`` that a tile lacks."""
    number = next(n for n in range(first, last) if n not in known)
    what = f"record at position {number}" if level == 0 else f"tree node {level}/{number}"
    return LedgerError(f"The log is damaged: its {what} is missing.", hint="Run the ledger's audit.")


def _hashes(rows: list[tuple[Any, ...]]) -> dict[int, bytes]:
    """Hashes by number; what is no hash is left out, and so is missing."""
    found = {int(number): plain_bytes(value) for number, value in rows}
    return {number: value for number, value in found.items() if value is not None}


def full_tile(hashes: list[bytes]) -> bytes:
    """The root over a full tile."""
    while len(hashes) > 1:
        hashes = [node_hash(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
    return hashes[0]


def store_nodes(session: Session, new: Mapping[int, bytes]) -> None:
    """Store the root of every tile that the ``new`` leaves (by position, already inserted) complete."""
    fresh: Mapping[int, bytes] = new
    level = 0
    while fresh:
        done: dict[int, bytes] = {}
        for number in (n // TILE for n in fresh if n % TILE == TILE - 1):
            done[number] = full_tile(_completed(session, level, number, fresh))
        session.many(_INSERT_NODE, [(level + 1, number, value) for number, value in done.items()])
        fresh, level = done, level + 1


def _completed(session: Session, level: int, number: int, fresh: Mapping[int, bytes]) -> list[bytes]:
    """All 256 hashes of a tile that has just become full; older ones are read."""
    first, last = number * TILE, (number + 1) * TILE
    known = {n: fresh[n] for n in range(first, last) if n in fresh}
    if len(known) < TILE:
        rows = session.all(_NODES, (level, first, last)) if level else session.all(_LEAVES, (first, last))
        known = _hashes(rows) | known
    if len(known) != TILE:
        raise LedgerError(
            f"The log is damaged: {TILE - len(known)} hashes of level {level} before {last} are missing.",
            hint="Run the ledger's audit; nothing was written.",
        )
    return [known[n] for n in range(first, last)]
