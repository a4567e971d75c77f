"""Render a quality report: the JSON of a check becomes one HTML page.

Jinja escapes every value; pictures are made by :mod:`charts`, which escapes its own texts. The style sheet stands in
the page and is allowed by its hash alone, so that the page keeps its looks under a strict policy and runs no script.
The same report gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pretrain_archive.data.quality.aggregates import CHARTS
from pretrain_archive.data.quality.report import charts, words

LISTED = 40
"""Faults, shards and domains of a kind that the page lists; the rest is in the JSON beside it."""


def render_page(report: Mapping[str, Any], *, language: str = "en") -> bytes:
    """The page of a report in both languages; ``language`` (en, zh-CN) is the one shown first."""
    environment = _environment()
    style = _style(environment)
    page = environment.get_template("report.html").render(
        report=report,
        gates=[_gate(gate) for gate in _worst_first(report["gates"])],
        state=_state(report),
        reason=_reason(report),
        counts=_counts(report["gates"]),
        histograms=_histograms(report),
        jaccard=_jaccard(report),
        mixture=_mixture(report),
        languages=_parts(report.get("languages", {})),
        sensitive=sorted(
            ((kind, count) for kind, count in report["sensitive"].items() if count),
            key=lambda pair: (-pair[1], pair[0]),
        ),
        looked_for=sorted(report["sensitive"]),
        contributors=_contributors(report),
        unchecked=[(words.rule_name(one["name"], one["name"]), words.REASONS.get(one["reason"], (one["reason"],) * 2))
                   for one in report["not_asked"]],
        style=Markup(style),  # noqa: S704 - our own file
        style_hash=style_hash(style),
        chinese=language == "zh-CN",
        limit=LISTED,
    )  # fmt: skip
    return page.encode("utf-8", "backslashreplace")


def style_hash(style: str) -> str:
    """The source expression that allows this style sheet (CSP level 2, hash-source)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(t=both, pair=lambda two: both(*two), words=words, bar=_bar)
    environment.filters.update(number=number, percent=percent, size=size, plain=plain)
    return environment


def _style(environment: Environment) -> str:
    return environment.get_template("report.css").render()


def both(en: str, zh: str) -> Markup:
    """A text in both languages; the style sheet shows one of them."""
    if en == zh:
        return Markup("{}").format(en)
    return Markup('<span class="en" lang="en">{}</span><span class="zh" lang="zh-CN">{}</span>').format(
        en, zh
    )


def number(value: Any) -> str:
    """A number for people: whole with separators, else four significant digits; text as it is; nothing as a dash."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.4g}"


def percent(value: Any) -> str:
    """A share for people."""
    if not isinstance(value, int | float):
        return number(value)
    shown = value * 100
    if 0 < shown < 0.01:
        return "< 0.01 %"
    return f"{shown:.2f} %" if shown < 10 else f"{shown:.1f} %"


def size(value: int) -> str:
    """Bytes for people."""
    scaled = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if scaled < 1000:
            return f"{scaled:.0f} {unit}" if unit == "B" else f"{scaled:.1f} {unit}"
        scaled /= 1000
    return f"{scaled:,.1f} TB"


def plain(text: Any) -> str:
    """A name on one line: what cannot be seen (or turns the reading direction) is escaped."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in str(text))


def _bar(share: Any, kind: str = "", low: float | None = None, high: float | None = None) -> Markup:
    value = share if isinstance(share, int | float) else 0.0
    return Markup(charts.bar(value, kind=kind, low=low, high=high))  # noqa: S704 - numbers only


def gate_state(gate: Mapping[str, Any]) -> str:
    """One word for a gate: passed, failed, warning (advice that failed) or not_checked."""
    if gate["passed"]:
        return "passed"
    if not gate["checked"]:
        return "not_checked"
    return "failed" if gate["severity"] == "blocking" else "warning"


def _state(report: Mapping[str, Any]) -> str:
    if not report["passed"]:
        return "failed"
    return "warning" if report["warnings"] else "passed"


