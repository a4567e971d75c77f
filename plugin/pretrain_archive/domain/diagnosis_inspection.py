"""The three questions in their fixed order: alive, resources used, metrics moving (R090). Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any, Literal

from pretrain_archive.domain import kinds
from pretrain_archive.domain.cost import RunAccount
from pretrain_archive.domain.cost_evidence import LOSSES
from pretrain_archive.domain.diagnosis_texts import WORDS
from pretrain_archive.domain.run_view import RunView

BUSY = 0.5
"""Below this share devices mostly wait: a rule of thumb, told with the measured value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One of the three questions: ``holds`` None is unrecorded."""

    question: Literal["alive", "resources", "metrics"]
    holds: bool | None
    code: str = ""
    values: tuple[tuple[str, str], ...] = ()

    def found(self, language: Literal["en", "zh"] = "en") -> str:
        """What was seen, in words; empty where nothing is recorded."""
        if not self.code:
            return ""
        place = 0 if language == "en" else 1
        values = {name: WORDS.get(value, (value, value))[place] for name, value in self.values}
        return WORDS[self.code][place].format_map(values)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"question": self.question, "holds": self.holds, "found": self.found()}


def inspection(view: RunView, account: RunAccount) -> list[Look]:
    """Does the task live, are its resources used, do its metrics move: asked in this order, up to the first no."""
    looks = []
    for look in (_alive(account), _used(view), _moving(view)):
        looks.append(look)
        if look.holds is False:
            break
    return looks


def _alive(account: RunAccount) -> Look:
    if not account.attempts:
        return Look(question="alive", holds=None, code="no_attempt")
    last = account.attempts[-1]
    state = last.state or "open"
    values = (("attempt", str(last.attempt)), ("state", state))
    return Look(question="alive", holds=state in {"open", "completed"}, code="attempt", values=values)


def _used(view: RunView) -> Look:
    busy = busy_share(view)
    if busy is None:
        return Look(question="resources", holds=None)
    share = (("share", f"{busy[0]:.0%}"),)
    return Look(question="resources", holds=busy[0] >= BUSY, code=f"busy_{busy[1]}", values=share)


def _moving(view: RunView) -> Look:
    # As stored: a model of each of millions of points costs more than all the rest of the page.
    told = [p for r in view.records if r.kind == "metrics.recorded" for p in r.payload.get("points", ())]
    name = next((loss for loss in LOSSES if any(p.get("name") == loss for p in told)), "")
    values = [p.get("value") for p in told if p.get("name") == name]
    if any(value is None for value in values):
        return Look(question="metrics", holds=False, code="not_finite")
    finite = [value for value in values if value is not None]
    if len(finite) < 2:
        return Look(question="metrics", holds=None)
    part = max(1, len(finite) // 5)
    first, last = statistics.fmean(finite[:part]), statistics.fmean(finite[-part:])
    shown = (("first", f"{first:.4g}"), ("last", f"{last:.4g}"))
    return Look(question="metrics", holds=last < first, code="loss", values=shown)


def busy_share(view: RunView) -> tuple[float, Literal["accelerators", "cpu"]] | None:
    """The mean load of the accelerators, or of one CPU where none was seen; None where neither is recorded."""
    loads = [
        point["value"]
        for record in view.records
        if record.kind == "metrics.recorded"
        for point in record.payload.get("points", ())
        if "/accelerator" in str(point.get("name")) and str(point.get("name")).endswith("/percent")
        and point.get("value") is not None
    ]  # fmt: skip
    if loads:
        return statistics.fmean(loads) / 100, "accelerators"
    ended = view.latest(kinds.AttemptEnded)
    if ended is None or not ended.seconds or ended.cpu_seconds is None:
        return None
    return ended.cpu_seconds / ended.seconds, "cpu"
