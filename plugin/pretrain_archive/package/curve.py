"""The loss curve as inline SVG: attempts as segments, restarts marked, a min–max band where points are dense.

Geometry is computed here and written as numbers only; every text goes through an escape. Points that are not
finite are drawn as marks at the top edge: a NaN is the most important thing in a curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from pretrain_archive.domain import kinds
from pretrain_archive.domain.run_view import RunView

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 18, 34
BUCKETS = 240
"""Horizontal resolution: more points than this in an attempt become a band of minimum to maximum."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The points of one attempt: (step, value), and the steps that were not finite."""

    attempt: int
    points: tuple[tuple[int, float], ...]
    not_finite: tuple[int, ...]


def loss_series(view: RunView, name: str) -> list[Series]:
    """The metric's points by attempt, in the order in which they were reported."""
    found: dict[int, tuple[list[tuple[int, float]], list[int]]] = {}
    for _, batch in view.all(kinds.MetricsRecorded):
        points, broken = found.setdefault(batch.attempt, ([], []))
        for point in batch.points:
            if point.name != name:
                continue
            if point.value is None or not math.isfinite(point.value):
                broken.append(point.step)
            else:
                points.append((point.step, point.value))
    return [
        Series(attempt=attempt, points=tuple(sorted(points)), not_finite=tuple(broken))
        for attempt, (points, broken) in sorted(found.items())
        if points or broken
    ]


def metric_name(view: RunView) -> str:
    """The metric to draw: the first whose name speaks of loss, else the first of all, else empty."""
    batches = (r.payload["points"] for r in view.records if r.kind == kinds.BY_MODEL[kinds.MetricsRecorded])
    names = list(dict.fromkeys(str(point["name"]) for points in batches for point in points))
    return next((name for name in names if "loss" in name.lower()), names[0] if names else "")


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover ``low`` to ``high``."""
    span = (high - low) or abs(high) or 1.0
    step = 10 ** math.floor(math.log10(span / count))
    step *= min((1, 2, 5, 10), key=lambda factor: abs(span / (factor * step) - count))
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def draw(view: RunView, name: str) -> str:
    """The figure of the metric ``name`` as SVG text, empty where it was not recorded."""
    series = loss_series(view, name)
    values = [value for one in series for _, value in one.points]
    steps = [step for one in series for step in (*(s for s, _ in one.points), *one.not_finite)]
    if not values:
        return ""
    frame = _Frame.around(steps, values)
    parts = [_axes(frame, name), *(_segment(frame, one, number) for number, one in enumerate(series))]
    parts += [_restart(frame, view, one) for one in series[1:]]
    label = f"{name} over steps, {len(series)} attempts / {name} 随步数变化，{len(series)} 次尝试"
    return (
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Frame:
    low_step: int
    high_step: int
    low: float
    high: float

    @classmethod
    def around(cls, steps: list[int], values: list[float]) -> _Frame:
        low, high = min(values), max(values)
        margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
        return cls(low_step=min(steps), high_step=max(steps), low=low - margin, high=high + margin)

    def x(self, step: float) -> float:
        return LEFT + (step - self.low_step) / ((self.high_step - self.low_step) or 1) * (
            WIDTH - LEFT - RIGHT
        )

    def y(self, value: float) -> float:
        return TOP + (self.high - value) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)


def _axes(frame: _Frame, name: str) -> str:
    out = []
    for value in nice_ticks(frame.low, frame.high):
        y = frame.y(value)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    out += [
        f'<text x="{frame.x(value):.1f}" y="{HEIGHT - 14}" text-anchor="middle">{value:g}</text>'
        for value in nice_ticks(frame.low_step, frame.high_step, 6)
        if value == int(value)
    ]
    out.append(f'<text class="unit" x="{LEFT}" y="11">{escape(name)}</text>')
    out.append(f'<text class="unit" x="{WIDTH - RIGHT}" y="{HEIGHT - 1}" text-anchor="end">step</text>')
    return "".join(out)


def _segment(frame: _Frame, series: Series, number: int) -> str:
    """One attempt: a line, over a band where several points share a column."""
    style = f"attempt a{number % 4}"
    columns: dict[int, list[float]] = {}
    for step, value in series.points:
        columns.setdefault(round((frame.x(step) - LEFT) / (WIDTH - LEFT - RIGHT) * BUCKETS), []).append(value)
    at = {column: LEFT + column / BUCKETS * (WIDTH - LEFT - RIGHT) for column in columns}
    out = []
    if any(len(values) > 1 for values in columns.values()):
        upper = [f"{at[c]:.1f},{frame.y(max(v)):.1f}" for c, v in columns.items()]
        lower = [f"{at[c]:.1f},{frame.y(min(v)):.1f}" for c, v in columns.items()]
        out.append(f'<polygon class="band {style}" points="{" ".join(upper + lower[::-1])}"/>')
        line = [f"{at[c]:.1f},{frame.y(sum(v) / len(v)):.1f}" for c, v in columns.items()]
    else:
        line = [f"{frame.x(step):.1f},{frame.y(value):.1f}" for step, value in series.points]
    out.append(f'<polyline class="line {style}" points="{" ".join(line)}"/>')
    for step in series.not_finite:
        x = frame.x(step)
        cross = f"M{x - 5:.1f} {TOP} l10 10 m0 -10 l-10 10"
        out.append(f'<path class="nan" d="{cross}"><title>step {step}: not finite</title></path>')
    return "".join(out)


def _restart(frame: _Frame, view: RunView, series: Series) -> str:
    """A labelled tick where an attempt took over."""
    first = series.points[0][0] if series.points else series.not_finite[0]
    reason = next((e.reason for _, e in view.all(kinds.AttemptEnded) if e.attempt == series.attempt - 1), "")
    x = frame.x(first)
    anchor = "start" if x < WIDTH * 0.7 else "end"
    return (
        f'<g class="restart"><line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        f'<text x="{x + (5 if anchor == "start" else -5):.1f}" y="{TOP + 12}" text-anchor="{anchor}">'
        f"↻ {series.attempt} @ {first}</text><title>{escape(reason)}</title></g>"
    )
