"""What must not be deleted now, asked again right before each deletion."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.world import observe


def still_free(ledger: Ledger, refs: Collection[str]) -> Mapping[str, str]:
    """Of ``refs``, those that may not be deleted now, each with the reason; one that is left out is free.

    Reads the ledger as it is now. A reference that the ledger does not know is not free.
    """
    world = observe(ledger, ())
    known = {subject.id: subject for subject in world.subjects}
    found: dict[str, str] = {}
    for ref in refs:
        subject = known.get(ref)
        if subject is None:
            found[ref] = "its tombstone stands" if ref in world.tombstones else "no record names it"
        elif subject.run_state != "closed":
            found[ref] = f"its run is {subject.run_state}, not closed"
        elif subject.selected_by or subject.referenced_by:
            found[ref] = f"used by {', '.join((*subject.selected_by, *subject.referenced_by))}"
        elif subject.replaced_by:
            found[ref] = f"its location now holds {subject.replaced_by}"
    return found
