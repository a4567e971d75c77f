"""The ledger on SQLite or PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pretrain_archive.domain.errors import ArchiveError, LedgerError
from pretrain_archive.domain.identity import Ref, parse_time, utc_now
from pretrain_archive.domain.records import Draft, Edge, Record
from pretrain_archive.ledger import audit, projecting, reading, sealing
from pretrain_archive.ledger.anchors import Anchor
from pretrain_archive.ledger.engine import Database, Session
from pretrain_archive.ledger.port import (
    Attested,
    Audit,
    Direction,
    NeverSealedError,
    RunQuery,
    RunRow,
    SignedCheckpoint,
    Trace,
)
from pretrain_archive.ledger.signing import Signer, VerifyKey
from pretrain_archive.ledger.standing import believed
from pretrain_archive.ledger.tree import StoredTree
from pretrain_archive.ledger.writing import Prepared, append_in, bytes_of, prepare

log = logging.getLogger(__name__)

SEAL_RECORDS = 100
SEAL_AGE = timedelta(seconds=60)
_OLDEST_UNSEALED = (
    "SELECT recorded_at FROM pretrain_archive_record WHERE position >= ? ORDER BY position LIMIT 1"
)


class SqlLedger:
    """Implements :class:`~pretrain_archive.ledger.port.Ledger`. Safe to share between threads.

    Without ``signer`` the ledger appends and reads, and does not seal. ``keys`` are the public keys by which
    checkpoints are believed; the signer's own is among them. ``auto_seal`` seals after an append once 100
    records are not sealed, or the oldest of them is 60 s old.
    """

    def __init__(
        self,
        database: Database,
        *,
        signer: Signer | None = None,
        keys: Sequence[VerifyKey] = (),
        anchors: Sequence[Anchor] = (),
        auto_seal: bool = True,
    ) -> None:
        self.database = database
        self.signer = signer
        own = [signer.verify_key] if signer else []
        self.keys = (*own, *(key for key in keys if key not in own))
        self.anchors = tuple(anchors)
        self._auto_seal = auto_seal and signer is not None
        self._seen: dict[str, object] = {}
        self._size = 0

    def append(self, drafts: Sequence[Draft]) -> list[Record]:
        """See ``Ledger.append``."""
        prepared = [prepare(draft) for draft in drafts]
        if not prepared:
            return []
        self._compare_changed_anchors()
        records, due = self.database.attempt(
            lambda: self._append_once(prepared), needs=lambda: bytes_of(prepared)
        )
        self._size = max(self._size, *(record.position + 1 for record in records))
        if due:
            self._seal_after_append()
        return records

    def _append_once(self, prepared: Sequence[Prepared]) -> tuple[list[Record], bool]:
        with self.database.transaction(write=True) as session:
            records = append_in(session, prepared, at_least=self._size)
            return records, self._auto_seal and _is_due(session)

    def records(
        self,
        *,
        streams: Collection[str] | None = None,
        kinds: Collection[str] = (),
        after: int = -1,
        limit: int | None = None,
    ) -> Iterator[Record]:
        """See ``Ledger.records``. Read in pages: appending while iterating is allowed."""
        return reading.read_records(self.database, streams=streams, kinds=kinds, after=after, limit=limit)

    def bodies(
        self, *, kinds: Collection[str], after: int = -1, fields: Mapping[str, Sequence[str]] | None = None
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """See ``Ledger.bodies``. Read in pages: appending while iterating is allowed."""
        return projecting.read_bodies(self.database, kinds=kinds, after=after, fields=fields)

    def links(
        self, object_type: str, *, subject_type: str = "", after: int = -1
    ) -> Iterator[tuple[str, str, str]]:
        """See ``Ledger.links``."""
        return projecting.read_links(self.database, object_type, subject_type, after=after)

    def runs(self, query: RunQuery) -> list[RunRow]:
        """See ``Ledger.runs``."""
        return reading.read_runs(self.database, query)

    def trace(
        self, start: Ref, *, direction: Direction, as_of: str | None = None, max_nodes: int = 5000
    ) -> Trace:
        """See ``Ledger.trace``."""
        return reading.read_trace(self.database, start, direction=direction, as_of=as_of, max_nodes=max_nodes)

    def lineage(self, starts: Sequence[Ref], *, max_nodes: int) -> tuple[tuple[Edge, ...], bool]:
        """See ``Ledger.lineage``."""
        return reading.read_lineage(self.database, starts, max_nodes=max_nodes)

    def seal(self) -> SignedCheckpoint:
        """See ``Ledger.seal``."""
        if self.signer is None:
            return self._newest_checkpoint()
        checkpoint = sealing.seal(self.database, signer=self.signer, anchors=self.anchors, keys=self.keys)
        self._seen.update((anchor.name, anchor.token()) for anchor in self.anchors)
        return checkpoint

    def seal_if_due(self) -> SignedCheckpoint | None:
        """Seal if the unsealed window is at its limit; for a timer beside the appends' own sealing."""
        return self.seal() if self.signer is not None and self.database.attempt(self._is_due_now) else None

    def proofs(self, positions: Sequence[int], *, size: int) -> dict[int, list[str]]:
        """See ``Ledger.proofs``."""

        def read() -> dict[int, list[str]]:
            with self.database.transaction() as session:
                tree = StoredTree(session)
                return {position: tree.proof(position, size) for position in positions}

        return self.database.attempt(read)

    def newest_time(self, *, after: int) -> str | None:
        """See ``Ledger.newest_time``."""
        return reading.read_newest_time(self.database, after)

    def attest(self) -> Attested:
        """See ``Ledger.attest``."""
        silent = [
            anchor.name
            for anchor in self.anchors
            if sealing.check_anchor(self.database, anchor, self.keys) is None
        ]
        with_checkpoint = self.database.attempt(self._has_checkpoint)
        names = tuple(anchor.name for anchor in self.anchors)
        return Attested(configured=names, silent=tuple(silent), sealed=with_checkpoint)

    def audit(self) -> Audit:
        """Verify the whole log against this ledger's anchors and keys."""
        return audit.audit(self.database, anchors=self.anchors, keys=self.keys)

    def forget(self) -> None:
        """Forget how many records were seen and which anchors were compared, after a signed recovery."""
        self._size = 0
        self._seen.clear()

    def close(self) -> None:
        """Give up the connections; the ledger stays usable and opens new ones."""
        self.database.engine.dispose()

    def _newest_checkpoint(self) -> SignedCheckpoint:
        def read() -> SignedCheckpoint | None:
            with self.database.transaction() as session:
                found = sealing.last_checkpoint(session)
                if found is None:
                    return None
                sealing.check_against(session, found[1], source=f"checkpoint {found[0]} in the database")
                return found[1]

        newest = self.database.attempt(read)
        if newest is None or not believed(newest, self.keys):
            error = NeverSealedError if newest is None else LedgerError
            raise error(
                f"The ledger {self.database.name} has no valid signed checkpoint and no signing key is readable "
                "here.",
                hint="Run 'pretrain-archive ledger anchor' where [pretrain_archive] signing_key can be read.",
            )
        return newest

    def _compare_changed_anchors(self) -> None:
        """Compare with anchors not seen yet and with those whose token says that something was added."""
        for anchor in self.anchors:
            token = anchor.token()
            if anchor.name not in self._seen or token != self._seen[anchor.name]:
                sealing.check_anchor(self.database, anchor, self.keys)
                self._seen[anchor.name] = token

    def _has_checkpoint(self) -> bool:
        with self.database.transaction() as session:
            return sealing.last_checkpoint(session) is not None

    def _is_due_now(self) -> bool:
        with self.database.transaction() as session:
            return _is_due(session)

    def _seal_after_append(self) -> None:
        try:
            self.seal()
        except ArchiveError as problem:
            # The records are committed: the caller's step has succeeded, the open window is the next seal's.
            log.warning("Sealing after an append failed: %s", problem)


def _is_due(session: Session) -> bool:
    """Whether the unsealed window is at its limit of records or age."""
    found = sealing.last_checkpoint(session)
    sealed = found[1].size if found else 0
    if reading.size_of(session) - sealed >= SEAL_RECORDS:
        return True
    oldest = session.one(_OLDEST_UNSEALED, (sealed,))
    try:
        return oldest is not None and parse_time(utc_now()) - parse_time(str(oldest[0])) >= SEAL_AGE
    except ValueError:
        return True  # an edited time: sealing names its row
