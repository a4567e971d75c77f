"""The loss over steps as the run's attempts produced it, drawn without losing a spike.

Points are put into columns of the drawing; each column keeps its lowest and highest value (an envelope), so a
spike of one step is visible however many steps there are. A step that a later attempt repeated is not part of
the effective curve and is drawn as a ghost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pretrain_archive.domain.run_view import RunView

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 30
COLUMNS = WIDTH - LEFT - RIGHT
NAMES = ("loss", "train_loss", "train/loss")


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A finite loss at a step of an attempt; ``effective`` unless a later attempt repeated the step."""

    attempt: int
    step: int
    value: float
    effective: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A restart (``x`` in drawing units): the attempt that began there."""

    x: float
    attempt: int
    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A labelled place on an axis, in drawing units."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """The drawing in SVG path data, and the numbers that say the same in words."""

    lines: tuple[str, ...]
    ghosts: tuple[str, ...]
    band: str
    marks: tuple[Mark, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    points: int
    attempts: int
    not_finite: int
    first: Point
    last: Point
    low: float


def loss_curve(view: RunView) -> Curve | None:
    """The run's loss curve, or None where no finite loss is recorded."""
    raw = list(_read(view))
    points = [point for point in raw if math.isfinite(point.value)]
    if not points:
        return None
    return _draw(list(_effective(points)), not_finite=len(raw) - len(points))


def _read(view: RunView) -> Iterator[Point]:
    # Points are read as stored: a long run has millions, and a model of each costs more than the whole page.
    for record in view.records:
        if record.kind == "metrics.recorded":
            attempt = int(record.payload["attempt"])
            for point in record.payload["points"]:
                if point["name"] in NAMES:
                    value = point.get("value")
                    yield Point(
                        attempt=attempt,
                        step=int(point["step"]),
                        value=math.nan if value is None else float(value),
                    )


def _effective(points: list[Point]) -> Iterator[Point]:
    owner: dict[int, int] = {}
    for point in points:
        owner[point.step] = max(owner.get(point.step, 0), point.attempt)
    for point in sorted(points, key=lambda p: (p.attempt, p.step)):
        yield point if owner[point.step] == point.attempt else replace(point, effective=False)


class _Scale:
    """Steps and values as drawing units; a single step or value still has a place."""

    def __init__(self, points: list[Point]) -> None:
        self.low_step = min(p.step for p in points)
        self.high_step = max(p.step for p in points)
        self.low = min(p.value for p in points)
        self.high = max(p.value for p in points)

    def x(self, step: float) -> float:
        wide = (self.high_step - self.low_step) or 1
        return LEFT + (step - self.low_step) / wide * COLUMNS

    def y(self, value: float) -> float:
        tall = (self.high - self.low) or 1.0
        return TOP + (self.high - value) / tall * (HEIGHT - TOP - BOTTOM)


def _draw(points: list[Point], *, not_finite: int) -> Curve:
    scale = _Scale(points)
    effective = sorted((p for p in points if p.effective), key=lambda p: p.step)
    attempts = sorted({p.attempt for p in points})
    firsts = [next(p for p in points if p.attempt == number) for number in attempts]
    return Curve(
        lines=tuple(_path(scale, [p for p in effective if p.attempt == n]) for n in attempts),
        ghosts=tuple(
            path
            for n in attempts
            if (path := _path(scale, [p for p in points if p.attempt == n and not p.effective]))
        ),
        band=_band(scale, effective),
        marks=tuple(Mark(x=round(scale.x(p.step), 1), attempt=p.attempt, step=p.step) for p in firsts[1:]),
        x_ticks=tuple(Tick(at=round(scale.x(s), 1), text=f"{s:,}") for s in _steps(scale)),
        y_ticks=tuple(Tick(at=round(scale.y(v), 1), text=f"{v:.3g}") for v in _values(scale)),
        points=len(points),
        attempts=len(attempts),
        not_finite=not_finite,
        first=effective[0],
        last=effective[-1],
        low=min(p.value for p in effective),
    )


def _steps(scale: _Scale) -> list[int]:
    wide = scale.high_step - scale.low_step
    return sorted({scale.low_step + round(wide * part / 4) for part in range(5)})


def _values(scale: _Scale) -> list[float]:
    tall = scale.high - scale.low
    return [scale.low + tall * part / 4 for part in range(5)] if tall else [scale.low]


def _columns(scale: _Scale, points: Iterable[Point]) -> Iterator[tuple[float, list[float]]]:
    column: int | None = None
    x = 0.0
    values: list[float] = []
    for point in points:
        at = scale.x(point.step)
        if int(at) != column and values:
            yield x, values
            values = []
        column, x = int(at), at
        values.append(point.value)
    if values:
        yield x, values


def _path(scale: _Scale, points: list[Point]) -> str:
    """One line; a column that holds several points goes through its lowest and its highest value."""
    parts: list[str] = []
    for x, values in _columns(scale, points):
        low, high = min(values), max(values)
        ends = [values[0], low, high, values[-1]] if low != high else [values[0]]
        parts += [f"{x:.1f} {scale.y(value):.1f}" for value in dict.fromkeys(ends)]
    if len(parts) == 1:
        parts *= 2
    return "M" + "L".join(parts) if parts else ""


def _band(scale: _Scale, points: list[Point]) -> str:
    columns = [(x, min(v), max(v)) for x, v in _columns(scale, points)]
    if all(low == high for _, low, high in columns):
        return ""
    upper = [f"{x:.1f} {scale.y(high):.1f}" for x, _, high in columns]
    lower = [f"{x:.1f} {scale.y(low):.1f}" for x, low, _ in reversed(columns)]
    return "M" + "L".join(upper + lower) + "Z"
