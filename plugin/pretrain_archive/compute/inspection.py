"""The fixed order in which a run's work is inspected: alive, resources used, metrics moving (R090)."""

from __future__ import annotations

from pretrain_archive.domain.kinds import AttemptEnded, AttemptStarted, MetricsRecorded
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict

_BUSY = 0.05  # below this share of one CPU a training process waits for something


def inspect_run(view: RunView, *, metric: str = "train_loss", direction: str = "lower") -> list[Item]:
    """Three advisory items of the latest attempt, always in this order: task, resources, metrics.

    ``metric`` should move in ``direction`` (lower or higher). Pure; what was not recorded is unrecorded.
    """
    return [_alive(view), _used(view), _moving(view, metric, direction)]


def _item(name: str, verdict: Verdict, check: str, expected: str, found: str, evidence: str = "") -> Item:  # noqa: PLR0917
    return Item(
        id=f"inspection.{name}", track="compute", verdict=verdict, check=check, expected=expected, found=found,
        blocking=False, evidence=(evidence,) if evidence else (), requirement="R090",
    )  # fmt: skip


def _alive(view: RunView) -> Item:
    check, expected = "attempt.started and attempt.ended of the latest attempt", "running or completed"
    ended, started = view.last(AttemptEnded), view.last(AttemptStarted)
    newest = max((fact for fact in (ended, started) if fact), key=lambda fact: fact[0].attempt, default=None)
    if newest is None:
        return _item("task", Verdict.UNRECORDED, check, expected, "no attempt")
    if ended is None or (started and started[0].attempt > ended[0].attempt):
        return _item("task", Verdict.VERIFIED, check, expected, "running", newest[0].record_id)
    good = ended[1].state == "completed"
    verdict = Verdict.VERIFIED if good else Verdict.CHANGED
    return _item("task", verdict, check, expected, ended[1].state, ended[0].record_id)


def _used(view: RunView) -> Item:
    check, expected = "CPU seconds over wall seconds", f"at least {_BUSY:g} of one CPU"
    ended = view.last(AttemptEnded)
    if ended is None or not ended[1].seconds or ended[1].cpu_seconds is None:
        return _item("resources", Verdict.UNRECORDED, check, expected, "not recorded")
    share = ended[1].cpu_seconds / ended[1].seconds
    verdict = Verdict.VERIFIED if share >= _BUSY else Verdict.CHANGED
    return _item("resources", verdict, check, expected, f"{share:.2f} of one CPU", ended[0].record_id)


def _moving(view: RunView, metric: str, direction: str) -> Item:
    check, expected = f"last fifth of {metric} against the first fifth", f"{direction} at the end"
    facts = [(r, p) for r, batch in view.all(MetricsRecorded) for p in batch.points if p.name == metric]
    values = [p.value for _, p in facts if p.value is not None]
    if any(p.not_finite for _, p in facts):
        return _item("metrics", Verdict.CHANGED, check, expected, "not finite", facts[-1][0].record_id)
    part = max(1, len(values) // 5)
    if len(values) < 2:
        return _item("metrics", Verdict.UNRECORDED, check, expected, f"{len(values)} points")
    first, last = sum(values[:part]) / part, sum(values[-part:]) / part
    good = last < first if direction == "lower" else last > first
    verdict = Verdict.VERIFIED if good else Verdict.CHANGED
    return _item("metrics", verdict, check, expected, f"{first:.4g} to {last:.4g}", facts[-1][0].record_id)
