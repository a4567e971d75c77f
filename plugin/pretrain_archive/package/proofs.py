"""One compact proof for all records of a package: leaf hashes and the roots of what lies between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pretrain_archive.domain.errors import PackageError
from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.port import Ledger, SignedCheckpoint

FORMAT = "pretrain-archive/proofs/1"


def multi_proof(ledger: Ledger, records: Sequence[Record], checkpoint: SignedCheckpoint) -> dict[str, Any]:
    """The content of ``proofs.json`` for ``records`` (sorted by position) in the tree of ``checkpoint``.

    ``hashes`` are the roots of the largest subtrees that hold none of the records, left to right: shared
    once instead of once per record. They are taken out of the single proofs that the ledger gives.
    """
    positions = [record.position for record in records]
    if not positions or positions[-1] >= checkpoint.size:
        raise PackageError("the signed checkpoint does not cover every record of the run.")
    nodes: dict[tuple[int, int], str] = {}
    for position, path in ledger.proofs(positions, size=checkpoint.size).items():
        nodes.update(_siblings(position, checkpoint.size, path))
    hashes: list[str] = []
    _collect(nodes, positions, 0, checkpoint.size, hashes)
    return {
        "format": FORMAT,
        "size": checkpoint.size,
        "leaves": [[record.position, record.kind, record.leaf] for record in records],
        "hashes": hashes,
    }


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


def _collect(
    nodes: dict[tuple[int, int], str], positions: list[int], start: int, end: int, out: list[str]
) -> None:
    if not positions:
        out.append(nodes[start, end])
        return
    if end - start == 1:
        return
    middle = _middle(start, end)
    _collect(nodes, [at for at in positions if at < middle], start, middle, out)
    _collect(nodes, [at for at in positions if at >= middle], middle, end, out)
