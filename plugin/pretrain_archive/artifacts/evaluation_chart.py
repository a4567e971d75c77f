"""Values with their intervals on one scale, as inline SVG: made of numbers and escaped texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT, LINE, TOP = 560, 190, 16, 24, 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One subject: its label, value and interval; None where there is none."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    ours: bool = False


def forest(rows: Sequence[Row], *, title: str) -> str:
    """The picture, empty where fewer than two rows have a value or nothing spreads."""
    shown = [row for row in rows if row.value is not None]
    ends = [end for row in shown for end in (row.value, row.low, row.high) if end is not None]
    if len(shown) < 2 or not all(map(math.isfinite, ends)):
        return ""
    low, high = min(ends), max(ends)
    margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    low, high = low - margin, high + margin
    if not math.isfinite(high - low) or high == low:
        return ""

    def x(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    height = TOP + LINE * len(shown) + 22
    base = TOP + LINE * len(shown)
    parts = [
        f'<svg class="forest" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">',
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>',
        *(
            f'<text class="tick" x="{x(end):.1f}" y="{base + 15}" text-anchor="{anchor}">{end:.4g}</text>'
            for end, anchor in ((low + margin, "start"), (high - margin, "end"))
        ),
    ]
    for number, row in enumerate(shown):
        parts.append(_mark(row, TOP + LINE * number + LINE / 2, x))
    return "".join([*parts, "</svg>"])


def _mark(row: Row, y: float, x: Callable[[float], float]) -> str:
    value = row.value if row.value is not None else 0.0
    span = ""
    if row.low is not None and row.high is not None:
        span = f'<line x1="{x(row.low):.1f}" x2="{x(row.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    full = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in row.label)
    label = full if len(full) <= 28 else f"{full[:27]}…"
    return (
        f'<g class="{"ours" if row.ours else "theirs"}">{span}<circle cx="{x(value):.1f}" cy="{y:.1f}" r="4"/>'
        f'<text x="0" y="{y + 4:.1f}">{escape(label)}<title>{escape(full)}: {value:.6g}</title></text></g>'
    )
