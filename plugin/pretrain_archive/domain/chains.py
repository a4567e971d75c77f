"""The chain of a run's data: from the pool through each rule to the snapshot that went in. Pure, no I/O."""

from __future__ import annotations

from pretrain_archive.domain.kinds import ProcessingApplied, SnapshotCreated
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView

Link = tuple[Record, ProcessingApplied]


def pool_of(view: RunView) -> tuple[Record, SnapshotCreated] | None:
    """The newest snapshot that the run took as it was, before any of its own steps; None if there is none."""
    made = {account.output for _, account in view.all(ProcessingApplied)}
    found = [fact for fact in view.all(SnapshotCreated) if name_of(fact[1]) not in made]
    return found[-1] if found else None


def chain_of(view: RunView) -> list[Link]:
    """The applications that lead to the run's newest snapshot, first one first; empty if there were none.

    A step that was done again (a retried task) stands once, as its newest record tells it.
    """
    newest = view.latest(SnapshotCreated)
    if newest is None:
        return []
    by_output = {account.output: (record, account) for record, account in view.all(ProcessingApplied)}
    chain: list[Link] = []
    at = name_of(newest)
    while at in by_output:
        link = by_output.pop(at)
        chain.insert(0, link)
        at = link[1].input
    return chain


def name_of(snapshot: SnapshotCreated) -> str:
    """``snapshot:NAME@VERSION``."""
    return f"snapshot:{snapshot.name}@{snapshot.version}"


def told(account: ProcessingApplied) -> str:
    """One line for people: rule and version, documents in and out, and what was dropped why."""
    rule = account.rule
    dropped = [item for item in account.dropped if item.documents]
    why = "; ".join(f"{item.documents:,} {item.reason}" for item in dropped[:MOST])
    more = f"; {len(dropped) - MOST} more reasons" if len(dropped) > MOST else ""
    changed = f", {account.changed_documents:,} rewritten" if account.changed_documents else ""
    counts = f"{account.documents_in:,} → {account.documents_out:,} documents{changed}"
    return f"{rule.kind} {rule.name} v{rule.version}: {counts}{f' ({why}{more})' if why else ''}"


MOST = 6
"""Reasons that one line names; the record holds all."""
