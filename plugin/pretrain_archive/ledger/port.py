"""What the rest of the package asks of the ledger.

The port does not promise: updates, deletes, transactions over several calls, or order between streams
beyond the position in the log. An HTTP adapter for workers without a route to the database can follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pretrain_archive.domain.errors import BehindAnchorError, LedgerError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.records import Draft, Edge, Record

Direction = Literal["backward", "forward"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedCheckpoint:
    """A signed statement about the log (C2SP tlog-checkpoint): origin, size, root, signature.

    ``text`` is the whole note as it is anchored; ``root`` is hex; ``signer`` the key's name;
    ``key_id`` the hex key hash of the note format.
    """

    origin: str
    size: int
    root: str
    signer: str
    key_id: str
    text: str


class NeverSealedError(LedgerError):
    """The log has no checkpoint yet, and no key to sign one is readable here."""


class RewrittenError(BehindAnchorError):
    """The log holds as many records as ``checkpoint`` was signed over, and they are not the same."""

    def __init__(self, message: str, *, checkpoint: SignedCheckpoint, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.checkpoint = checkpoint


@dataclass(frozen=True, kw_only=True, slots=True)
class RunQuery:
    """Which runs to list, newest first. ``dag_ids`` None means all; an empty collection means none."""

    text: str = ""
    project: str = ""
    dag_ids: Collection[str] | None = None
    dag_run_id: str = ""
    limit: int = 50
    before: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """A run as lists show it; ``position`` is that of its ``run.opened`` record (the paging key)."""

    run_uid: str
    position: int
    project: str
    dag_id: str
    dag_run_id: str
    submitter: str
    objective: str
    opened_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceEdge:
    """An edge of a trace with the record that is its evidence and its distance from the start (1 is next)."""

    edge: Edge
    record_id: str
    depth: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """What a reference rests on (backward) or what rests on it (forward); ``truncated`` if a limit cut it."""

    start: Ref
    direction: Direction
    nodes: tuple[Ref, ...] = ()
    edges: tuple[TraceEdge, ...] = ()
    truncated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something wrong with the log; ``record_id`` (or an anchor's name) says where."""

    record_id: str
    problem: str
    position: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """The result of verifying the whole log. ``unanchored`` counts records newer than the last anchor."""

    verdict: Literal["verified", "changed", "unrecorded"]
    records: int
    findings: tuple[Finding, ...] = ()
    unanchored_records: int = 0
    unanchored_seconds: float = 0.0
    anchors: tuple[str, ...] = field(default=())


@dataclass(frozen=True, kw_only=True, slots=True)
class Attested:
    """Which of the ``configured`` anchors hold a believed checkpoint that the database fits.

    ``silent`` are those out of reach or without any. ``sealed`` says whether the database has a checkpoint.
    """

    configured: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    sealed: bool = False


class Ledger(Protocol):
    """The verifiable, append-only log of records."""

    def append(self, drafts: Sequence[Draft]) -> list[Record]:
        """Append all ``drafts`` in one transaction, in order, and return the stored records.

        A draft whose idempotency key is known with the same content returns the known record; with other
        content it raises ``IdempotencyConflictError``. A taken ``unique`` key raises
        ``AlreadyRecordedError`` and nothing is written. ``LedgerUnavailableError`` if the database cannot
        be reached; ``BehindAnchorError`` if an anchor is ahead of the database.
        """

    def records(
        self,
        *,
        streams: Collection[str] | None = None,
        kinds: Collection[str] = (),
        after: int = -1,
        limit: int | None = None,
    ) -> Iterator[Record]:
        """Yield records by position, oldest first, streamed; empty ``kinds`` means every kind."""

    def bodies(
        self, *, kinds: Collection[str], after: int = -1, fields: Mapping[str, Sequence[str]] | None = None
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield position and body (see ``Record.body``) of the records of ``kinds``, oldest first: for very many.

        ``fields`` names by kind what is needed of it (``stream``, ``payload.step``, ``payload.files[].size``): its
        bodies hold at least these and may lack others.
        """

    def links(
        self, object_type: str, *, subject_type: str = "", after: int = -1
    ) -> Iterator[tuple[str, str, str]]:
        """Yield subject, object and the record's stream of every edge to a thing of that type, in any order.

        With ``subject_type`` only from things of that one.
        """

    def runs(self, query: RunQuery) -> list[RunRow]:
        """Return a page of runs, newest first."""

    def trace(
        self, start: Ref, *, direction: Direction, as_of: str | None = None, max_nodes: int = 5000
    ) -> Trace:
        """Follow edges from ``start``: subject to object is backward, object to subject forward."""

    def seal(self) -> SignedCheckpoint:
        """Re-read and re-hash what is new, prove consistency, sign a checkpoint, anchor it, return it.

        Without a readable signing key returns the newest valid signed checkpoint, or raises ``LedgerError``
        (``NeverSealedError`` if there is none).
        """

    def proofs(self, positions: Sequence[int], *, size: int) -> dict[int, list[str]]:
        """Return the hex inclusion proof (nearest sibling first) of each position in the tree of ``size``."""

    def lineage(self, starts: Sequence[Ref], *, max_nodes: int) -> tuple[tuple[Edge, ...], bool]:
        """Return every edge behind ``starts`` once, whoever recorded it, and whether all of them were reached."""

    def newest_time(self, *, after: int) -> str | None:
        """Return the latest ``recorded_at`` of the newest thousand records behind position ``after``, None if none.

        The time that the ledger has seen pass since that record, whatever clock reads it.
        """

    def attest(self) -> Attested:
        """Compare the database with every anchor now; ``BehindAnchorError`` where it is behind one."""
