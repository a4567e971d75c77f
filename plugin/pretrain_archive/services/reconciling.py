"""Records and storage compared both ways: for the command line and for the clean-up's report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.reconcile import Finding, Reconciled
from pretrain_archive.retention.reconcile import reconcile as compare
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.cleanup import Room

MOST_SAID = 20
"""Findings that the log of a task tells; the answer holds them all."""


def reconcile(
    ledger: Ledger, room: Room, *, roots: Iterable[Path] = (), caller: Caller | None = None
) -> Reconciled:
    """Compare everything recorded with every place of ``room`` and with what lies below ``roots``.

    Nothing is recorded, registered or deleted: each finding has a proposal, and a plan or a command carries it out.
    """
    found = compare(ledger, places=room.places, roots=roots, store=room.store)
    if caller is not None:
        caller.say(summary(found))
        for finding in found.findings[:MOST_SAID]:
            caller.say(line(finding))
        if len(found.findings) > MOST_SAID:
            caller.say(f"and {len(found.findings) - MOST_SAID} more")
    return found


def summary(found: Reconciled) -> str:
    """One line: what was checked and what differs."""
    checked = f"{found.checked.get('checkpoints', 0)} checkpoints compared with what is there"
    if found.clean:
        return f"{checked}: no difference"
    return f"{checked}: {len(found.findings)} findings, {found.ownerless_bytes:,} bytes that no record names"


def line(finding: Finding) -> str:
    """One line: what, where, and what may be done."""
    return (
        f"{finding.kind}: {finding.ref} at {finding.location}: {finding.detail} → {finding.proposal.command}"
    )
