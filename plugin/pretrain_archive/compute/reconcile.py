"""After a recovery: progress, duplicates, results, members and data compared with what was there before.

Pure over a run's records. Each check is verified, changed or unrecorded; what a program did not report is unrecorded
and never assumed. Rules:

* progress: the first step after a resume is the resume step plus the distance at which the program reports, and no
  later step goes back or leaves a gap;
* duplicates: a step that two attempts report counts for the later one; values that differ by more than
  :data:`TOLERANCE` are named, and so are two checkpoints of one step with different bytes;
* results: each step counts once in the curve, and no attempt reports a step twice;
* loaded: every worker of the group says that it loaded the checkpoint, with the bytes that were registered: that a
  checkpoint could be written does not prove that all can load it;
* data: every worker read the same list of files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pretrain_archive.domain.kinds import (
    AttemptEnded,
    AttemptReconciled,
    AttemptStarted,
    CheckpointRegistered,
    MetricPoint,
    MetricsRecorded,
)
from pretrain_archive.domain.members import Reported, data_read, loaded_checkpoint
from pretrain_archive.domain.run_view import RunView

TOLERANCE = 1e-3
"""Relative: two computations of one step on the same machines differ by the order of additions, not by more."""
NAMED = 5
"""How many steps or workers a check names."""
LOSSES = ("loss", "train_loss", "train/loss")


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One comparison; ``verdict`` is verified, changed or unrecorded."""

    name: str
    verdict: str
    expected: str
    found: str

    def to_dict(self) -> dict[str, Any]:
        """The check as plain JSON."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "expected": self.expected,
            "found": self.found,
        }


def _check(name: str, holds: bool | None, expected: str, found: str) -> Check:
    verdict = "unrecorded" if holds is None else "verified" if holds else "changed"
    return Check(name=name, verdict=verdict, expected=expected, found=found)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Told:
    """What the attempts of a run reported of one metric, in the order of reporting."""

    metric: str
    points: Mapping[int, tuple[MetricPoint, ...]]

    def steps(self, attempt: int) -> list[int]:
        return [point.step for point in self.points.get(attempt, ())]

    def before(self, attempt: int) -> dict[int, tuple[int, MetricPoint]]:
        """The newest point of each step by an earlier attempt."""
        known: dict[int, tuple[int, MetricPoint]] = {}
        for number in sorted(self.points):
            if number < attempt:
                known.update({point.step: (number, point) for point in self.points[number]})
        return known

    def stride(self) -> int:
        """The distance at which the program reports: the one that it keeps most often."""
        gaps = Counter(b - a for number in self.points for a, b in pairwise(self.steps(number)) if b > a)
        return min((gap for gap, n in gaps.items() if n == max(gaps.values())), default=1)


def _told(view: RunView) -> _Told:
    found: dict[str, dict[int, list[MetricPoint]]] = {}
    for _, batch in view.all(MetricsRecorded):
        for point in batch.points:
            found.setdefault(point.name, {}).setdefault(batch.attempt, []).append(point)
    own = {name: by for name, by in found.items() if not name.startswith(("system/", "data_read_"))}
    names = [name for name in LOSSES if name in own] or sorted(
        own, key=lambda name: -sum(map(len, own[name].values()))
    )
    points = own[names[0]] if names else {}
    return _Told(metric=names[0] if names else "", points={n: tuple(p) for n, p in points.items()})


def reconcile(view: RunView, attempt: int) -> AttemptReconciled:
    """Compare what ``attempt``, which took over from an earlier one, did with what was there before."""
    started = next((s for _, s in view.all(AttemptStarted) if s.attempt == attempt), None)
    told = _told(view)
    resume = started.resume_step if started else None
    path = started.resume_from if started else None
    loaded = loaded_checkpoint(view, attempt)
    earlier = [end.last_step for _, end in view.all(AttemptEnded) if end.attempt < attempt]
    furthest = max((step for step in earlier if step is not None), default=None)
    mine = max((s for s in told.steps(attempt)), default=None)
    checks = [
        _progress(told, attempt, resume or 0) if started else _unstarted("progress"),
        _duplicates(told, attempt),
        _checkpoints(view, attempt),
        _results(told, attempt),
        _reported("loaded", loaded),
        _reported("data", data_read(view, attempt)),
    ]
    return AttemptReconciled(
        attempt=attempt, resumed_from=path, resume_step=resume, members_loaded=loaded.good,
        members_expected=loaded.size,
        steps_lost=None if furthest is None or not started else max(0, furthest - (resume or 0)),
        steps_repeated=(
            None if furthest is None or mine is None or not started else max(0, min(furthest, mine) - (resume or 0))
        ),
        checks=[check.to_dict() for check in checks],
    )  # fmt: skip


def _reported(name: str, said: Reported) -> Check:
    return _check(name, said.holds, said.expected, said.found)


def _unstarted(name: str) -> Check:
    return _check(name, None, "", "the attempt has no recorded start")


def _progress(told: _Told, attempt: int, resume: int) -> Check:
    steps, stride = told.steps(attempt), told.stride()
    expected = f"on from step {resume}, a report every {stride} step(s), no gap and no jump"
    if not steps:
        return _check("progress", None, expected, "no step was reported after the resume")
    faults = []
    if not resume < steps[0] <= resume + stride:
        faults.append(f"first step {steps[0]} after the resume at {resume}")
    for before, after in pairwise(steps):
        if after < before:
            faults.append(f"step {after} after {before}")
        elif after > before + stride:
            faults.append(f"nothing between {before} and {after}")
    return _check(
        "progress", not faults, expected, _named(faults) or f"step {steps[0]} to {steps[-1]}, {len(steps)} reports"
    )  # fmt: skip


def _named(faults: list[str]) -> str:
    more = f" and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
    return "; ".join(faults[:NAMED]) + more


def _same(one: float | None, other: float | None) -> bool:
    """Two values of a step; not finite equals not finite."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-12)


