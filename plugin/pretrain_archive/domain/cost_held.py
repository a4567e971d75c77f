"""Which devices an attempt held, from when to when: one holding for each member.

On a cluster a member holds its devices from the moment that a node was given to it until it ended. On one machine the
attempt is one holding for as long as its wrapper ran. Without accelerators the machine counts as one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost_bins import Device
from pretrain_archive.domain.cost_clock import moment
from pretrain_archive.domain.cost_evidence import AttemptEvidence
from pretrain_archive.domain.cost_notes import CostNote, note
from pretrain_archive.domain.run_view import RunView

GONE = {"Succeeded", "Failed", "Deleted", "Removed"}
"""Phases in which a member holds nothing any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """``devices`` held by ``worker`` from ``start`` to ``end``; ``ready`` is when it began to work, None: never.

    ``ended`` False means that nobody saw its end: it is taken to last to that of its attempt.
    """

    worker: int
    device: Device
    devices: int
    start: int
    end: int
    ready: int | None
    ended: bool = True


def holdings_of(view: RunView, attempt: AttemptEvidence) -> tuple[list[Holding], list[CostNote]]:
    """What the attempt held, and notes on what had to be taken from elsewhere than its members."""
    asked, device, notes = _asked(view, attempt.attempt)
    members = [m for _, m in view.all(kinds.MemberObserved) if m.attempt == attempt.attempt]
    if not members:
        if any(job.attempt == attempt.attempt for _, job in view.all(kinds.JobCreated)):
            notes.append(note("members"))
        whole = Holding(
            worker=0, device=device, devices=asked, start=attempt.begin, end=attempt.end, ready=attempt.begin
        )
        return [whole], notes
    seen: dict[tuple[int, str], list[kinds.MemberObserved]] = {}
    for member in members:
        seen.setdefault((member.worker, member.uid or member.name), []).append(member)
    workers = max(1, *(worker + 1 for worker, _ in seen))
    removed = _removed(view, attempt.attempt)
    held = []
    for (worker, _), told in seen.items():
        holding = _holding(told, _share(asked, worker, workers), device, removed or attempt.end)
        if holding and holding.devices:  # more members than devices: some hold none
            held.append(holding)
    return _apart(sorted(held, key=lambda h: (h.worker, h.start))), notes


def _asked(view: RunView, attempt: int) -> tuple[int, Device, list[CostNote]]:
    """Devices of the whole attempt: what was asked for, or less where less was there."""
    declared = view.latest(kinds.ConfigurationDeclared)
    asked = declared.budget.accelerators if declared else 0
    seen: object = None
    for _, started in view.all(kinds.AttemptStarted):
        if started.attempt == attempt:
            told = started.requested.get("accelerators")
            asked = told if isinstance(told, int) else asked
            seen = started.allocated.get("accelerators")
    if asked <= 0:
        return 1, "machine", []
    if isinstance(seen, int) and not isinstance(seen, bool) and 0 < seen < asked:
        return seen, "accelerator", [note("fewer", asked=asked, there=seen)]
    return asked, "accelerator", []


def _share(asked: int, worker: int, workers: int) -> int:
    """Devices of one member where it does not say: the whole in equal parts, the first ones one more."""
    return asked // workers + (1 if worker < asked % workers else 0)


def _removed(view: RunView, attempt: int) -> int | None:
    moments = [moment(gone.at) for _, gone in view.all(kinds.JobRemoved) if gone.attempt == attempt]
    return min((at for at in moments if at is not None), default=None)


def _holding(told: Sequence[kinds.MemberObserved], share: int, device: Device, until: int) -> Holding | None:
    """What one member held, or None if no node was ever given to it."""
    placed = [at for m in told if (at := moment(m.allocated_at)) is not None]
    placed = placed or [at for m in told if m.node and (at := moment(m.at)) is not None]
    ready = min((at for m in told if (at := moment(m.started_at)) is not None), default=None)
    starts = [*placed, *([ready] if ready is not None else [])]
    if not starts:
        return None
    ends = [at for m in told if (at := moment(m.ended_at)) is not None]
    gone = [m for m in told if m.ended_at is None and (m.phase in GONE or m.exit_class is not None)]
    ends += [at for m in gone if (at := moment(m.at)) is not None]
    named = next((len(m.devices) for m in reversed(told) if m.devices), None)
    count = 1 if device == "machine" else named if named is not None else share
    start = min(starts)
    end = max(start, min(ends, default=max(until, start)))
    ready = None if ready is None else min(max(ready, start), end)
    return Holding(
        worker=told[0].worker, device=device, devices=count, start=start, end=end, ready=ready, ended=bool(ends)
    )  # fmt: skip


def _apart(held: Sequence[Holding]) -> list[Holding]:
    """One place is never held twice: a worker's second pod begins where its first one ended at the earliest.

    A first pod of which no end is known ended where the second one began.
    """
    result: list[Holding] = []
    for holding in held:
        before = result[-1] if result and result[-1].worker == holding.worker else None
        if before is not None and not before.ended:
            end = max(before.start, min(before.end, holding.start))
            before = replace(before, end=end, ready=None if before.ready is None else min(before.ready, end))
            result[-1] = before
        start = holding.start if before is None else max(holding.start, before.end)
        end = max(start, holding.end)
        ready = None if holding.ready is None else max(holding.ready, start)
        result.append(replace(holding, start=start, end=end, ready=ready))
    return result
