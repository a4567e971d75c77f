"""For how long attempts waited, by the reason that the cluster gave (R224)."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost_clock import moment
from pretrain_archive.domain.run_view import RunView


def waits_of(view: RunView) -> dict[str, int]:
    """Microseconds by wait reason: each holds until the next one, its end or the attempt's start or end."""
    waits: dict[str, int] = {}
    running: dict[int, tuple[str, int]] = {}
    for record in view.records:
        if record.kind == "wait.observed":
            wait = kinds.read_payload(record, kinds.WaitObserved)
            at = moment(wait.at) or moment(record.recorded_at) or 0
            _close(waits, running, wait.attempt, at)
            if not wait.ended:
                running[wait.attempt] = (wait.reason, at)
        elif record.kind in {"attempt.started", "attempt.ended", "job.removed"}:
            _close(waits, running, record.attempt, moment(record.recorded_at) or 0)
    if view.records:
        last = moment(view.records[-1].recorded_at) or 0
        for attempt in list(running):
            _close(waits, running, attempt, last)
    return waits


def _close(waits: dict[str, int], running: dict[int, tuple[str, int]], attempt: int, at: int) -> None:
    if attempt in running:
        reason, since = running.pop(attempt)
        waits[reason] = waits.get(reason, 0) + max(0, at - since)
