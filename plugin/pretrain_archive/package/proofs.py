"""One compact proof for all records of a package: leaf hashes and the roots of what lies between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from pretrain_archive.domain.errors import PackageError
from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.port import Ledger, SignedCheckpoint

FORMAT = "pretrain-archive/proofs/1"


def multi_proof(ledger: Ledger, records: Sequence[Record], checkpoint: SignedCheckpoint) -> dict[str, Any]:
    """The content of ``proofs.json`` for ``records`` (sorted by position) in the tree of ``checkpoint``.

    ``hashes`` are the roots of the largest subtrees that hold none of the records, left to right: shared
    once instead of once per record. Each is a sibling on the way from some record up to the root, so that the
    single proof of that record holds it: the ledger is asked for those proofs alone.
    """
    positions = [record.position for record in records]
    if not positions or positions[-1] >= checkpoint.size:
        raise PackageError("the signed checkpoint does not cover every record of the run.")
    wanted = list(_without_records(positions, checkpoint.size))
    paths = ledger.proofs(sorted({witness for _, witness in wanted}), size=checkpoint.size)
    nodes: dict[tuple[int, int], str] = {}
    for position, path in paths.items():
        nodes.update(_siblings(position, checkpoint.size, path))
    return {
        "format": FORMAT,
        "size": checkpoint.size,
        "leaves": [[record.position, record.kind, record.leaf] for record in records],
        "hashes": [nodes[subtree] for subtree, _ in wanted],
    }


def _without_records(positions: Sequence[int], size: int) -> Iterator[tuple[tuple[int, int], int]]:
    """The largest subtrees without any of ``positions``, left to right, each with a position in its sibling."""
    stack = [((0, size), (0, size))]
    while stack:
        (start, end), beside = stack.pop()
        first, last = bisect_left(positions, start), bisect_left(positions, end)
        if first == last:
            yield (start, end), positions[bisect_left(positions, beside[0])]
        elif last - first < end - start:  # a subtree that is full of records needs no node
            left, right = (start, middle := _middle(start, end)), (middle, end)
            stack += [(right, left), (left, right)]


def _middle(start: int, end: int) -> int:
    return start + (1 << (end - start - 1).bit_length() - 1)


def _siblings(position: int, size: int, path: list[str]) -> dict[tuple[int, int], str]:
    """The subtrees that a single proof names: from the root down, the proof read from its end."""
    found = {}
    start, end = 0, size
    for node in reversed(path):
        middle = _middle(start, end)
        if position < middle:
            found[middle, end] = node
            end = middle
        else:
            found[start, middle] = node
            start = middle
    return found
