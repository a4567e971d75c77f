"""Acceptance rules, fixed before the launch, and how they decide.

A rule passes only on a finite number that meets it. ``not (value > limit)`` would let NaN through, so every
comparison is asked in the positive. Rules come from the request and the policy as they stood when the run was opened;
one that was added after the launch is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pretrain_archive.artifacts.reading import Reading, share_and_percent
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import Baseline, MetricResult, RunOpened
from pretrain_archive.domain.policy_evaluation import Evaluation
from pretrain_archive.domain.run_view import RunView

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
        value, reason = measured(reading.metrics, self.metric)
        if value is not None:
            reason = self._other_scale(reading.metrics, value)
        passed = value is not None and not reason and _meets(value, self.limit, self.direction)
        return _outcome(name, self.metric, passed=passed, observed=value, limit=self.limit, reason=reason)

    def _other_scale(self, metrics: Sequence[MetricResult], value: float) -> str:
        """Why the limit is of another scale than the value, empty if it is not: 35 is no accuracy above 0.9."""
        unit = answering(metrics, self.metric)[0].unit.lower()
        if unit in {"", "%", "percent"} and share_and_percent(self.metric, value, self.limit):
            return f"observed {value:g}, limit {self.limit:g}: one is a share, the other a percentage"
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BetterThanBaselines:
    """The metric beats every baseline; with ``allow_equal`` it may tie. No baseline fails."""

    metric: str
    direction: Direction
    allow_equal: bool = False

    def decide(self, reading: Reading) -> dict[str, Any]:
        """See :class:`Rule`."""
        name = f"{self.metric} better than every baseline"
        value, reason = measured(reading.metrics, self.metric)
        counted = reading.counted
        if not counted:
            return _outcome(
                name, self.metric, passed=False, observed=value, limit=None, reason=reason or "no baseline"
            )
        limits, fault = self._limits(counted)
        if value is None or fault:
            reason = reason or fault
            return _outcome(name, self.metric, passed=False, observed=value, limit=None, reason=reason)
        best = min(limits) if self.direction == "lower" else max(limits)
        passed = _meets(value, best, self.direction) and (self.allow_equal or value != best)
        return _outcome(name, self.metric, passed=passed, observed=value, limit=best, reason="")

    def _limits(self, baselines: Sequence[Baseline]) -> tuple[list[float], str]:
        """The baselines' values, and what is wrong with one that has none."""
        limits: list[float] = []
        fault = ""
        for baseline in baselines:
            limit, why = measured(baseline.metrics, self.metric)
            if limit is None:
                fault = f"baseline {baseline.name}: {why}"
            else:
                limits.append(limit)
        return limits, fault


def rules_of(opened: RunOpened, program: str = "") -> tuple[Rule, ...]:
    """The rules that were fixed when the run was opened, for what ``program`` measures.

    Of the request (its own program only): the limit, and that the baselines are beaten unless it says no. Of the
    policy: its rules for that program.
    """
    purpose = opened.purpose
    if purpose is None:  # unrecorded: no rule, and without rules nothing passes
        return ()
    rules: list[Rule] = []
    metric, direction = purpose.acceptance_metric, purpose.acceptance_direction
    if not program:
        if purpose.acceptance_limit is not None:
            rules.append(Limit(metric=metric, direction=direction, limit=purpose.acceptance_limit))
        if opened.conf.get("must_beat_baselines", True):
            rules.append(BetterThanBaselines(metric=metric, direction=direction))
    for rule in evaluation_policy(opened).rules:
        if rule.program == program:
            if rule.limit is not None:
                rules.append(Limit(metric=rule.metric, direction=rule.direction, limit=rule.limit))
            if rule.better_than_baselines:
                rules.append(BetterThanBaselines(metric=rule.metric, direction=rule.direction))
    return tuple(dict.fromkeys(rules))


def evaluation_policy(opened: RunOpened) -> Evaluation:
    """The policy's section about evaluation as it was recorded with the run; a run of before has none."""
    section = (opened.policy or {}).get("evaluation") or {}
    return Evaluation.model_validate(section, extra="ignore")


def fixed_rules(view: RunView, program: str = "") -> tuple[Rule, ...]:
    """The rules that stood when the run was launched; :class:`RefusedError` if the ledger holds other ones since.

    What is recorded about how a run was opened cannot be edited, but a second record could be added.
    """
    launched = next((r.position for r in view.records if r.kind == "launch.intended"), None)
    opened = [(record.position, fact) for record, fact in view.all(RunOpened)]
    before = [fact for position, fact in opened if launched is None or position < launched]
    if not before:
        return ()
    fixed = rules_of(before[-1], program)
    for position, fact in opened:
        later = [told(rule) for rule in rules_of(fact, program) if rule not in fixed]
        if (
            launched is not None
            and position > launched
            and (later or len(rules_of(fact, program)) != len(fixed))
        ):
            raise RefusedError(
                "no evaluation: rules were changed after the launch",
                reasons=tuple(f"added: {text}" for text in later) or ("a rule was taken away",),
                hint="Trigger a new run with the rules that are to decide.",
            )
    return fixed


def told(rule: Rule) -> str:
    """A rule in words."""
    match rule:
        case Limit():
            return f"{rule.metric} {'at most' if rule.direction == 'lower' else 'at least'} {rule.limit:g}"
        case BetterThanBaselines():
            return f"{rule.metric} better than every baseline"
        case _:
            return str(rule)


def wanted_directions(rules: Sequence[Rule]) -> Mapping[str, Direction]:
    """The direction that the rules fix for each metric they name."""
    return {rule.metric: rule.direction for rule in rules if isinstance(rule, Limit | BetterThanBaselines)}


def _meets(value: float, limit: float, direction: Direction) -> bool:
    return value <= limit if direction == "lower" else value >= limit


def contradicted(rules: Sequence[Rule], metrics: Sequence[MetricResult]) -> list[str]:
    """A flag for each metric of which a rule says that the other way is better."""
    return [
        f"contradictory: {metric.name} is reported as {metric.direction} is better, the rule says {rule.direction}"
        for rule in rules
        if isinstance(rule, Limit | BetterThanBaselines)
        for metric in answering(metrics, rule.metric)
        if metric.direction != rule.direction
    ]


def answering(metrics: Sequence[MetricResult], name: str) -> list[MetricResult]:
    """The metrics that a rule's ``name`` stands for: one if all is well.

    That is the metric of this name, else what a suite defines under it, whatever the program calls it. Where the name
    is the suite's own, another name of the same definition that tells another value is one too many.
    """
    exact = [metric for metric in metrics if metric.name == name]
    defined = [metric for metric in metrics if metric.defined_by.rpartition("/")[2] == name]
    if not exact:
        return defined
    task = name.rpartition(".")[0]
    twins = [
        metric
        for metric in defined
        if metric.name != name and metric.name.rpartition(".")[0] == task and metric.value != exact[0].value
    ]
    return [*exact, *twins]


def measured(metrics: Sequence[MetricResult], name: str) -> tuple[float | None, str]:
    """The one finite value of what a rule calls ``name``, or None and why there is none."""
    found = answering(metrics, name)
    if not found:
        return None, f"{name} was not measured"
    if len(found) > 1:
        return None, f"{name} is given {len(found)} times: {', '.join(metric.name for metric in found)}"
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
