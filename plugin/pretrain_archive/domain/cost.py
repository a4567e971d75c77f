"""The account of a run: every allocated device-second in exactly one of nine bins, and what brought it there.

Pure over a run's records. Sums are exact: bins are whole device-microseconds and add up to what was held. What is not
on record is not spread over the bins: time inside an attempt of which nothing is known is ``idle_hold`` and counted as
``unevidenced``; time before devices were held is queue time and costs none. See docs/cost.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost_attribution import (
    Attribution,
    Money,
    Storage,
    attribution_of,
    money_of,
    storage_of,
)
from pretrain_archive.domain.cost_bins import BINS, Bin, Device, Slice, as_seconds, micros, summed
from pretrain_archive.domain.cost_evidence import AttemptEvidence, evidence_of
from pretrain_archive.domain.cost_held import Holding, holdings_of
from pretrain_archive.domain.cost_legs import Leg, legs_of, typical_step
from pretrain_archive.domain.cost_notes import CostNote, note
from pretrain_archive.domain.cost_tiling import Tiling, tile
from pretrain_archive.domain.cost_waits import waits_of
from pretrain_archive.domain.run_view import RunView

COST_KINDS = (
    "run.opened", "configuration.declared", "launch.intended", "job.created", "job.removed", "wait.observed",
    "member.observed", "attempt.started", "attempt.ended", "metrics.recorded", "event.recorded", "stop.fired",
    "checkpoint.registered", "snapshot.created", "evaluation.reported", "evaluation.failed",
    "tombstone.written", "run.closed",
    "run.failed", "package.written",
)  # fmt: skip
"""The kinds that an account reads."""


@dataclass(frozen=True, kw_only=True)
class AttemptAccount:
    """One attempt: what it held, in which bins, how long it queued; ``state`` None while it has no end."""

    attempt: int
    state: str | None
    device: Device
    devices: int
    members: int
    allocated_us: int
    queue_us: int
    step_us: int | None
    save_seconds: tuple[float, ...]
    slices: tuple[Slice, ...]
    notes: tuple[CostNote, ...]

    @property
    def bins(self) -> dict[Bin, int]:
        """Device-microseconds by bin."""
        return summed(self.slices)


@dataclass(frozen=True, kw_only=True)
class RunAccount:
    """What a run took. ``slices`` hold the real bins also in an exploration; :meth:`bins` puts those together."""

    run_uid: str
    scope: str
    attribution: Attribution
    attempts: tuple[AttemptAccount, ...]
    slices: tuple[Slice, ...]
    waits: dict[str, int]
    storage: Storage
    money: Money | None
    notes: tuple[CostNote, ...]

    @property
    def devices(self) -> tuple[Device, ...]:
        """What was held: accelerators first."""
        names: tuple[Device, ...] = ("accelerator", "machine")
        return tuple(name for name in names if any(piece.device == name for piece in self.slices))

    def inner(self, device: Device) -> dict[Bin, int]:
        """Device-microseconds by what really happened."""
        return summed(piece for piece in self.slices if piece.device == device)

    def bins(self, device: Device) -> dict[Bin, int]:
        """Device-microseconds by bin; an exploration is one bin."""
        inner = self.inner(device)
        if self.scope != "exploration":
            return inner
        return dict.fromkeys(BINS, 0) | {"exploration": sum(inner.values())}

    def allocated_us(self, device: Device) -> int:
        """What was held in all."""
        return sum(piece.device_us for piece in self.slices if piece.device == device)

    def unevidenced_us(self, device: Device) -> int:
        """What is idle only because nobody wrote down what happened."""
        return sum(p.device_us for p in self.slices if p.device == device and not p.evidenced)

    @property
    def queue_us(self) -> int:
        """Microseconds between the launch decisions and the first device of each attempt."""
        return sum(attempt.queue_us for attempt in self.attempts)

    def causes(self) -> list[tuple[str, int, Bin, Device, int]]:
        """Lost, recomputed and held time by the record that caused it: record, attempt, bin, device, device-µs."""
        found: dict[tuple[str, int, Bin, Device], int] = {}
        for piece in self.slices:
            if piece.cause:
                key = (piece.cause, piece.attempt, piece.bin, piece.device)
                found[key] = found.get(key, 0) + piece.device_us
        return [(*key, us) for key, us in found.items()]


def account(view: RunView, *, as_of: str | None = None) -> RunAccount:
    """The account of a run. ``as_of`` is until when stored bytes are counted: by default the newest record."""
    evidence = evidence_of(view)
    legs = legs_of(evidence)
    parts = {one.attempt: [leg for leg in legs if leg.attempt == one.attempt] for one in evidence}
    steps = {one.attempt: typical_step(one, parts[one.attempt]) for one in evidence}
    known = [step for step in steps.values() if step is not None]
    usual = round(statistics.median(known)) if known else None
    attempts = tuple(_attempt(view, one, parts[one.attempt], steps[one.attempt], usual) for one in evidence)
    slices = tuple(piece for one in attempts for piece in one.slices) + tuple(_evaluations(view))
    opened = view.opened
    scope = str(opened.conf.get("scope", "full")) if opened else "full"
    if any(intent.scope == "exploration" for _, intent in view.all(kinds.LaunchIntended)):
        scope = "exploration"
    attribution, storage = attribution_of(view), storage_of(view, as_of)
    return RunAccount(
        run_uid=view.run_uid, scope=scope, attribution=attribution, attempts=attempts, slices=slices,
        waits=waits_of(view), storage=storage, notes=tuple(_fallbacks(evidence, legs)),
        money=money_of(view, sum(p.device_us for p in slices if p.device == "accelerator"), storage),
    )  # fmt: skip


def _attempt(
    view: RunView, one: AttemptEvidence, legs: Sequence[Leg], step: int | None, usual: int | None
) -> AttemptAccount:
    held, notes = holdings_of(view, one)
    tiling = tile(one, legs, typical=step if step is not None else usual)
    slices = [piece for holding in held for piece in _cut(holding, held, tiling, one.attempt)]
    if tiling.behind:
        notes.append(note("behind", n=tiling.behind))
    if one.coarse:
        notes.append(note("coarse"))
    if one.every > 1:
        notes.append(note("thinned", n=one.every))
    if one.state is None:
        notes.append(note("open"))
    start = min((holding.start for holding in held), default=one.end)
    return AttemptAccount(
        attempt=one.attempt, state=one.state, device=held[0].device if held else "machine",
        devices=sum(h.devices for h in held), members=len({h.worker for h in held}),
        allocated_us=sum((h.end - h.start) * h.devices for h in held), queue_us=max(0, start - one.intent_at),
        step_us=step, save_seconds=tuple(one.saves), slices=tuple(slices), notes=tuple(notes),
    )  # fmt: skip


def _cut(holding: Holding, held: Sequence[Holding], tiling: Tiling, attempt: int) -> Iterable[Slice]:
    """A member's time: getting ready, waiting for the others, then what the attempt did, then the rest."""
    cursor = holding.start

    def piece(
        until: int, name: Bin, detail: str = "", cause: str = "", *, evidenced: bool = True
    ) -> Iterable[Slice]:
        nonlocal cursor
        stop = min(max(until, cursor), holding.end)
        if stop > cursor:
            took, cursor = (stop - cursor) * holding.devices, stop
            yield Slice(
                attempt=attempt, worker=holding.worker, device=holding.device, bin=name, device_us=took,
                detail=detail, cause=cause, evidenced=evidenced,
            )  # fmt: skip

    beside = [
        h.ready for h in held if h.ready is not None and h.start < holding.end and holding.start < h.end
    ]
    works = (
        s.start for s in tiling.stretches if s.bin != "start_up" and s.evidenced and s.end > holding.start
    )
    together = min(max(beside, default=holding.end), max(next(works, tiling.end), holding.start))
    if len(held) > 1 or holding.ready != holding.start:
        yield from piece(holding.ready if holding.ready is not None else holding.end, "start_up", "member")
        yield from piece(together, "waiting", "members")
    for stretch in tiling.stretches:
        if stretch.end <= cursor:
            continue
        yield from piece(stretch.start, "start_up", "start")
        yield from piece(stretch.end, stretch.bin, stretch.detail, stretch.cause, evidenced=stretch.evidenced)
    yield from piece(holding.end, "idle_hold", "after_end")


