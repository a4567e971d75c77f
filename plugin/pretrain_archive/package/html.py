"""index.html of a package: one file without scripts or outside resources, both languages, any screen, print.

The template escapes every value; the pictures are made by :mod:`curve` and :mod:`lineage`, which escape their
own texts. The language switch is two radio buttons and CSS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pretrain_archive.domain import kinds
from pretrain_archive.domain.exploration import TOLD, is_exploration
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import ALL_GATES, GATES, RunView
from pretrain_archive.domain.verdicts import WORST_FIRST, Item, counts, worst_first
from pretrain_archive.package import curve, lineage, words
from pretrain_archive.package.evidence import Reference
from pretrain_archive.package.holdings import artifacts, inventory
from pretrain_archive.package.pinned import QUIET
from pretrain_archive.package.reasons import Reason, why, why_reference
from pretrain_archive.package.sentences import STATE_ZH, seconds_text, short, size_text
from pretrain_archive.package.story import tell
from pretrain_archive.package.words_items import chinese

TRACKS = ("data", "compute", "artifact")
SHOWN_EVENTS = 12
"""Events of the timeline that are open at once; the rest is folded, with its count."""
MOST_EVENTS, MOST_ATTEMPTS, MOST_REFERENCES, MOST_CHECKPOINTS = 300, 60, 60, 40
"""What a page of a long run lists before it names how many more the file beside it holds."""


def render_index(
    view: RunView, items: Sequence[Item], references: Sequence[Reference], *, total: int = 0
) -> bytes:
    """The page of a run as it is closed; the same records give the same bytes.

    ``total`` is how many files the package holds beside this page.
    """
    by_id = {item.id: item for item in items}
    shown = [item for item in items if not item.id.startswith("track.")]
    metric, attempts, events = curve.metric_name(view), _attempts(view), _shown_first(view)
    checkpoints = artifacts(view)["checkpoints"]
    page = _environment().get_template("index.html").render(
        view=view,
        opened=view.opened,
        purpose=view.opened.purpose if view.opened else None,
        sentences=tell(view),
        counts=counts(shown),
        tracks=[by_id[f"track.{name}"] for name in TRACKS],
        track_items={name: [item for item in shown if item.track == name] for name in TRACKS},
        gates=_gates(view, by_id),
        items=worst_first(shown),
        curve=Markup(curve.draw(view, metric)),  # noqa: S704 - made of numbers and escaped texts
        lineage=Markup(lineage.draw(view)),  # noqa: S704 - made of numbers and escaped texts
        metric=metric,
        attempts=attempts[-MOST_ATTEMPTS:],
        all_attempts=len(attempts),
        events=_events(events[:MOST_EVENTS]),
        all_events=len(events),
        shown_events=SHOWN_EVENTS,
        report=view.latest(kinds.EvaluationReported),
        quality=view.latest(kinds.QualityReported),
        references=sorted(references, key=lambda r: WORST_FIRST.index(r.verdict))[:MOST_REFERENCES],
        all_references=len(references),
        reasons=_reasons(view, items, references),
        inventory=inventory(view),
        checkpoints=_telling(checkpoints)[:MOST_CHECKPOINTS],
        all_checkpoints=len(checkpoints),
        total=f"{total:,}",
        exploration=TOLD if is_exploration(view) else None,
        chinese=bool(view.opened and view.opened.policy.get("language") == "zh-CN"),
    )  # fmt: skip
    return page.encode("utf-8", "backslashreplace")


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
    environment.globals.update(t=both, pair=both_of, words=words, short=short, size_text=size_text)
    environment.filters["said"] = lambda text, item_id: both(text, chinese(item_id, text))
    environment.filters["moment"] = moment
    return environment


def both(en: str, zh: str) -> Markup:
    """A text in both languages; CSS shows one of them."""
    if en == zh:
        return Markup("{}").format(en)
    return Markup('<span class="en" lang="en">{}</span><span class="zh" lang="zh-CN">{}</span>').format(
        en, zh
    )


def both_of(pair: tuple[str, str]) -> Markup:
    """:func:`both` of a pair."""
    return both(*pair)


def moment(text: str) -> str:
    """A time for people: date and minute in UTC."""
    return f"{text[:10]} {text[11:16]}" if len(text) > 16 else text or "–"


def _gates(view: RunView, by_id: Mapping[str, Item]) -> list[Any]:
    """Each gate that every run passes, and the review where one was asked, in their order."""
    shown = [gate for gate in ALL_GATES if gate in GATES or f"gate.{gate}" in by_id]
    return [(gate, by_id[f"gate.{gate}"], view.decision(gate)) for gate in shown]


def _reasons(view: RunView, items: Sequence[Item], references: Sequence[Reference]) -> dict[str, Reason]:
    """Why what is unrecorded is so, by the id of the item or reference."""
    found = {item.id: why(view, item) for item in items}
    found |= {reference.id: why_reference(view, reference) for reference in references}
    return {name: reason for name, reason in found.items() if reason is not None}


def _telling(checkpoints: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Checkpoints that somebody decided on or measured first, then the newest."""
    rank = [(not c.get("candidates"), not c.get("evaluations"), -int(c["step"] or 0)) for c in checkpoints]
    return [checkpoints[at] for at in sorted(range(len(checkpoints)), key=rank.__getitem__)]


def _attempts(view: RunView) -> list[dict[str, Any]]:
    ends = {p.attempt: p for _, p in view.all(kinds.AttemptEnded)}
    found = []
    for record, started in view.all(kinds.AttemptStarted):
        end = ends.get(started.attempt)
        found.append(
            {
                "number": started.attempt,
                "began": record.recorded_at,
                "resume": started.resume_step,
                "end": end,
                "state": (end.state, STATE_ZH[end.state]) if end else words.VERDICTS["unrecorded"],
                "took": seconds_text(end.seconds if end else None),
            }
        )
    return found


def _shown_first(view: RunView) -> list[Record]:
    """The events of the timeline; of very many, what happened once stands in for what happened a thousand times."""
    events = [record for record in view.records if record.kind not in QUIET]
    if len(events) <= MOST_EVENTS:
        return events
    often = Counter(record.kind for record in events)
    chosen = sorted(events, key=lambda record: (often[record.kind], record.sequence))
    return sorted(chosen[:MOST_EVENTS], key=lambda record: record.sequence) + chosen[MOST_EVENTS:]


def _events(records: Sequence[Record]) -> list[dict[str, Any]]:
    return [
        {
            "at": record.recorded_at,
            "kind": record.kind,
            "track": kinds.track_of(record.kind).value,
            "text": words.event_text(record),
            "who": record.actor.name,
            "person": record.actor.type == "person",
            "attempt": record.attempt,
            "file": f"records/{record.sequence:06d}-{record.kind}.json",
        }
        for record in records
    ]
