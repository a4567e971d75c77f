"""A source as it stands: every registration that counts, who may read it, and whether it was withdrawn.

Pure over a run's view. What was recorded outside of the run stands in ``RunView.around``; where nobody looked
there, nothing can be said of later facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.kinds import (
    SnapshotCreated,
    SourceAccess,
    SourceRegistered,
    SourceWithdrawn,
    read_payload,
)
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import Around, RunView

LATER_KINDS = ("source.access", "source.withdrawn")
"""What is recorded of a source after its registration, in a stream of the source's own."""


def source_stream(source_id: str) -> str:
    """The stream of what is recorded of a source outside of runs."""
    return f"source/{source_id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A source with its registrations, oldest first, its access facts and its withdrawal.

    More than one registration counts where a run's own and a later one of the source itself stand: both bind.
    """

    source_id: str
    registrations: tuple[tuple[Record, SourceRegistered], ...] = ()
    accesses: tuple[tuple[Record, SourceAccess], ...] = ()
    withdrawal: tuple[Record, SourceWithdrawn] | None = None

    @property
    def registered(self) -> SourceRegistered | None:
        """The newest registration, None if there is none."""
        return self.registrations[-1][1] if self.registrations else None

    @property
    def name(self) -> str:
        """The source's name, or its id where nobody registered it."""
        return self.registered.name if self.registered else self.source_id

    @property
    def evidence(self) -> tuple[Record, ...]:
        """Every record behind the standing, by position."""
        found = [record for record, _ in (*self.registrations, *self.accesses)]
        found += [self.withdrawal[0]] if self.withdrawal else []
        return tuple(sorted(found, key=lambda record: record.position))

    @property
    def identities(self) -> tuple[str, ...]:
        """The identities that read, as declared and as observed; empty where none is recorded."""
        facts = [fact for _, fact in self.registrations]
        named = (name for fact in facts for name in (fact.access_identity, fact.access_identity_observed))
        return tuple(dict.fromkeys(name for name in named if name))

    def readers(self) -> str:
        """Who reads, in words; a declared identity that is not the observed one is told beside it."""
        told: dict[str, None] = {}
        for _, fact in self.registrations:
            seen, declared = fact.access_identity_observed, fact.access_identity
            if seen and declared and seen != declared:
                told[f"{seen}, which is not the declared {declared}"] = None
            elif name := seen or declared:
                told[name] = None
        return "; ".join(told)

    def permitted(self) -> str:
        """Since when reading is permitted, or why nobody has to permit it; empty where nobody said either."""
        if moment := self.granted_at():
            return f"since {moment}"
        reasons = dict.fromkeys(fact.access_open for _, fact in self.registrations)
        told = "; ".join(reason for reason in reasons if reason)
        return f"no permission needed: {told}" if told and None not in reasons else ""

    def allows(self, use: str, task: str) -> str:
        """Why a run for ``use`` and ``task`` lies outside of what is registered; empty if it lies inside."""
        for _, fact in self.registrations:
            if use not in fact.usage_scope:
                return f"use {use!r} is outside the scope {', '.join(fact.usage_scope) or 'nothing'}"
            if fact.applicable_tasks and task not in fact.applicable_tasks:
                return f"task {task!r} is not among {', '.join(fact.applicable_tasks)}"
            if not fact.authorisation:
                return "no authorisation is recorded"
        return ""

    def granted_at(self) -> str | None:
        """When the identity that reads got the right, as recorded; None where nobody said so."""
        facts = [fact for fact in self._of_readers() if fact.action == "granted"]
        told = [fact.access_granted_at for _, fact in self.registrations if fact.access_granted_at]
        return facts[-1].at if facts else told[-1] if told else None

    def revoked(self) -> str:
        """Which right to read was taken and not given again, and when; empty if none was.

        Where no reader is recorded, any revoked identity may have been it.
        """
        newest: dict[str, SourceAccess] = {fact.identity: fact for fact in self._of_readers()}
        for fact in newest.values():
            if fact.action == "revoked":
                return f"access of {fact.identity} revoked at {fact.at} by {fact.by}"
        return ""

    def ended(self, now: datetime | None = None) -> str:
        """Which registered end of access lies before ``now``, by default before the registration itself.

        An end that cannot be read counts as passed. A right that was granted again after it is not ended.
        """
        for record, fact in self.registrations:
            if not (end := fact.access_revoked_at):
                continue
            again = [grant for grant in self._of_readers() if grant.action == "granted"]
            moment, limit = _moment(end), now or _moment(record.recorded_at)
            if moment is not None and again and (_moment(again[-1].at) or moment) > moment:
                continue
            if moment is None or limit is None or moment <= limit:
                return f"access of {fact.access_identity or 'an unrecorded identity'} ended at {end}"
        return ""

    def _of_readers(self) -> list[SourceAccess]:
        """Access facts of the identities that read, in the order of the moments they tell."""
        readers = self.identities
        facts = [(record, fact) for record, fact in self.accesses if not readers or fact.identity in readers]
        facts.sort(key=lambda pair: (_sortable(pair[1].at), pair[0].position))
        return [fact for _, fact in facts]


def _moment(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None


def _sortable(text: str) -> float:
    """The moment in seconds; what cannot be read counts as the newest, so that a revocation is never lost."""
    found = _moment(text)
    return found.timestamp() if found else float("inf")


def standing_of(source_id: str, records: Iterable[Record]) -> Standing:
    """A source from its records, in any order; a later registration in the same stream replaces the earlier one."""
    registrations: dict[str, tuple[Record, SourceRegistered]] = {}
    accesses: list[tuple[Record, SourceAccess]] = []
    withdrawal: tuple[Record, SourceWithdrawn] | None = None
    for record in sorted(records, key=lambda r: r.position):
        if record.payload.get("source_id") != source_id:
            continue
        if record.kind == "source.registered":
            registrations.pop(record.stream, None)
            registrations[record.stream] = (record, read_payload(record, SourceRegistered))
        elif record.kind == "source.access":
            accesses.append((record, read_payload(record, SourceAccess)))
        elif record.kind == "source.withdrawn":
            withdrawal = withdrawal or (record, read_payload(record, SourceWithdrawn))
    return Standing(
        source_id=source_id, registrations=tuple(registrations.values()), accesses=tuple(accesses),
        withdrawal=withdrawal,
    )  # fmt: skip


def source_ids(view: RunView) -> tuple[str, ...]:
    """The ids of all sources of a run: registered in it, named by its snapshots, or behind them."""
    own = [str(record.payload["source_id"]) for record, _ in view.all(SourceRegistered)]
    named = [snapshot.source_id for _, snapshot in view.all(SnapshotCreated) if snapshot.source_id]
    return tuple(dict.fromkeys((*own, *named, *(view.around.sources if view.around else ()))))


def standings(view: RunView) -> tuple[Standing, ...]:
    """Every source of the run as it stands, in the order of :func:`source_ids`."""
    own = [record for record, _ in view.all(SourceRegistered)]
    records = [*own, *(view.around.records if view.around else ())]
    return tuple(standing_of(source, records) for source in source_ids(view))


def known_until(around: Around | None, position: int) -> Around | None:
    """What was known up to a position of the log."""
    if around is None:
        return None
    return replace(around, records=tuple(r for r in around.records if r.position <= position))