def _reason(report: Mapping[str, Any]) -> tuple[str, str]:
    """Why data did not pass, in both languages; empty if they did."""
    if report["passed"]:
        return ("", "")
    if not report["reason"].startswith("failed: "):
        en = str(report["reason"])
        known = (zh for begin, zh in words.NOTHING.items() if en.startswith(begin))
        return (plain(en), plain(next(known, en)))
    names = [
        words.rule_name(gate["name"], gate["family"])
        for gate in report["gates"]
        if gate["severity"] == "blocking" and not gate["passed"]
    ]
    return (plain(", ".join(name[0] for name in names)), plain("、".join(name[1] for name in names)))


def _counts(gates: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    states = [gate_state(gate) for gate in gates]
    return {name: states.count(name) for name in words.STATES}


def _worst_first(gates: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    order = ("failed", "not_checked", "warning", "passed")
    return sorted(gates, key=lambda gate: (order.index(gate_state(gate)), gate["severity"] != "blocking"))


def _gate(gate: Mapping[str, Any]) -> dict[str, Any]:
    share = gate["form"] == "share"
    show = percent if share else number
    observed = gate["observed"]
    limit = gate["limit"]
    return {
        **gate,
        "state": gate_state(gate),
        "title": tuple(map(plain, words.rule_name(gate["name"], gate["family"]))),
        "source": tuple(map(plain, words.source_words(gate["source"]))),
        "observed_text": plain(show(observed)),
        "limit_text": plain(_declared(gate) or show(limit)),
        "not_finite": isinstance(observed, str) and observed in {"nan", "inf", "-inf"},
        "reason_words": words.REASONS.get(gate["reason"]),
        "share": observed if share and isinstance(observed, int | float) else None,
    }


def _declared(gate: Mapping[str, Any]) -> str:
    """The range that a mixture declares, as shares for people."""
    share, _, tolerance = str(gate["limit"]).partition(" ± ")
    return (
        f"{percent(float(share))} ± {percent(float(tolerance))}"
        if tolerance and gate["form"] == "share"
        else ""
    )


def _histograms(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    shown = []
    for column, form in CHARTS.items():
        counts = report["distributions"].get(column)
        if counts is None:
            continue
        *bins, missing, not_finite = counts
        made = charts.size_bins(bins) if form == "size" else charts.ratio_bins(bins)
        title = words.column_name(column)
        picture = charts.histogram(made, title=" / ".join(title))
        if picture:
            shown.append(
                {
                    "title": title,
                    "column": column,
                    "picture": Markup(picture),  # noqa: S704 - numbers and escaped texts
                    "missing": missing,
                    "not_finite": not_finite,
                }
            )
    return shown


def _jaccard(report: Mapping[str, Any]) -> Markup:
    """The upper half of the similarities: pairs below are no near duplicates."""
    counts = (report.get("near") or {}).get("jaccard") or []
    upper = counts[len(counts) // 2 :]
    title = " / ".join(words.COLUMNS["jaccard"])
    picture = charts.histogram(charts.ratio_bins(upper, low=0.5), title=title) if upper else ""
    return Markup(picture)  # noqa: S704 - numbers and escaped texts


def _mixture(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    return sorted(
        report["domains"], key=lambda row: (row["declared"] is None, -(row["share"] or 0), row["domain"])
    )


def _parts(counts: Mapping[str, int]) -> list[tuple[str, int, float]]:
    """Names with counts and shares, largest first."""
    everything = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(name, count, count / everything) for name, count in ordered if count]


def _contributors(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each gate that did not pass: the shards and domains that most of its rows lie in."""
    names = {gate["name"]: gate for gate in report["gates"]}
    shown = []
    for name, found in report["contributors"].items():
        gate = names.get(name)
        if gate is None:
            continue
        shown.append(
            {
                "title": tuple(map(plain, words.rule_name(name, gate["family"]))),
                "state": gate_state(gate),
                "shards": [(one, count, count / max(1, found["rows"])) for one, count in found["shards"]],
                "domains": [(one, count, count / max(1, found["rows"])) for one, count in found["domains"]],
                "rows": found["rows"],
                "more": found["more"],
            }
        )
    return sorted(shown, key=lambda one: (one["state"] == "passed", -one["rows"]))
