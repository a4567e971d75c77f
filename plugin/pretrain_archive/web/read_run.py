"""What the page of one run shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pretrain_archive.domain import kinds
from pretrain_archive.domain.exploration import is_exploration
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import ALL_GATES, GATES, RunView
from pretrain_archive.domain.source_rights import LATER_KINDS
from pretrain_archive.domain.verdicts import Item, Verdict, counts, worst_first
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.web.curve import Curve, loss_curve
from pretrain_archive.web.evidence import evidence
from pretrain_archive.web.gate_cards import GateCard, card_of
from pretrain_archive.web.governed import Governed, governed
from pretrain_archive.web.story import Sentence, six_sentences

TRACKS = ("data", "compute", "artifact")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackCard:
    """A track's items: what needs a look, worst first, and what is verified, folded with its count."""

    track: str
    counts: dict[str, int]
    open: tuple[Item, ...]
    verified: tuple[Item, ...]


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
    exploration: bool
    governed: Governed
    changes: tuple[tuple[Record, kinds.ChangeRecorded], ...] = ()


def run_page(
    ledger: Ledger, view: RunView, *, curve: Callable[[RunView], Curve | None] = loss_curve
) -> RunPage:
    """Read a run; raises ``ValueError`` where it was never opened. ``curve`` draws its loss."""
    found = view.last(kinds.RunOpened)
    if found is None:
        raise ValueError(f"run {view.run_uid} was never opened")
    record, opened = found
    items = evidence(view)
    asked = [gate for gate in ALL_GATES if gate in GATES or view.dossier(gate) is not None]
    gates = tuple(card_of(ledger, view, gate) for gate in asked)
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
        curve=curve(view),
        timeline=tuple(_timeline(view)),
        packages=tuple(reversed(list(view.all(kinds.PackageWritten)))),
        people=(("submitter", opened.submitter or ""), *opened.people.items()),
        exploration=is_exploration(view),
        governed=governed(view),
        changes=tuple(reversed(list(view.all(kinds.ChangeRecorded)))),
    )


def _timeline(view: RunView) -> list[Record]:
    """What happened, newest first: the run's records, and what was recorded of its sources' rights since."""
    later = [r for r in view.around.records if r.kind in LATER_KINDS] if view.around else []
    shown = [r for r in view.records if r.kind != "metrics.recorded"]
    return sorted([*shown, *later], key=lambda record: record.position, reverse=True)


def _card(track: str, items: list[Item]) -> TrackCard:
    ordered = worst_first(items)
    return TrackCard(
        track=track,
        counts=counts(items),
        open=tuple(item for item in ordered if item.verdict is not Verdict.VERIFIED),
        verified=tuple(item for item in ordered if item.verdict is Verdict.VERIFIED),
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
