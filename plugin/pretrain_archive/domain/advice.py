"""How often to save: advice from measured save time and recorded failures, with what is not known about it. Pure.

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM
17(9), 1974; J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
Generation Computer Systems 22(3), 2006 (the interval, and the wall time of a run of a given interval). F. Garwood,
"Fiducial limits for the Poisson distribution", Biometrika 28, 1936 (limits of a rate from few events). J. A. Hanley
and A. Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249(13), 1983 (none seen: the rule of
three). All of them assume that failures come independently at a constant rate; that is not checked here.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost import RunAccount
from pretrain_archive.domain.cost_bins import MICRO
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.training import charged_seconds

LOST_WORK = {"failed", "lost", "interrupted"}
OWN_FAULT = {"user_error", "completed", "stopped", "deadline"}
"""Ends that more checkpoints do not help against: they would have come again, or a rule wanted them."""


def young(save: float, mtbf: float) -> float:
    """Seconds of work between two saves, first order: √(2 δ M). Good where δ is far below M (Young 1974)."""
    return math.sqrt(2 * save * mtbf)


def daly(save: float, mtbf: float) -> float:
    """Seconds of work between two saves, higher order (Daly 2006).

    √(2δM) · (1 + ⅓ √(δ/2M) + ⅑ δ/2M) − δ while δ < 2M, and M from there on.
    """
    if save >= 2 * mtbf:
        return mtbf
    part = save / (2 * mtbf)
    return young(save, mtbf) * (1 + math.sqrt(part) / 3 + part / 9) - save


def overhead(interval: float, save: float, mtbf: float, restart: float) -> float:
    """Wall time over the time of the bare work, minus one (Daly 2006, the complete cost function).

    M e^(R/M) (e^((τ+δ)/M) − 1) / τ for an interval τ, save time δ, restart time R and mean time M between failures.
    """
    exponent = (interval + save) / mtbf
    if exponent > 500:
        return math.inf
    return mtbf * math.exp(min(500.0, restart / mtbf)) * math.expm1(exponent) / interval - 1


def rate_limits(events: int, *, level: float = 0.95) -> tuple[float, float]:
    """Limits of the expected number of events where ``events`` were seen (Garwood 1936); 0 events: 0 and 3."""
    if events == 0:
        return 0.0, 3.0
    tail = (1 - level) / 2
    low = _solve(lambda mean: 1 - _at_most(events - 1, mean), tail, events)
    high = _solve(lambda mean: 1 - _at_most(events, mean), 1 - tail, events)
    return low, high


def _at_most(events: int, mean: float) -> float:
    """The chance of at most so many events of a Poisson distribution."""
    if mean <= 0:
        return 1.0
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(events + 1))


def _solve(function: Any, wanted: float, events: int) -> float:
    """Where a rising function takes a value, by halving."""
    low, high = 0.0, 10.0 + 3 * events
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < wanted else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """Seconds that attempts ran and the failures that more checkpoints would have helped against."""

    seconds: float = 0.0
    failures: int = 0

    def __add__(self, other: History) -> History:
        return History(seconds=self.seconds + other.seconds, failures=self.failures + other.failures)


def history_of(view: RunView) -> History:
    """What a run's ended attempts tell of failures; a rule's stop and a fault of the program itself are none."""
    failures = sum(
        end.state in LOST_WORK and end.exit_class not in OWN_FAULT for _, end in view.all(kinds.AttemptEnded)
    )
    return History(seconds=sum(charged_seconds(view).values()), failures=failures)


Combination = tuple[str, int, int]
"""Accelerator, how many, and on how many nodes."""


def combination_of(view: RunView) -> Combination | None:
    """What a run was to run on, None where that is unrecorded.

    What one combination was seen to do says nothing of another one (R078): failures of other hardware, of more nodes
    or of none are never taken for those of this run.
    """
    declared = view.latest(kinds.ConfigurationDeclared)
    if declared is None:
        return None
    budget = declared.budget
    return budget.accelerator, budget.accelerators, budget.nodes


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """Where ``missing`` names something, no number is advised. Seconds are of work between two saves.

    ``mtbf_low`` and ``mtbf_high`` are the 95 % limits (high None: no failure was ever seen); ``interval_low`` and
    ``interval_high`` what would be advised there. ``saving`` is the share of the bare work that would be spared.
    """

    missing: tuple[str, ...] = ()
    save_seconds: float | None = None
    saves: int = 0
    save_estimated: bool = False
    step_seconds: float | None = None
    restart_seconds: float | None = None
    failures: int = 0
    observed_seconds: float = 0.0
    mtbf: float | None = None
    mtbf_low: float | None = None
    mtbf_high: float | None = None
    current_steps: int | None = None
    current_seconds: float | None = None
    young_seconds: float | None = None
    interval_seconds: float | None = None
    interval_steps: int | None = None
    interval_low: float | None = None
    interval_high: float | None = None
    first_order_holds: bool | None = None
    current_overhead: float | None = None
    advised_overhead: float | None = None
    saving: float | None = None

    @property
    def bound_only(self) -> bool:
        """No failure was ever seen: the interval is the shortest that can be right, not the best one."""
        return not self.missing and self.failures == 0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, with the text."""
        return {
            **asdict(self),
            "missing": list(self.missing),
            "bound_only": self.bound_only,
            "text": self.text(),
        }

    def text(self) -> list[str]:
        """The advice in words, claiming no more than the numbers hold."""
        if self.missing:
            return [f"no advice on the checkpoint interval: {', '.join(self.missing)}"]
        seen = (
            f"{self.failures} failures in {self.observed_seconds:.0f} s, save {self.save_seconds:.3f} s"
            f" ({'estimated' if self.save_estimated else f'{self.saves} measured'})"
        )
        now = f"now every {self.current_steps} steps ({self.current_seconds:.1f} s)"
        if self.bound_only:
            more_often = f"every {self.interval_steps} steps ({self.interval_seconds:.1f} s)"
            return [
                f"checkpoint interval: no failure was seen ({seen}); {now}",
                f"saving more often than {more_often} cannot be justified by what was seen (rule of three)",
                "how much longer an interval would be right is not known",
            ]
        high = "unlimited" if self.interval_high is None else f"{self.interval_high:.1f} s"
        best = f"every {self.interval_steps} steps ({self.interval_seconds:.1f} s) by Daly 2006"
        limits = f"{self.mtbf_low:.0f} s to {self.mtbf_high:.0f} s"
        return [
            f"checkpoint interval: {best}; {now}",
            f"{seen}: one in {self.mtbf:.0f} s, 95 % limits {limits}",
            f"within these limits the interval lies between {self.interval_low:.1f} s and {high}",
            f"expected saving: {100 * (self.saving or 0.0):.2f} % of the bare work",
        ]


