"""Proving records against a signed checkpoint: whoever rewrote a row and its leaf cannot fit it to the root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pretrain_archive.domain.merkle import leaf_hash, node_hash
from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.port import Ledger, NeverSealedError, RewrittenError, SignedCheckpoint

_Node = tuple[int, int]
"""Level (0 are leaves) and number of a node: the root over the leaves ``number << level`` and on that there are."""


def sealed_faults(ledger: Ledger, records: Sequence[Record]) -> tuple[SignedCheckpoint | None, list[str]]:
    """Seal, and say what :func:`unproven` finds in ``records`` by that checkpoint.

    No checkpoint where the log was never sealed and cannot be sealed here: that proves nothing and faults nothing.
    Where the log does not fit an older checkpoint, the rows are named by that one.
    """
    if faults := [*_edited(records), *_unlinked(records)]:
        return None, faults
    try:
        checkpoint = ledger.seal()
    except NeverSealedError:
        return None, []
    except RewrittenError as problem:
        faults = unproven(ledger, records, problem.checkpoint)
        if not faults:
            raise
        return None, [*faults, problem.message]
    return checkpoint, unproven(ledger, records, checkpoint)


def unproven(ledger: Ledger, records: Iterable[Record], checkpoint: SignedCheckpoint) -> list[str]:
    """Say which of ``records`` the log of ``checkpoint`` does not hold as they were read; empty if it holds all.

    ``records`` are whole streams from their beginning; ``checkpoint`` must be believed already (``Ledger.seal``
    returns only such). Records newer than it are left out of the proofs; the links between the records of a
    stream are checked for all, which finds the row itself where its leaf was rewritten too. Nodes that were
    proved once serve every other record, so that the work grows with the number of records.
    """
    ordered = sorted(records, key=lambda record: record.position)
    if faults := [*_edited(ordered), *_unlinked(ordered)]:
        return faults
    covered = [record for record in ordered if record.position < checkpoint.size]
    if not covered:
        return []
    paths = ledger.proofs([record.position for record in covered], size=checkpoint.size)
    proved: dict[_Node, bytes] = {}
    return _named([r for r in covered if not _is_proved(r, paths[r.position], checkpoint, proved)])


def _named(failed: Sequence[Record]) -> list[str]:
    """Words on the records that failed: the newest, to which no later record holds the mirror, and the oldest.

    Proofs are made from the leaves as they stand, so that one rewritten leaf fails its neighbours too.
    """
    ends = failed[-1:] if len(failed) < 2 else [failed[-1], failed[0]]
    words = [
        f"record {record.record_id} ({record.kind}) at position {record.position} is not in the signed log: "
        "it, or a row near it, was changed after it was signed"
        for record in ends
    ]
    left = len(failed) - len(ends)
    return [*words, f"nor are {left} records between them"] if left > 0 else words


def _edited(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        if leaf_hash(record.stored).hex() != record.leaf:
            yield f"record {record.record_id} ({record.kind}) at position {record.position} was edited"


def _unlinked(records: Sequence[Record]) -> Iterator[str]:
    """Records of one stream that stand next to each other and do not follow each other."""
    last: dict[str, Record] = {}
    for record in records:
        before = last.get(record.stream)
        last[record.stream] = record
        if before is None:
            if record.sequence:
                yield f"the records before {record.record_id} of {record.stream} are missing"
        elif record.sequence > before.sequence + 1:
            yield f"a record between {before.record_id} and {record.record_id} of {record.stream} is missing"
        elif record.sequence <= before.sequence or record.previous != before.leaf:
            yield (
                f"record {before.record_id} ({before.kind}) at position {before.position} was changed: "
                f"record {record.record_id} after it was written on other bytes"
            )


def _is_proved(
    record: Record, path: Sequence[str], checkpoint: SignedCheckpoint, proved: dict[_Node, bytes]
) -> bool:
    """Walk from the leaf to a node that was proved before, or to the root; keep what the walk proves."""
    level, number, last = 0, record.position, checkpoint.size - 1
    value = bytes.fromhex(record.leaf)
    seen: dict[_Node, bytes] = {}
    for sibling in path:
        if last and number == last:  # the right edge: a node without a sibling is its own parent
            while not number & 1 and number:
                level, number, last = level + 1, number >> 1, last >> 1
        known = proved.get((level, number))
        if known is not None:
            break
        if last == 0:
            return False
        other = bytes.fromhex(sibling)
        seen[level, number] = value
        seen[level, number ^ 1] = other
        value = node_hash(other, value) if number & 1 else node_hash(value, other)
        level, number, last = level + 1, number >> 1, last >> 1
    else:
        known = bytes.fromhex(checkpoint.root) if last == 0 else None
    if value != known:
        return False
    proved.update(seen)
    return True
