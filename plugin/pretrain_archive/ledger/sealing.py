"""Sealing: what is new is read back and hashed again, proved consistent, signed, and anchored outside."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.domain.errors import BehindAnchorError, LedgerError
from pretrain_archive.domain.identity import utc_now
from pretrain_archive.domain.merkle import Frontier
from pretrain_archive.ledger.anchors import Anchor, AnchorError
from pretrain_archive.ledger.checks import Chain, rows_of
from pretrain_archive.ledger.engine import SEAL_LOCK, Database, Session, sqlite_path
from pretrain_archive.ledger.port import RewrittenError, SignedCheckpoint
from pretrain_archive.ledger.reading import size_of
from pretrain_archive.ledger.rows import checked_record, plain_bytes
from pretrain_archive.ledger.signing import Signer, VerifyKey, parse_checkpoint
from pretrain_archive.ledger.standing import Lost, believed, refuse_tail, standing
from pretrain_archive.ledger.tree import StoredTree

log = logging.getLogger(__name__)

_FIRST = "SELECT leaf FROM pretrain_archive_record WHERE position = 0"
_LAST = "SELECT number, note FROM pretrain_archive_checkpoint ORDER BY number DESC LIMIT 1"
_INSERT = (
    "INSERT INTO pretrain_archive_checkpoint (number, size, root, signed_at, note) VALUES (?, ?, ?, ?, ?)"
)
_RECOVERIES = (
    "SELECT position, stored, leaf FROM pretrain_archive_record "
    "WHERE kind = 'ledger.recovered' ORDER BY position"
)
_HINT = "Run 'pretrain-archive ledger verify'; to go on after a loss sign a recovery record."


@contextlib.contextmanager
def seal_lock(database: Database) -> Iterator[None]:
    """One sealer at a time, without holding up appends: anchors see checkpoints in order."""
    if database.postgres:
        with database.translated(), database.transaction() as session:
            session.run("SELECT pg_advisory_xact_lock(?)", (SEAL_LOCK,))
            yield
        return
    path = sqlite_path(database.engine)
    if path is None:
        yield
        return
    with Path(f"{path}.seal").open("ab") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def last_checkpoint(session: Session) -> tuple[int, SignedCheckpoint] | None:
    """Number and checkpoint of the newest row, not yet believed."""
    row = session.one(_LAST)
    if row is None:
        return None
    try:
        return int(row[0]), parse_checkpoint(str(row[1]))
    except ValueError as problem:
        raise LedgerError(
            f"Checkpoint {row[0]} in the database is damaged: {problem}.", hint=_HINT
        ) from problem


def check_against(session: Session, checkpoint: SignedCheckpoint, *, source: str) -> None:
    """Raise ``BehindAnchorError`` unless the log still holds what ``checkpoint`` was signed over."""
    size = size_of(session)
    if checkpoint.size > size:
        what, why = f"holds {size} records", "records were removed, or an old copy was restored"
        if not size:
            what, why = "is empty", "it was removed, or [pretrain_archive] database_url names another place"
        raise BehindAnchorError(
            f"The database {what}, but {source} knows {checkpoint.size} records: {why}.",
            hint=_HINT,
        )
    if StoredTree(session).root(checkpoint.size).hex() != checkpoint.root:
        raise RewrittenError(
            f"The first {checkpoint.size} records are not those that {source} was signed over.",
            checkpoint=checkpoint,
            hint=_HINT,
        )


def lost_checkpoints(session: Session) -> Lost:
    """Size and root of every checkpoint that a recovery record names as one that the database lost."""
    payloads = (
        checked_record(int(position), stored, leaf).payload
        for position, stored, leaf in session.all(_RECOVERIES)
    )
    return frozenset((payload["anchored_size"], payload["anchored_root"]) for payload in payloads)


def superseded(session: Session, checkpoint: SignedCheckpoint) -> bool:
    """Whether a recovery record names exactly this checkpoint as one that the database lost."""
    return (checkpoint.size, checkpoint.root) in lost_checkpoints(session)


def read_lost(database: Database) -> Lost:
    """:func:`lost_checkpoints` in a transaction of its own."""

    def read() -> Lost:
        with database.transaction() as session:
            return lost_checkpoints(session)

    return database.attempt(read)


def check_anchor(
    database: Database, anchor: Anchor, keys: Sequence[VerifyKey], *, tail: bool = True
) -> SignedCheckpoint | None:
    """Compare the largest believed checkpoint of one anchor with the database and return it.

    An anchor out of reach is logged. ``BehindAnchorError`` where the database does not hold it;
    ``AnchorTailError`` (unless ``tail`` is False) where the anchor ends with what no known key signed.
    """
    try:
        found = standing(anchor, keys, lost=read_lost(database))
    except AnchorError as problem:
        log.warning("The anchor %s cannot be reached and was not compared: %s", anchor.name, problem)
        return None
    newest = found.checkpoint

    def compare() -> None:
        with database.transaction() as session:
            if newest is not None and not superseded(session, newest):
                check_against(session, newest, source=f"the anchor {anchor.name}")

    database.attempt(compare)
    if tail:
        refuse_tail(anchor, found)
    return newest


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    """Where the last seal left off. ``last`` is None where there is none or a recovery took its place."""

    number: int
    origin: str
    last: SignedCheckpoint | None
    size: int


def seal(
    database: Database,
    *,
    signer: Signer,
    anchors: Sequence[Anchor],
    keys: Sequence[VerifyKey],
    tail: bool = True,
) -> SignedCheckpoint:
    """Sign a checkpoint over everything that is committed now, store it and publish it to every anchor.

    ``tail`` False is for a recovery, which signs for what stands at the end of an anchor.
    """
    with seal_lock(database):
        held = [check_anchor(database, anchor, keys, tail=tail) for anchor in anchors]
        state = database.attempt(lambda: _state(database, keys, held))
        if state.last is not None and state.last.size == state.size:
            checkpoint = state.last
        else:
            frontier = _bring_forward(database, state.last.size if state.last else 0, state.size)
            checkpoint = signer.sign(origin=state.origin, size=state.size, root=frontier.root())
            database.attempt(lambda: _store(database, state.number + 1, checkpoint))
        publish(checkpoint, anchors)
        return checkpoint


def _state(database: Database, keys: Sequence[VerifyKey], held: Sequence[SignedCheckpoint | None]) -> _State:
    """The last checkpoint, proved to be about this log, and the log's size."""
    with database.transaction() as session:
        size = size_of(session)
        found = last_checkpoint(session)
        if found is None:
            return _State(number=0, origin=_origin(session, held), last=None, size=size)
        number, last = found
        if not believed(last, keys):
            raise LedgerError(
                f"Checkpoint {number} in the database is not signed by a known key.", hint=_HINT
            )
        if superseded(session, last):
            return _State(number=number, origin=last.origin, last=None, size=size)
        check_against(session, last, source=f"checkpoint {number} in the database")
        return _State(number=number, origin=last.origin, last=last, size=size)


