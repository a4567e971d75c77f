"""What the page of one run shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pretrain_archive.domain import kinds
from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import GATES, RunView
from pretrain_archive.domain.verdicts import Item, Verdict, counts, worst_first
from pretrain_archive.gates.service import GateView, gate_view
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.web.curve import Curve, loss_curve
from pretrain_archive.web.evidence import evidence
from pretrain_archive.web.render import label, short, size
from pretrain_archive.web.texts import Text, say

TRACKS = ("data", "compute", "artifact")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackCard:
    """A track's items: what needs a look, worst first, and what is verified, folded with its count."""

    track: str
    counts: dict[str, int]
    open: tuple[Item, ...]
    verified: tuple[Item, ...]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptLine:
    """One attempt; what its end did not record is None."""

    number: int
    state: str
    started_at: str | None
    resume_from: str | None
    resume_step: int | None
    ended: kinds.AttemptEnded | None
    stop: kinds.StopFired | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """One of the six sentences."""

    name: str
    text: Text


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """Everything of one run's page."""

    run_uid: str
    opened: kinds.RunOpened
    opened_at: str
    state: str
    waiting: str | None
    counts: dict[str, int]
    sentences: tuple[Sentence, ...]
    tracks: tuple[TrackCard, ...]
    other: TrackCard
    gates: tuple[GateCard, ...]
    failure: kinds.RunFailed | None
    attempts: tuple[AttemptLine, ...]
    curve: Curve | None
    timeline: tuple[Record, ...]
    packages: tuple[tuple[Record, kinds.PackageWritten], ...]
    people: tuple[tuple[str, str], ...]


def run_page(ledger: Ledger, view: RunView) -> RunPage:
    """Read a run; raises ``ValueError`` where it was never opened."""
    found = view.last(kinds.RunOpened)
    if found is None:
        raise ValueError(f"run {view.run_uid} was never opened")
    record, opened = found
    items = evidence(view)
    gates = tuple(_gate(ledger, view, gate) for gate in GATES)
    failure = view.latest(kinds.RunFailed)
    cards = {name: _card(name, [item for item in items if item.track == name]) for name in TRACKS}
    return RunPage(
        run_uid=view.run_uid,
        opened=opened,
        opened_at=record.recorded_at,
        state=view.state,
        waiting=view.waiting_gate() if view.state.startswith("waiting_") else None,
        counts=counts(items),
        sentences=six_sentences(view, gates),
        tracks=tuple(cards.values()),
        other=_card("gates", [item for item in items if item.track not in TRACKS]),
        gates=gates,
        failure=failure if view.state == "failed" else None,
        attempts=tuple(_attempts(view)),
        curve=loss_curve(view),
        timeline=tuple(r for r in reversed(view.records) if r.kind != "metrics.recorded"),
        packages=tuple(reversed(list(view.all(kinds.PackageWritten)))),
        people=(("submitter", opened.submitter or ""), *opened.people.items()),
    )


def _card(track: str, items: list[Item]) -> TrackCard:
    ordered = worst_first(items)
    return TrackCard(
        track=track,
        counts=counts(items),
        open=tuple(item for item in ordered if item.verdict is not Verdict.VERIFIED),
        verified=tuple(item for item in ordered if item.verdict is Verdict.VERIFIED),
    )


def _gate(ledger: Ledger, view: RunView, gate: str) -> GateCard:
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
            state="stale" if seen.stale else decision.decision,
            person=decision.person_name,
            at=record.recorded_at,
            reason=decision.reason,
            self_signed=decision.self_signed,
            outcome=decision.outcome,
            stale=seen.stale,
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


def _attempts(view: RunView) -> Iterator[AttemptLine]:
    ended = {end.attempt: end for _, end in view.all(kinds.AttemptEnded)}
    stops = {stop.attempt: stop for _, stop in view.all(kinds.StopFired)}
    for record, start in view.all(kinds.AttemptStarted):
        end = ended.get(start.attempt)
        yield AttemptLine(
            number=start.attempt,
            state=end.state if end else "running",
            started_at=record.recorded_at,
            resume_from=start.resume_from,
            resume_step=start.resume_step,
            ended=end,
            stop=stops.get(start.attempt),
        )


