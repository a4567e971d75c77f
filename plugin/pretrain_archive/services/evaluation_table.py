"""An evaluation as lines of text: for a task's log and the command line."""

from __future__ import annotations

from collections.abc import Sequence

from pretrain_archive.domain.evaluations import direction_of, scope_text
from pretrain_archive.domain.kinds import EvaluationReported, MetricResult

LISTED = 60
NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def table_of(report: EvaluationReported) -> list[str]:
    """The report in lines: metrics with intervals, differences, rules, flags, reach."""
    who = f"program {report.program}" if report.program else "evaluation"
    state = "imported" if report.imported else "passed" if report.passed else "NOT PASSED"
    lines = [f"{who} {report.evaluation_id}: {state}", f"  on {_plain(report.data_set)}"]
    rows = [["metric", "value", "95 % interval", "samples", "better"]]
    rows += [
        [
            _plain(m.name),
            value_text(m),
            interval_text(m),
            "–" if m.samples is None else str(m.samples),
            direction_of(report.flags, m.name, m.direction) or "not declared",
        ]
        for m in report.metrics[:LISTED]
    ]
    lines += _aligned(rows)
    if len(report.metrics) > LISTED:
        lines.append(f"  and {len(report.metrics) - LISTED} more metrics")
    for one in report.comparisons[:LISTED]:
        gap = "–" if one["difference"] is None else f"{one['difference']:+.6g}"
        ends = "" if one["low"] is None else f" ({one['low']:+.4g} to {one['high']:+.4g})"
        told = f"{one['told']}{': ' + one['reason'] if one['reason'] else ''}"
        lines.append(f"  {_plain(one['metric'])} against {_plain(one['baseline'])}: {gap}{ends}, {told}")
    for baseline in report.baselines:
        if not baseline.counted:
            lines.append(f"  baseline {_plain(baseline.name)} does not count: {_plain(baseline.reason)}")
    for rule in report.rules:
        reason = f": {_plain(rule['reason'])}" if rule.get("reason") else ""
        state = "holds" if rule.get("passed") else "FAILS"
        lines.append(f"  {state}  {_plain(rule.get('name') or rule.get('metric') or rule)}{reason}")
    lines += [f"  flag   {_plain(flag)}" for flag in report.flags[:LISTED]]
    if text := scope_text(report):
        lines.append(f"  scope  {_plain(text)}")
    return lines


def value_text(metric: MetricResult) -> str:
    """A value for people; what is not finite by its name."""
    return f"{metric.value:.6g}" if metric.value is not None else NAMES.get(metric.not_finite, "–")


def interval_text(metric: MetricResult) -> str:
    """An interval with its source, or why there is none."""
    if metric.value is None:
        return "–"
    if metric.low is None or metric.high is None:
        return "no interval: no counts" if metric.samples is None else "no interval: no standard error"
    return f"{metric.low:.4g} to {metric.high:.4g} ({metric.interval or 'stated'})"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _plain(text: object) -> str:
    """One line without control characters: no name can move a cursor or forge a line."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(text))
