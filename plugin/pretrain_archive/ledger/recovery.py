"""Going on after records were lost: a signed statement in the log of what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from pretrain_archive.domain.errors import BehindAnchorError, LedgerError
from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.kinds import LedgerRecovered
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.ledger import sealing
from pretrain_archive.ledger.anchors import AnchorError
from pretrain_archive.ledger.engine import Session
from pretrain_archive.ledger.port import SignedCheckpoint
from pretrain_archive.ledger.reading import size_of
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.ledger.tree import StoredTree
from pretrain_archive.ledger.writing import append_in, prepare


def recover(ledger: SqlLedger, *, person: str, reason: str) -> list[Record]:
    """Record every checkpoint that the database contradicts, and seal the log as it stands now.

    ``person`` is the authenticated person who answers for the loss. Returns the recovery records, none if an
    interrupted recovery was only completed. Raises ``LedgerError`` without a signing key, or where nothing
    contradicts the database.
    """
    if ledger.signer is None:
        raise LedgerError(
            "A recovery must be signed, and no signing key is readable here.",
            hint="Run it where [pretrain_archive] signing_key can be read.",
        )
    newest = _newest_statements(ledger)
    records = ledger.database.attempt(lambda: _append(ledger, newest, person=person, reason=reason))
    ledger.forget()
    ledger.seal()
    return records


def _newest_statements(ledger: SqlLedger) -> list[SignedCheckpoint]:
    """The newest believed checkpoint of every anchor that can be reached."""
    found = []
    for anchor in ledger.anchors:
        try:
            newest = anchor.latest()
        except AnchorError:
            continue
        if newest is not None and sealing.believed(newest, ledger.keys):
            found.append(newest)
    return found


def _append(
    ledger: SqlLedger, newest: Sequence[SignedCheckpoint], *, person: str, reason: str
) -> list[Record]:
    with ledger.database.transaction(write=True) as session:
        stored = sealing.last_checkpoint(session)
        statements = [*newest, *([stored[1]] if stored else [])]
        contradicting = {(c.size, c.root): c for c in statements if _contradicts(session, c)}
        if not contradicting:
            raise LedgerError("There is nothing to recover: no checkpoint contradicts the database.")
        drafts = [
            _draft(session, checkpoint, person=person, reason=reason, ordinal=ordinal)
            for ordinal, checkpoint in enumerate(contradicting.values())
            if not sealing.superseded(session, checkpoint)
        ]
        return append_in(session, [prepare(draft) for draft in drafts], at_least=None)


def _contradicts(session: Session, checkpoint: SignedCheckpoint) -> bool:
    try:
        sealing.check_against(session, checkpoint, source="")
    except BehindAnchorError:
        return True
    return False


def _draft(
    session: Session, checkpoint: SignedCheckpoint, *, person: str, reason: str, ordinal: int
) -> Draft:
    size = size_of(session)
    payload = LedgerRecovered(
        anchored_size=checkpoint.size,
        anchored_root=checkpoint.root,
        database_size=size,
        database_root=StoredTree(session).root(size).hex(),
        reason=reason,
        person=person,
    )
    return Draft(
        stream="ledger",
        kind="ledger.recovered",
        payload=payload.to_json(),
        actor=Actor(type="person", name=person),
        origin=Origin(dag_id="cli", dag_run_id=new_id("call"), task_id="ledger recover"),
        ordinal=ordinal,
    )
