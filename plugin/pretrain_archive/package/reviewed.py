"""What a package says of reviews after a stop, and of a run that was closed by one: it has no release."""

from __future__ import annotations

from collections.abc import Iterator

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.reviews import CLOSING
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.texts import outcome_word

Told = tuple[str, str, Record]
"""A sentence in English and 简体中文, and the record behind it."""


def reviews_told(view: RunView) -> Iterator[Told]:
    """Who looked after which stop, and what was chosen; nothing for a run without one."""
    for record, d in view.all(kinds.GateDecision):
        if d.gate != "review":
            continue
        chosen = d.outcome or "rejected"
        yield (
            f"{d.person_name} reviewed a stop on {d.responded_at[:10]}: {outcome_word(chosen, 'en')}; {d.reason}.",
            f"{d.person_name} 于 {d.responded_at[:10]} 复审：{outcome_word(chosen, 'zh-CN')}；{d.reason}。",
            record,
        )


def closed_by_review(view: RunView) -> Told | None:
    """Why there is no release: the run was stopped, or a new run with changes takes its place."""
    found = view.last(kinds.RunClosed)
    if found is None or found[1].outcome not in CLOSING.values():
        return None
    record, closed = found
    numbers = closed.figures
    spent, step = numbers.get("minutes_spent", "unrecorded"), numbers.get("resume_step", "unrecorded")
    english, chinese = outcome_word(closed.outcome, "en"), outcome_word(closed.outcome, "zh-CN")
    return (
        f"There is no release: the run was {english}. It took {spent} min; last verified checkpoint: step {step}.",
        f"没有发布：本运行{chinese}。用时 {spent} 分钟；最后已核验检查点：第 {step} 步。",
        record,
    )
