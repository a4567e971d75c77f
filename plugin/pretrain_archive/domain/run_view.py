"""A run as its records tell it: the latest fact of each kind, attempts, gates and state.

Pure: built from records, no I/O. Pages, gates, package, command line and clean-up all read runs through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from pretrain_archive.domain import kinds
from pretrain_archive.domain.kinds import Payload, PayloadT, read_payload
from pretrain_archive.domain.records import Record

GATES: tuple[str, ...] = ("prepare", "run", "close")
"""The gates that every run passes, in their order."""

ALL_GATES: tuple[str, ...] = ("prepare", "review", "run", "close")
"""Every gate; ``review`` stands beside the order: it is asked after an attempt that was stopped or failed for good."""

STATE_KINDS = (
    "run.opened",
    "run.failed",
    "run.closed",
    "gate.dossier",
    "gate.decision",
    "gate.refused",
    "gate.expired",
    "launch.intended",
    "attempt.started",
    "attempt.ended",
    "package.written",
)
"""The kinds that :attr:`RunView.state` needs: enough for lists, small to load."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A record together with its payload as a typed value."""

    record: Record
    payload: Payload


@dataclass(frozen=True, kw_only=True)
class Around:
    """What the ledger says outside of a run's own records of the sources that the run rests on.

    ``sources`` are their ids; ``records`` their registrations elsewhere and what was recorded of them since, by
    position; ``rooted`` the run's snapshots (``snapshot:NAME@VERSION``) whose lineage leads to a source; ``complete``
    that the lineage was followed to its end.
    """

    sources: tuple[str, ...] = ()
    records: tuple[Record, ...] = ()
    rooted: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class RunView:
    """All records of one run, oldest first; ``around`` None means that nobody looked beyond them."""

    run_uid: str
    records: tuple[Record, ...]
    around: Around | None = None

    @classmethod
    def of(cls, run_uid: str, records: Iterable[Record], around: Around | None = None) -> RunView:
        """Build the view from the records of the run's stream."""
        return cls(run_uid=run_uid, records=tuple(records), around=around)

    def all(self, model: type[PayloadT]) -> Iterator[tuple[Record, PayloadT]]:
        """Every record of a kind with its payload, oldest first."""
        for record in self._by_kind.get(kinds.BY_MODEL[model], ()):
            yield record, read_payload(record, model)

    def last(self, model: type[PayloadT]) -> tuple[Record, PayloadT] | None:
        """The newest record of a kind with its payload, or None."""
        found = self._by_kind.get(kinds.BY_MODEL[model])
        return (found[-1], read_payload(found[-1], model)) if found else None

    def latest(self, model: type[PayloadT]) -> PayloadT | None:
        """The newest payload of a kind, or None."""
        found = self.last(model)
        return found[1] if found else None

    @cached_property
    def _by_kind(self) -> dict[str, list[Record]]:
        """The records by kind, oldest first: a gate asks for dozens of kinds of a run of a hundred thousand records."""
        found: dict[str, list[Record]] = {}
        for record in self.records:
            found.setdefault(record.kind, []).append(record)
        return found

    @cached_property
    def losses(self) -> tuple[tuple[int, float | None], ...]:
        """The training loss in the order in which it was reported: step and value, None where it was not finite."""
        return tuple(
            (point.step, point.value)
            for _, batch in self.all(kinds.MetricsRecorded)
            for point in batch.points
            if point.name == "loss"
        )

    @cached_property
    def opened(self) -> kinds.RunOpened | None:
        """How the run began; None if nothing is recorded."""
        return self.latest(kinds.RunOpened)

    @cached_property
    def attempts(self) -> int:
        """The number of launch tokens that were consumed."""
        return max((record.attempt for record in self.records if record.kind == "launch.intended"), default=0)

    @property
    def newest(self) -> int:
        """The sequence of the newest record, -1 if there is none: what a careful writer ``follows``."""
        return self.records[-1].sequence if self.records else -1

    def dossier(self, gate: str) -> tuple[Record, kinds.GateDossier] | None:
        """The newest dossier shown at ``gate``."""
        return next((f for f in reversed(list(self.all(kinds.GateDossier))) if f[1].gate == gate), None)

    def decision(self, gate: str) -> tuple[Record, kinds.GateDecision] | None:
        """The newest decision at ``gate``; whether it is still fresh is for the gates to say."""
        return next((f for f in reversed(list(self.all(kinds.GateDecision))) if f[1].gate == gate), None)

    def waiting_gate(self) -> str | None:
        """The gate that asked and has no decision or expiry since, or None."""
        asked: str | None = None
        for record in self.records:
            if record.kind == "gate.dossier":
                asked = str(record.payload["gate"])
            elif record.kind in {"gate.decision", "gate.expired"} and record.payload["gate"] == asked:
                asked = None
        return asked

    @cached_property
    def state(self) -> str:
        """One of unrecorded, open, waiting_ and a gate's name, training, failed, closed."""
        state = "unrecorded"
        for record in self.records:
            match record.kind:
                case "run.closed":
                    return "closed"
                case "run.failed":
                    state = "failed"
                case "launch.intended" | "attempt.started":
                    state = "training"
                case "gate.dossier":
                    state = f"waiting_{record.payload['gate']}"
                case "run.opened" | "attempt.ended" | "gate.decision" | "gate.expired" | "package.written":
                    state = "open"
        return state
