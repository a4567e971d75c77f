"""Acceptance rules, fixed before the launch, and how they decide.

A rule passes only on a finite number that meets it. ``not (value > limit)`` would let NaN through, so every
comparison is asked in the positive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pretrain_archive.artifacts.metrics import Reading
from pretrain_archive.domain.kinds import MetricResult, RunOpened

Direction = Literal["lower", "higher"]


class Rule(Protocol):
    """Decides on a reading."""

    def decide(self, reading: Reading) -> dict[str, Any]:
        """The outcome as plain JSON: at least name, metric, passed, observed, limit, reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """The metric is at most (``lower``) or at least (``higher``) the limit."""

    metric: str
    direction: Direction
    limit: float

    def decide(self, reading: Reading) -> dict[str, Any]:
        """See :class:`Rule`."""
        name = f"{self.metric} {'at most' if self.direction == 'lower' else 'at least'} {self.limit:g}"
        value, reason = _value(reading.metrics, self.metric)
        passed = value is not None and _meets(value, self.limit, self.direction)
        return _outcome(name, self.metric, passed=passed, observed=value, limit=self.limit, reason=reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class BetterThanBaselines:
    """The metric beats every baseline; with ``allow_equal`` it may tie. No baseline fails."""

    metric: str
    direction: Direction
    allow_equal: bool = False

    def decide(self, reading: Reading) -> dict[str, Any]:
        """See :class:`Rule`."""
        name = f"{self.metric} better than every baseline"
        value, reason = _value(reading.metrics, self.metric)
        if not reading.baselines:
            return _outcome(name, self.metric, passed=False, observed=value, limit=None, reason="no baseline")
        limits: list[float] = []
        for baseline in reading.baselines:
            limit, fault = _value(baseline.metrics, self.metric)
            if limit is None:
                reason = f"baseline {baseline.name}: {fault}"
            else:
                limits.append(limit)
        if value is None or len(limits) < len(reading.baselines):
            return _outcome(name, self.metric, passed=False, observed=value, limit=None, reason=reason)
        best = min(limits) if self.direction == "lower" else max(limits)
        passed = _meets(value, best, self.direction) and (self.allow_equal or value != best)
        return _outcome(name, self.metric, passed=passed, observed=value, limit=best, reason="")


def rules_of(opened: RunOpened) -> tuple[Rule, ...]:
    """The rules that the run's request fixed: its limit, and that it beats its baselines unless it says no."""
    purpose = opened.purpose
    rules: list[Rule] = []
    if purpose is None:  # unrecorded: no rule, and without rules nothing passes
        return ()
    if purpose.acceptance_limit is not None:
        rules.append(
            Limit(
                metric=purpose.acceptance_metric,
                direction=purpose.acceptance_direction,
                limit=purpose.acceptance_limit,
            )
        )
    if opened.conf.get("must_beat_baselines", True):
        rules.append(
            BetterThanBaselines(metric=purpose.acceptance_metric, direction=purpose.acceptance_direction)
        )
    return tuple(rules)


def wanted_directions(rules: Sequence[Rule]) -> Mapping[str, Direction]:
    """The direction that the rules fix for each metric they name."""
    return {rule.metric: rule.direction for rule in rules if isinstance(rule, Limit | BetterThanBaselines)}


def _meets(value: float, limit: float, direction: Direction) -> bool:
    return value <= limit if direction == "lower" else value >= limit


def _value(metrics: Sequence[MetricResult], name: str) -> tuple[float | None, str]:
    found = [metric for metric in metrics if metric.name == name]
    if not found:
        return None, f"{name} was not measured"
    if len(found) > 1:
        return None, f"{name} is given {len(found)} times"
    if found[0].value is None:
        return None, f"{name} is not a finite number ({found[0].not_finite})"
    return found[0].value, ""


def _outcome(
    name: str, metric: str, *, passed: bool, observed: float | None, limit: float | None, reason: str
) -> dict[str, Any]:
    if not passed and not reason:
        reason = f"observed {observed:g}, limit {limit:g}"
    return {
        "name": name,
        "metric": metric,
        "passed": passed,
        "observed": observed,
        "limit": limit,
        "reason": reason,
    }
