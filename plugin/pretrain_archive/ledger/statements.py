"""Checkpoints as statements about the log: who remembers them, who signed them, and what contradicts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.anchors import Anchor, AnchorError
from pretrain_archive.ledger.engine import Database
from pretrain_archive.ledger.port import Finding, SignedCheckpoint
from pretrain_archive.ledger.signing import VerifyKey, parse_checkpoint, signed_by

_ROWS = "SELECT number, size, root, note FROM pretrain_archive_checkpoint ORDER BY number"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """A recovery record: from its position on, older checkpoints up to ``anchored_size`` no longer bind."""

    position: int
    anchored_size: int

    @classmethod
    def of(cls, record: Record) -> Recovery:
        """Read it from its record."""
        return cls(position=record.position, anchored_size=int(record.payload["anchored_size"]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One place that remembers checkpoints, oldest first."""

    name: str
    entries: tuple[SignedCheckpoint, ...] = ()
    problems: tuple[Finding, ...] = field(default=())
    unreachable: str = ""

    def unsigned(self, keys: Sequence[VerifyKey]) -> Iterator[Finding]:
        """Entries that no known key signed; nothing can be said where no key is known."""
        for entry in self.entries if keys else ():
            if signed_by(entry.text, keys) is None:
                yield Finding(
                    record_id=self.name,
                    position=entry.size,
                    problem=f"its checkpoint over {entry.size} records is not signed by a known key",
                )

    def vouched(self, roots: Mapping[int, str], keys: Sequence[VerifyKey] | None) -> int:
        """The largest size that a matching entry was signed over; ``keys`` None believes any signer."""
        return max(
            (
                entry.size
                for entry in self.entries
                if roots.get(entry.size) == entry.root
                and (keys is None or signed_by(entry.text, keys) is not None)
            ),
            default=0,
        )

    def contradictions(
        self,
        roots: Mapping[int, str],
        ids: Mapping[int, str],
        *,
        size: int,
        recoveries: Sequence[Recovery],
    ) -> Iterator[Finding]:
        """The first entry that the log does not fit, named by the first row that may be at fault.

        ``roots`` and ``ids`` hold, per size, the log's root over that many records and the next record's id.
        """
        good = 0
        for index, entry in enumerate(self.entries):
            if roots.get(entry.size) == entry.root:
                good = max(good, entry.size)
            elif not self._recovered(index, roots, recoveries):
                last = min(entry.size, size) - 1
                if entry.size > size:
                    problem = (
                        f"{self.name} knows {entry.size} records and the database holds {size}: "
                        f"those from position {size} on were removed, or an old copy was restored"
                    )
                    yield Finding(record_id=self.name, position=size, problem=problem)
                else:
                    problem = (
                        f"the records from position {good} to {last} are not those that {self.name} was signed "
                        f"over (size {entry.size}): they were rewritten"
                    )
                    yield Finding(record_id=ids.get(good) or self.name, position=good, problem=problem)
                return

    def unknown_to(
        self,
        database: Source,
        roots: Mapping[int, str],
        recoveries: Sequence[Recovery],
        keys: Sequence[VerifyKey],
    ) -> Iterator[Finding]:
        """Entries that fit the log and have no row in the database, where each was stored before it was published.

        What does not fit is a contradiction and named there.
        """
        known = {entry.text for entry in database.entries}
        for index, entry in enumerate(self.entries):
            if entry.text in known or roots.get(entry.size) != entry.root:
                continue
            if (keys and signed_by(entry.text, keys) is None) or self._recovered(index, roots, recoveries):
                continue
            known.add(entry.text)
            yield Finding(
                record_id=self.name,
                position=entry.size,
                problem=f"its checkpoint over {entry.size} records is not among those in the database: it was removed",
            )

    def _recovered(self, index: int, roots: Mapping[int, str], recoveries: Sequence[Recovery]) -> bool:
        """Whether a recovery, sealed later in this source, took the place of the entry at ``index``."""
        for recovery in recoveries:
            after = next(
                (
                    place
                    for place, entry in enumerate(self.entries)
                    if entry.size > recovery.position and roots.get(entry.size) == entry.root
                ),
                -1,
            )
            if self.entries[index].size <= recovery.anchored_size and index < after:
                return True
        return False


def anchor_source(anchor: Anchor) -> Source:
    """What an anchor remembers; an end that is no checkpoint is a problem, what lies between may be a torn write."""
    entries: list[SignedCheckpoint] = []
    broken = False
    try:
        for claim in anchor.claims():
            entry = claim.load()
            broken = entry is None
            if entry is not None:
                entries.append(entry)
    except AnchorError as problem:
        return Source(name=anchor.name, unreachable=problem.message)
    problems = (Finding(record_id=anchor.name, problem="its last entry is not a checkpoint"),)
    return Source(name=anchor.name, entries=tuple(entries), problems=problems if broken else ())


def database_source(database: Database) -> Source:
    """The checkpoints in the database itself."""

    def read() -> list[tuple[Any, ...]]:
        with database.transaction() as session:
            return session.all(_ROWS)

    entries: list[SignedCheckpoint] = []
    problems: list[Finding] = []
    notes: dict[str, object] = {}
    for place, (number, size, root, note) in enumerate(database.attempt(read), start=1):
        name = f"checkpoint {number}"
        try:
            entry = parse_checkpoint(str(note))
        except ValueError as problem:
            problems.append(Finding(record_id=name, problem=f"its text is damaged: {problem}"))
            continue
        if (double := notes.setdefault(str(note), number)) != number:
            problems.append(Finding(record_id=name, problem=f"it is a copy of checkpoint {double}"))
        if number != place:
            problems.append(
                Finding(record_id=name, problem=f"expected number {place}: one was removed or added")
            )
        if (size, root) != (entry.size, entry.root):
            problems.append(Finding(record_id=name, problem="its columns are not those of its signed text"))
        if entries and entry.origin != entries[0].origin:
            problems.append(Finding(record_id=name, problem=f"its origin is {entry.origin!r}, not the log's"))
        entries.append(entry)
    return Source(name="the database's checkpoints", entries=tuple(entries), problems=tuple(problems))
