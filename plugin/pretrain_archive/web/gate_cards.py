"""A gate in a few words: where it stands, who answered, when and why."""

from __future__ import annotations

from dataclasses import dataclass

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import GateView, gate_view
from pretrain_archive.ledger.port import Ledger


@dataclass(frozen=True, kw_only=True, slots=True)
class GateCard:
    """A gate as the run's page shows it; ``state`` is none, waiting, approve, reject, expired or stale."""

    gate: str
    state: str
    person: str = ""
    at: str | None = None
    reason: str = ""
    self_signed: bool = False
    outcome: str | None = None
    stale: tuple[str, ...] = ()
    eligible: tuple[str, ...] = ()


def card_of(ledger: Ledger, view: RunView, gate: str) -> GateCard:
    """The card of one gate of a run."""
    try:
        seen = gate_view(ledger, view, gate)
    except (ArchiveError, ValueError):
        # A run without a readable policy still has a page: its gates are then told from the records alone.
        return _told_by_records(view, gate)
    return gate_card(seen)


def gate_card(seen: GateView) -> GateCard:
    """A gate in the words of its newest event; a signature for older evidence is stale, never approved."""
    if seen.waiting:
        asked = seen.shown[0].recorded_at if seen.shown else None
        return GateCard(gate=seen.gate, state="waiting", at=asked, eligible=seen.eligible)
    if seen.decision is not None:
        record, decision = seen.decision
        return GateCard(
            gate=seen.gate,
            state="stale" if seen.stale and not seen.used else decision.decision,
            person=decision.person_name,
            at=record.recorded_at,
            reason=decision.reason,
            self_signed=decision.self_signed,
            outcome=decision.outcome,
            stale=() if seen.used else seen.stale,
        )
    if seen.expired is not None:
        return GateCard(gate=seen.gate, state="expired", at=seen.expired[0].recorded_at)
    return GateCard(gate=seen.gate, state="none", eligible=seen.eligible)


def _told_by_records(view: RunView, gate: str) -> GateCard:
    decided = view.decision(gate)
    if decided is None:
        return GateCard(gate=gate, state="none")
    record, decision = decided
    return GateCard(
        gate=gate,
        state="stale",
        person=decision.person_name,
        at=record.recorded_at,
        reason=decision.reason,
        outcome=decision.outcome,
    )