def advise(view: RunView, account: RunAccount, others: Iterable[History] = ()) -> Advice:
    """Advice for the next run like this one.

    ``others`` are histories of other runs of the project on the same combination; of others nothing is taken.
    """
    declared = view.latest(kinds.ConfigurationDeclared)
    every = declared.checkpoints.every_steps if declared else None
    saves, estimated = _saves(account)
    steps = [one.step_us / MICRO for one in account.attempts if one.step_us]
    history = sum(others, history_of(view))
    gaps = {
        "the seconds of a save are unrecorded": not saves,
        "the time of a step is unrecorded": not steps,
        "the configured interval is unrecorded": every is None,
        "no attempt has ended": history.seconds <= 0,
    }
    missing = tuple(name for name, is_missing in gaps.items() if is_missing)
    known = Advice(
        missing=missing, saves=len(saves), save_estimated=estimated, failures=history.failures,
        save_seconds=statistics.median(saves) if saves else None, observed_seconds=history.seconds,
        step_seconds=statistics.median(steps) if steps else None, current_steps=every,
        restart_seconds=_restart(account),
    )  # fmt: skip
    return known if missing else _numbers(known)


def _numbers(known: Advice) -> Advice:
    save, step, every = known.save_seconds, known.step_seconds, known.current_steps
    assert save is not None
    assert step is not None
    assert every is not None
    save = max(save, 1e-6)
    low, high = rate_limits(known.failures)
    mtbf = known.observed_seconds / (known.failures or high)
    shortest = known.observed_seconds / high
    longest = known.observed_seconds / low if low > 0 else None
    best = max(daly(save, mtbf), step)
    whole = max(1, round(best / step))
    restart = known.restart_seconds or 0.0
    now, then = overhead(every * step, save, mtbf, restart), overhead(whole * step, save, mtbf, restart)
    return Advice(
        **{
            **asdict(known), "missing": known.missing, "mtbf": mtbf, "mtbf_low": shortest, "mtbf_high": longest,
            "current_seconds": every * step, "young_seconds": young(save, mtbf), "interval_seconds": best,
            "interval_steps": whole, "interval_low": max(daly(save, shortest), step),
            "interval_high": max(daly(save, longest), step) if longest else None,
            "first_order_holds": save < mtbf / 2, "current_overhead": _finite(now), "advised_overhead": _finite(then),
            "saving": _finite(max(0.0, now - then)) if known.failures else None,
        }
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return round(value, 9) if math.isfinite(value) else None


def _saves(account: RunAccount) -> tuple[list[float], bool]:
    """Seconds of each save as programs measured them; else the mean of what was estimated, and True."""
    measured = [seconds for one in account.attempts for seconds in one.save_seconds]
    if measured:
        return measured, False
    estimated = [
        piece.device_us / MICRO / max(1, one.devices)
        for one in account.attempts
        for piece in one.slices
        if piece.detail == "estimated"
    ]
    return [seconds for seconds in estimated if seconds > 0], True


def _restart(account: RunAccount) -> float | None:
    """Seconds from holding devices to the first step, the middle of all attempts that came so far."""
    starts = [
        sum(p.device_us for p in one.slices if p.bin in {"start_up", "waiting"}) / MICRO / max(1, one.devices)
        for one in account.attempts
        if one.step_us is not None
    ]
    return statistics.median(starts) if starts else None
