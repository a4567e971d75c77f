"""Pictures of a report as inline SVG: made of numbers and escaped texts, coloured by the page's style sheet.

Each has a title for readers that do not see it, and each bar its own words. No inline style: the page forbids it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 340, 132
LEFT, BASE, TOP = 6, 106, 16
BAR_WIDTH, BAR_HEIGHT = 220, 14


@dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """One bar of a histogram: what it stands for and how many there are."""

    label: str
    count: int


def size_bins(counts: Sequence[int]) -> list[Bin]:
    """The bins of sizes by powers of two, cut to those between the first and the last that has something."""
    filled = [number for number, count in enumerate(counts) if count]
    if not filled:
        return []
    return [
        Bin(label=_power(number, last=number == len(counts) - 1), count=counts[number])
        for number in range(max(0, filled[0] - 1), min(len(counts), filled[-1] + 2))
    ]


def ratio_bins(counts: Sequence[int], *, low: float = 0.0, high: float = 1.0) -> list[Bin]:
    """The bins of shares in equal steps from ``low`` to ``high``."""
    step = (high - low) / len(counts)
    return [
        Bin(label=f"{low + number * step:.2f}–{low + (number + 1) * step:.2f}", count=count)
        for number, count in enumerate(counts)
    ]


def histogram(bins: Sequence[Bin], *, title: str, marks: Sequence[float] = ()) -> str:
    """A histogram; ``marks`` are limits as positions between 0 and the number of bins."""
    highest = max((b.count for b in bins), default=0)
    if not highest:
        return ""
    step = (WIDTH - 2 * LEFT) / len(bins)
    parts = [
        f'<svg class="histogram" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">',
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{BASE}" y2="{BASE}"/>',
        f'<text class="top" x="{LEFT}" y="{TOP - 6}">{highest:,}</text>',
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{TOP}" y2="{TOP}"/>',
    ]
    for number, one in enumerate(bins):
        # A bar of one in a million is still there to be seen.
        tall = max(1.2, one.count / highest * (BASE - TOP)) if one.count else 0.0
        parts.append(
            f'<rect class="bar" x="{LEFT + number * step + 0.6:.1f}" y="{BASE - tall:.1f}" '
            f'width="{max(0.8, step - 1.2):.1f}" height="{tall:.1f}">'
            f"<title>{escape(one.label)}: {one.count:,}</title></rect>"
        )
    for mark in marks:
        x = LEFT + mark * step
        parts.append(f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{BASE + 4}"/>')
    parts += _ticks(bins, step)
    return "".join([*parts, "</svg>"])


def bar(share: float, *, kind: str = "", low: float | None = None, high: float | None = None) -> str:
    """A horizontal bar of a share (0 to 1), with the range from ``low`` to ``high`` that it should end in."""
    width = max(0.0, min(1.0, share)) * BAR_WIDTH
    width = max(width, 1.0 if share > 0 else 0)
    name = escape(kind, quote=True)
    shown = f'<rect class="fill {name}" width="{width:.1f}" height="8" y="3" rx="1.5"/>'
    allowed = ""
    if low is not None and high is not None:
        start, end = (max(0.0, min(1.0, value)) * BAR_WIDTH for value in (low, high))
        allowed = (
            f'<rect class="allowed" x="{start:.1f}" width="{max(1.5, end - start):.1f}" height="{BAR_HEIGHT}"/>'
            f'<path class="bound" d="M{start:.1f} 0V{BAR_HEIGHT}M{end:.1f} 0V{BAR_HEIGHT}"/>'
        )
    return (
        f'<svg class="share" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" aria-hidden="true">'
        f'<rect class="track" width="{BAR_WIDTH}" height="8" y="3" rx="1.5"/>{allowed}{shown}</svg>'
    )


def _ticks(bins: Sequence[Bin], step: float) -> list[str]:
    """At most six labels below the axis: where their bars begin."""
    every = max(1, -(-len(bins) // 6))
    return [
        f'<text class="tick" x="{LEFT + number * step:.1f}" y="{BASE + 16}">{escape(_begin(bins[number].label))}</text>'
        for number in range(0, len(bins), every)
    ]


def _begin(label: str) -> str:
    return label.partition("–")[0]


def _power(number: int, *, last: bool) -> str:
    """What the bin of that number holds: 0, 1, 2–3, 4–7 and so on."""
    if number == 0:
        return "0"
    begin = 1 << (number - 1)
    if last:
        return f"≥ {_short(begin)}"
    return "1" if number == 1 else f"{_short(begin)}–{_short((1 << number) - 1)}"


def _short(number: int) -> str:
    for factor, unit in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k")):
        if number >= factor:
            return f"{number / factor:.0f}{unit}"
    return str(number)