def _evaluations(view: RunView) -> Iterable[Slice]:
    """What evaluation programs took after training, where they told; without accelerators the machine counts."""
    made = [(fact.seconds, fact.devices, "program") for _, fact in view.all(kinds.EvaluationReported)]
    made += [(fact.seconds, fact.devices, "failed") for _, fact in view.all(kinds.EvaluationFailed)]
    for seconds, devices, detail in made:
        if seconds is not None:
            seen = devices or 0
            yield Slice(
                attempt=0, worker=0, device="accelerator" if seen else "machine", bin="evaluation",
                device_us=micros(seconds) * max(1, seen), detail=detail,
            )  # fmt: skip


def _fallbacks(evidence: Sequence[AttemptEvidence], legs: Sequence[Leg]) -> Iterable[CostNote]:
    """Attempts that went on from an older checkpoint than the newest that had counted."""
    saved = 0
    for one in evidence:
        first = next((leg for leg in legs if leg.attempt == one.attempt), None)
        if first is not None and first.base < saved:
            yield note("fell_back", attempt=one.attempt, base=first.base, saved=saved)
        saved = max(saved, one.saved or 0)


def document(found: RunAccount) -> dict[str, object]:
    """The account as plain JSON; seconds have six digits, which are all there are."""
    return {
        "run_uid": found.run_uid,
        "scope": found.scope,
        "attribution": found.attribution.to_dict(),
        "devices": [
            {
                "device": device,
                "allocated_seconds": as_seconds(found.allocated_us(device)),
                "bins": {name: as_seconds(us) for name, us in found.bins(device).items()},
                "inner": {name: as_seconds(us) for name, us in found.inner(device).items()},
                "unevidenced_seconds": as_seconds(found.unevidenced_us(device)),
            }
            for device in found.devices
        ],
        "queue_seconds": as_seconds(found.queue_us),
        "waits": {reason: as_seconds(us) for reason, us in found.waits.items()},
        "attempts": [_attempt_document(one) for one in found.attempts],
        "causes": [
            {
                "record": record,
                "attempt": attempt,
                "bin": name,
                "device": device,
                "device_seconds": as_seconds(us),
            }
            for record, attempt, name, device, us in found.causes()
        ],
        "storage": found.storage.to_dict(),
        "money": found.money.to_dict() if found.money else None,
        "notes": [one.text() for one in found.notes],
    }


def _attempt_document(one: AttemptAccount) -> dict[str, object]:
    details: dict[str, int] = {}
    for piece in one.slices:
        if piece.detail:
            key = f"{piece.bin}/{piece.detail}"
            details[key] = details.get(key, 0) + piece.device_us
    return {
        "attempt": one.attempt, "state": one.state, "device": one.device, "devices": one.devices,
        "members": one.members, "allocated_seconds": as_seconds(one.allocated_us),
        "queue_seconds": as_seconds(one.queue_us),
        "bins": {name: as_seconds(us) for name, us in one.bins.items()},
        "details": {key: as_seconds(us) for key, us in details.items()},
        "step_seconds": None if one.step_us is None else as_seconds(one.step_us),
        "notes": [said.text() for said in one.notes],
    }  # fmt: skip