def six_sentences(view: RunView, gates: tuple[GateCard, ...]) -> tuple[Sentence, ...]:
    """The decision in six sentences: data, conditions, events, checkpoint, signatures, use."""
    return (
        Sentence(name="data", text=_data(view)),
        Sentence(name="conditions", text=_conditions(view)),
        Sentence(name="events", text=_events(view)),
        Sentence(name="checkpoint", text=_checkpoint(view)),
        Sentence(name="signatures", text=_signatures(gates)),
        Sentence(name="use", text=_use(view)),
    )


def _data(view: RunView) -> Text:
    snapshot, source = view.latest(kinds.SnapshotCreated), view.latest(kinds.SourceRegistered)
    if snapshot is None:
        return say("six.data.none")
    return say(
        "six.data.text",
        snapshot=f"{snapshot.name}@{snapshot.version}",
        files=f"{snapshot.file_count:,}",
        bytes=size(snapshot.total_bytes),
        source=source.name if source else say("unrecorded"),
        licence=source.licence if source else say("unrecorded"),
    )


def _conditions(view: RunView) -> Text:
    declared = view.latest(kinds.ConfigurationDeclared)
    if declared is None:
        return say("six.conditions.none")
    budget = declared.budget
    where = say("six.cpu") if not budget.accelerators else Text(
        f"{budget.accelerators} × {budget.accelerator}", f"{budget.accelerators} × {budget.accelerator}"
    )
    return say(
        "six.conditions.text",
        configuration=short(declared.configuration_digest),
        code=short(declared.code_digest) if declared.code_digest else say("unrecorded"),
        where=where,
        minutes=f"{budget.minutes:g}",
        owner=budget.owner,
    )


def _events(view: RunView) -> Text:
    failed = view.latest(kinds.RunFailed)
    if failed is not None and view.state == "failed":
        return say("six.events.failed", task=failed.task_id, reason=failed.reason)
    ends = [end for _, end in view.all(kinds.AttemptEnded)]
    if not ends:
        running = view.latest(kinds.AttemptStarted)
        return say("six.events.running", attempt=running.attempt) if running else say("six.events.none")
    lost = sum(end.steps_lost or 0 for end in ends)
    repeated = sum(end.steps_repeated or 0 for end in ends)
    last = ends[-1]
    return say(
        "six.events.text",
        attempts=len(ends),
        state=label("attempt", last.state),
        step=last.last_step if last.last_step is not None else say("unrecorded"),
        lost=lost,
        repeated=repeated,
    )


def _checkpoint(view: RunView) -> Text:
    kept = [candidate for _, candidate in view.all(kinds.CandidateNamed) if candidate.kept]
    steps = {c.checkpoint_id: c.step for _, c in view.all(kinds.CheckpointRegistered)}
    if kept:
        chosen = kept[-1]
        step = steps.get(chosen.checkpoint_id)
        return say(
            "six.checkpoint.text",
            step=step if step is not None else say("unrecorded"),
            digest=short(chosen.checkpoint_digest),
            reason=chosen.reason.rstrip("."),
        )
    return say("six.checkpoint.some", n=len(steps)) if steps else say("six.checkpoint.none")


def _signatures(gates: tuple[GateCard, ...]) -> Text:
    signed = [card for card in gates if card.person]
    if not signed:
        return say("six.signatures.none")
    parts = [
        say(
            "six.signature",
            gate=label("gate", card.gate),
            person=card.person,
            decision=say(f"run.gate.{card.state}"),
        )
        for card in signed
    ]
    return say(
        "six.signatures.text",
        list=Text("; ".join(part.en for part in parts), "；".join(part.zh for part in parts)),
    )


def _use(view: RunView) -> Text:
    release = view.latest(kinds.ReleaseMade)
    if release is not None:
        return say(
            "six.use.released",
            name=release.name,
            version=release.version,
            use=", ".join(release.applicable) or say("unrecorded"),
            limits="; ".join(release.known_limits) or say("unrecorded"),
        )
    opened = view.opened
    use = opened.purpose.intended_use if opened and opened.purpose else ""
    return say("six.use.intended", use=use) if use else say("six.use.none")
