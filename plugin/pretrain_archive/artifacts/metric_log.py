"""A log of metrics by step, in JSON Lines: every attempt kept, and the curve that counts in the end.

A training that resumes goes back to an older step: its log then tells some steps twice. Both tellings are kept with
their attempt; in the *effective* curve the later attempt counts from its first step on. Lines whose step cannot be
read are counted and located, never dropped silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.artifacts.metric_files import Parsed, RepeatedMetricError, finite
from pretrain_archive.artifacts.reading import MOST_METRICS, Flags, Reading, metric_of
from pretrain_archive.domain.errors import InputError

BESIDE = frozenset({"step", "attempt", "tokens", "time", "timestamp"})
MOST_ATTEMPTS = 1000
"""A log that goes back more often is none of a training."""

LISTED = 20
"""Lines that are named one by one; the rest are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A value at a step, as one attempt told it; not finite stands in ``not_finite``."""

    step: int
    value: float | None
    not_finite: str
    attempt: int
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricLog:
    """Points by metric in the order of the file, and lines that could not be used as (line, why)."""

    points: dict[str, list[Point]] = field(default_factory=dict)
    bad: list[tuple[int, str]] = field(default_factory=list)
    assumed: list[tuple[int, int]] = field(default_factory=list)
    """(line, attempt) where an attempt was taken to begin because steps ran backwards and no line names one."""

    first: dict[int, int] = field(default_factory=dict)
    """The lowest step of each attempt, whatever was told there: from it on the attempt counts, for every metric."""

    def effective(self, name: str) -> list[Point]:
        """The curve that counts: of each attempt the steps before any later attempt's first one."""
        return self._walked(name)[0]

    def taken_over(self, name: str) -> list[dict[str, int]]:
        """Where an attempt took over, and how many earlier points it set aside."""
        return self._walked(name)[1]

    def _walked(self, name: str) -> tuple[list[Point], list[dict[str, int]]]:
        """The curve, attempt by attempt, and the takeovers that touched it."""
        own: dict[int, list[Point]] = {}
        for point in self.points.get(name, ()):
            own.setdefault(point.attempt, []).append(point)
        kept: list[Point] = []
        found = []
        for attempt, first in sorted(self.first.items()):
            before = len(kept)
            while kept and kept[-1].step >= first:  # the curve so far rises: what is set aside is its end
                kept.pop()
            aside = before - len(kept)
            if before and (aside or attempt in own):
                found.append({"attempt": attempt, "from_step": first, "set_aside": aside})
            kept += sorted(own.get(attempt, ()), key=lambda point: point.step)
        return kept, found

    def to_json(self) -> dict[str, Any]:
        """Curve by curve: points by attempt, the effective curve and its end, bad lines."""
        curves = {}
        for name, points in self.points.items():
            kept, taken_over = self._walked(name)
            curves[name] = {
                "points": len(points),
                "attempts": sorted({point.attempt for point in points}),
                "taken_over": taken_over,
                "effective": [
                    [p.step, p.attempt, p.value if p.value is not None else p.not_finite] for p in kept
                ],
                "final_step": kept[-1].step if kept else None,
            }
        return {
            "curves": curves,
            "bad_lines": [{"line": line, "why": why} for line, why in self.bad],
            "attempts_assumed": [{"line": line, "attempt": attempt} for line, attempt in self.assumed],
        }


def fits(documents: Sequence[Any]) -> bool:
    """Whether lines are a log: objects of which at least one has a step."""
    return (
        len(documents) > 1
        and all(isinstance(document, dict) for document in documents)
        and any("step" in document for document in documents)
    )


def of_parsed(parsed: Parsed, *, where: str) -> MetricLog:
    """Read a log; :class:`RepeatedMetricError` where one attempt gives a step two values."""
    log = MetricLog()
    attempt, last = 1, -1
    seen: dict[tuple[str, int, int], Any] = {}
    for line, document in zip(parsed.lines, parsed.documents, strict=True):
        if not isinstance(document, dict):
            raise InputError(f"{where} line {line}", document, "expected an object")
        if fault := _fault(document):
            log.bad.append((line, fault))
            continue
        step = int(document["step"])
        if "attempt" in document:
            attempt = document["attempt"]
        elif step < last:
            attempt += 1
            log.assumed.append((line, attempt))
        last = step
        log.first[attempt] = min(step, log.first.get(attempt, step))
        if len(log.first) > MOST_ATTEMPTS:
            raise InputError(f"{where} line {line}", attempt, f"a log has at most {MOST_ATTEMPTS} attempts")
        _take(log, document, (line, step, attempt), seen, where)
    return log


def _fault(document: dict[str, Any]) -> str:
    """Why a line cannot be placed, empty if it can."""
    for key, lowest in (("step", 0), ("attempt", 1)):
        if key not in document:
            if key == "step":
                return "no step"
            continue
        value = document[key]
        if not isinstance(value, int) or isinstance(value, bool):
            return f"{key} is {str(value)[:40]!r}, expected a whole number"
        if not lowest <= value < 1 << 53:
            return f"{key} is {str(value)[:40]}, expected at least {lowest}"
    return ""


def _take(
    log: MetricLog,
    document: dict[str, Any],
    place: tuple[int, int, int],
    seen: dict[tuple[str, int, int], Any],
    where: str,
) -> None:
    line, step, attempt = place
    for raw, value in document.items():
        name = raw.strip()
        if raw in BESIDE or isinstance(value, str | bool | list | dict):
            continue
        if value is None:
            log.bad.append((line, f"{name} is null"))
            continue
        number, not_finite = finite(value)
        key = (name, attempt, step)
        if key in seen:
            raise RepeatedMetricError(
                f"{where} line {line}", f"{name} of attempt {attempt} at step {step}", seen[key], value
            )
        seen[key] = value
        if name not in log.points and len(log.points) >= MOST_METRICS:
            raise InputError(f"{where} line {line}", name, f"a log has at most {MOST_METRICS} metrics")
        log.points.setdefault(name, []).append(
            Point(step=step, value=number, not_finite=not_finite, attempt=attempt, line=line)
        )


def reading(log: MetricLog, flags: Flags, where: str) -> Reading:
    """The end of each effective curve as a metric; what could not be placed is flagged."""
    flags.extend(f"bad_step: line {line}: {why}" for line, why in log.bad[:LISTED])
    if len(log.bad) > LISTED:
        flags.append(f"bad_step: {len(log.bad) - LISTED} more lines")
    metrics = []
    for name in log.points:
        kept = log.effective(name)
        if not kept:
            flags.append(f"no_value: no point of {name} counts, a later attempt went back beyond all of them")
            continue
        end = kept[-1]
        value = end.value if end.value is not None else float(end.not_finite)
        metrics.append(metric_of({"value": value}, name, flags, where))
    return Reading(metrics=tuple(metrics), log=log.to_json(), flags=tuple(flags))