def _duplicates(told: _Told, attempt: int) -> Check:
    known = told.before(attempt)
    pairs = [(p, *known[p.step]) for p in told.points.get(attempt, ()) if p.step in known]
    expected = f"the same {told.metric or 'values'} within {TOLERANCE:g} where a step was done twice"
    if not told.points.get(attempt):
        return _check("duplicates", None, expected, "no value was reported after the resume")
    other = [
        f"step {new.step}: {_value(old)} in attempt {number}, {_value(new)} in attempt {attempt}"
        for new, number, old in pairs
        if not _same(new.value, old.value)
    ]
    found = f"{len(pairs)} steps were done twice, attempt {attempt} counts"
    return _check("duplicates", not other, expected, f"{found}; {_named(other)}" if other else found)


def _value(point: MetricPoint) -> str:
    return point.not_finite or f"{point.value:.6g}"


def _checkpoints(view: RunView, attempt: int) -> Check:
    """Checkpoints of the same step, registered twice."""
    kept = {c.checkpoint_id: c for _, c in view.all(CheckpointRegistered)}.values()
    before = {c.step: c for c in sorted(kept, key=lambda c: c.attempt) if c.attempt < attempt}
    mine = [c for c in kept if c.attempt == attempt]
    other = [
        f"step {c.step}: {before[c.step].digest[:19]}… in attempt {before[c.step].attempt}, {c.digest[:19]}…"
        for c in mine
        if c.step in before and c.digest != before[c.step].digest
    ]
    found = (
        _named(other) or f"{len(mine)} new checkpoints, none of a step that was registered with other bytes"
    )
    return _check("checkpoints", not other, "the same bytes where a step was saved twice", found)


def effective(view: RunView) -> dict[int, tuple[int, float | None]]:
    """The curve without double counting: by step the attempt that counts and its value (None: not finite).

    A step counts for the latest attempt that reported it, in that attempt the last report.
    """
    told = _told(view)
    return {
        step: (number, point.value) for step, (number, point) in sorted(told.before(10**9).items())
    }  # before: every attempt


def _results(told: _Told, attempt: int) -> Check:
    expected = "each step counts once"
    if not told.points.get(attempt):
        return _check("results", None, expected, "no value was reported after the resume")
    twice = [
        f"attempt {number} reports step {step} {count} times"
        for number in sorted(told.points)
        for step, count in Counter(told.steps(number)).items()
        if count > 1
    ]
    counted = told.before(10**9)
    all_points = sum(len(points) for points in told.points.values())
    last = max(counted)
    found = (
        f"{len(counted)} steps count, {all_points - len(counted)} reports are set aside; "
        f"last step {last} of attempt {counted[last][0]}"
    )
    return _check("results", not twice, expected, f"{found}; {_named(twice)}" if twice else found)


def unreconciled(view: RunView) -> list[int]:
    """Ended attempts that took over from an earlier one and were not reconciled yet, oldest first."""
    ended = {end.attempt for _, end in view.all(AttemptEnded)}
    known = {done.attempt for _, done in view.all(AttemptReconciled)}
    first = min(ended, default=0)
    return sorted(n for n in ended - known if n > first)
