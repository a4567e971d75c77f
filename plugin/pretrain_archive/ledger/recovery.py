"""Going on after records were lost: a signed statement in the log of what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from pretrain_archive.domain.errors import BehindAnchorError, LedgerError
from pretrain_archive.domain.identity import new_id
from pretrain_archive.domain.kinds import LedgerRecovered
from pretrain_archive.domain.merkle import Frontier
from pretrain_archive.domain.records import Actor, Draft, Origin, Record
from pretrain_archive.ledger import sealing
from pretrain_archive.ledger.anchors import AnchorError
from pretrain_archive.ledger.engine import Session
from pretrain_archive.ledger.port import SignedCheckpoint
from pretrain_archive.ledger.reading import size_of
from pretrain_archive.ledger.sql import SqlLedger
from pretrain_archive.ledger.standing import Standing, standing
from pretrain_archive.ledger.tree import StoredTree
from pretrain_archive.ledger.writing import append_in, prepare

_NOTHING = (0, Frontier().root().hex())
"""Size and root of the empty log."""


def recover(ledger: SqlLedger, *, person: str, reason: str) -> list[Record]:
    """Record every checkpoint that the database contradicts, and seal the log as it stands now.

    Where an anchor only ends with what no known key signed, the record says that nothing (size 0) was lost.

    ``person`` is the authenticated person who answers for the loss. Returns the recovery records, none if an
    interrupted recovery was only completed. Raises ``LedgerError`` without a signing key, or where nothing
    contradicts the database.
    """
    if ledger.signer is None:
        raise LedgerError(
            "A recovery must be signed, and no signing key is readable here.",
            hint="Run it where [pretrain_archive] signing_key can be read.",
        )
    newest = _standings(ledger)
    records = ledger.database.attempt(lambda: _append(ledger, newest, person=person, reason=reason))
    ledger.forget()
    sealing.seal(ledger.database, signer=ledger.signer, anchors=ledger.anchors, keys=ledger.keys, tail=False)
    return records


def _standings(ledger: SqlLedger) -> list[Standing]:
    """What every anchor that can be reached holds against the database."""
    found = []
    lost = sealing.read_lost(ledger.database)
    for anchor in ledger.anchors:
        try:
            found.append(standing(anchor, ledger.keys, lost=lost))
        except AnchorError:
            continue
    return found


def _append(ledger: SqlLedger, found: Sequence[Standing], *, person: str, reason: str) -> list[Record]:
    with ledger.database.transaction(write=True) as session:
        stored = sealing.last_checkpoint(session)
        statements = [one.checkpoint for one in found if one.checkpoint is not None]
        statements += [stored[1]] if stored else []
        lost = {(c.size, c.root): None for c in statements if _contradicts(session, c)}
        if not lost and any(one.fault for one in found):
            # Nothing was lost: the record and the signed entry after it answer for the end of an anchor alone.
            lost = {_NOTHING: None}
        if not lost and _interrupted(session, stored[1].size if stored else 0):
            return []
        if not lost:
            raise LedgerError("There is nothing to recover: no checkpoint contradicts the database.")
        known = sealing.lost_checkpoints(session) - {_NOTHING}
        drafts = [
            _draft(session, size, root, person=person, reason=reason, ordinal=ordinal)
            for ordinal, (size, root) in enumerate(lost)
            if (size, root) not in known
        ]
        return append_in(session, [prepare(draft) for draft in drafts], at_least=None)


def _interrupted(session: Session, sealed: int) -> bool:
    """Whether a recovery was recorded and not sealed."""
    sql = "SELECT 1 FROM pretrain_archive_record WHERE kind = 'ledger.recovered' AND position >= ?"
    return session.one(sql, (sealed,)) is not None


def _contradicts(session: Session, checkpoint: SignedCheckpoint) -> bool:
    try:
        sealing.check_against(session, checkpoint, source="")
    except BehindAnchorError:
        return True
    return False


def _draft(session: Session, lost: int, root: str, *, person: str, reason: str, ordinal: int) -> Draft:
    size = size_of(session)
    payload = LedgerRecovered(
        anchored_size=lost,
        anchored_root=root,
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
