"""What an anchor holds against the database: its largest believed checkpoint, and an end that nobody known wrote.

Whoever can write to an anchor can repeat an old entry or add noise, and can sign nothing. So the newest entry
says nothing: all are looked at, and the largest that a known key signed counts.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from pretrain_archive.domain.errors import LedgerError
from pretrain_archive.ledger.anchors import Anchor, Claim
from pretrain_archive.ledger.port import SignedCheckpoint
from pretrain_archive.ledger.signing import VerifyKey, signed_by

_KEPT = 64
"""Claims that are remembered on the way; only where no known key signed any of them is the anchor read again."""

Lost = frozenset[tuple[int, str]]
"""Size and root of the checkpoints that recovery records name as lost."""


class AnchorTailError(LedgerError):
    """An anchor ends with what no known key signed: nothing is written until a person has looked."""

    code = "anchor_tail"
    exit_code = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """``checkpoint`` is what the database must hold; ``fault`` says what is wrong with the anchor's end."""

    checkpoint: SignedCheckpoint | None
    fault: str


def believed(checkpoint: SignedCheckpoint, keys: Sequence[VerifyKey]) -> bool:
    """Whether a checkpoint counts: signed by a known key, or no key is known here."""
    return not keys or signed_by(checkpoint.text, keys) is not None


def standing(anchor: Anchor, keys: Sequence[VerifyKey], *, lost: Lost = frozenset()) -> Standing:
    """Read the whole anchor with bounded memory; ``AnchorError`` where it cannot be reached.

    What stands before the first entry that is named in ``lost`` went with it, and so did that entry itself.
    """
    kept, last, more = _largest(anchor, keys, lost, proved=False)
    found = next((entry for claim in kept if (entry := _entry(claim, keys)) is not None), None)
    if found is None and more:
        kept, last, _ = _largest(anchor, keys, lost, proved=True)
        found = kept[0].entry() if kept else None
    return Standing(checkpoint=found, fault=_tail_fault(last, keys))


def _largest(
    anchor: Anchor, keys: Sequence[VerifyKey], lost: Lost, *, proved: bool
) -> tuple[list[Claim], Claim | None, bool]:
    """The largest claims (``proved``: of those that are believed), largest first; the last; whether some fell out."""
    sizes = {size for size, _ in lost}
    heap: list[tuple[int, int, Claim]] = []
    met: set[tuple[int, str]] = set()
    last: Claim | None = None
    more = False
    for order, claim in enumerate(anchor.claims()):
        last = claim
        if claim.size is None:
            continue
        if claim.size in sizes and (entry := _entry(claim, keys)) is not None:
            mark = (entry.size, entry.root)
            if mark in lost:
                if mark not in met:
                    heap.clear()
                    met.add(mark)
                continue
        if proved and _entry(claim, keys) is None:
            continue
        heapq.heappush(heap, (claim.size, order, claim))
        if len(heap) > _KEPT:
            heapq.heappop(heap)
            more = True
    return [claim for _, _, claim in sorted(heap, reverse=True)], last, more


def _entry(claim: Claim, keys: Sequence[VerifyKey]) -> SignedCheckpoint | None:
    entry = claim.entry()
    return entry if entry is not None and believed(entry, keys) else None


def _tail_fault(last: Claim | None, keys: Sequence[VerifyKey]) -> str:
    if last is None:
        return ""
    entry = last.load()
    if entry is None:
        return "its last entry is not a checkpoint"
    return (
        ""
        if believed(entry, keys)
        else f"its last entry, by {entry.signer[:60]!r}, is not signed by a known key"
    )


def refuse_tail(anchor: Anchor, found: Standing) -> None:
    """Raise ``AnchorTailError`` if the anchor's end is at fault."""
    if found.fault:
        raise AnchorTailError(
            f"Nothing is written: the anchor {anchor.name} was written to by somebody who is not this log's signer; "
            f"{found.fault}.",
            hint="Look at the anchor and run 'pretrain-archive ledger verify'. If the key was changed, name its old "
            "public half in [pretrain_archive] public_keys too. If the log is whole, sign for what was found with "
            "'pretrain-archive ledger recover --reason …': the signed entry after it lets appends go on.",
        )