def _origin(session: Session, held: Sequence[SignedCheckpoint | None]) -> str:
    """The name of a log that has no checkpoint row: bound to the log, so that removed rows make no new one.

    What an anchor holds of this log has it; else it follows from the first record. An empty log has no record
    to be told apart by: it gets a name by chance, and keeps it as its checkpoint stands.
    """
    for checkpoint in held:
        if checkpoint is not None and not superseded(session, checkpoint):
            return checkpoint.origin
    row = session.one(_FIRST)
    leaf = plain_bytes(row[0]) if row else secrets.token_bytes(8)
    if leaf is None:
        raise LedgerError("The log was not sealed: the leaf of its first record was edited.", hint=_HINT)
    return f"pretrain-archive/{leaf[:8].hex()}"


def _bring_forward(database: Database, start: int, size: int) -> Frontier:
    """Hash again every row from ``start`` on and return the frontier of the tree of ``size`` leaves."""

    def begin() -> Frontier:
        with database.transaction() as session:
            return StoredTree(session).frontier(start)

    frontier = database.attempt(begin)
    for page in rows_of(database, Chain(start=start), end=size):
        for row, _ in page:
            if row.problems:
                raise LedgerError(
                    f"Record {row.record_id} at position {row.position} was not sealed: {row.problems[0]}.",
                    hint=_HINT,
                )
            frontier.add(row.leaf)
    if frontier.size != size or database.attempt(lambda: _root(database, size)) != frontier.root():
        raise LedgerError("The log was not sealed: its tree does not fit its records.", hint=_HINT)
    return frontier


def _root(database: Database, size: int) -> bytes:
    with database.transaction() as session:
        return StoredTree(session).root(size)


def _store(database: Database, number: int, checkpoint: SignedCheckpoint) -> None:
    with database.transaction(write=True) as session:
        found = last_checkpoint(session)
        if found is not None and found == (number, checkpoint):
            return  # committed by an attempt whose answer was lost
        values: tuple[Any, ...] = (
            number,
            checkpoint.size,
            checkpoint.root,
            utc_now(),
            checkpoint.text,
        )
        session.run(_INSERT, values)


def publish(checkpoint: SignedCheckpoint, anchors: Sequence[Anchor]) -> None:
    """Publish to every anchor. One that fails is logged: the others, and the next seal, still serve."""
    for anchor in anchors:
        try:
            anchor.publish(checkpoint)
        except AnchorError as problem:
            log.warning(
                "The checkpoint over %s records did not reach the anchor %s: %s",
                checkpoint.size,
                anchor.name,
                problem,
            )
