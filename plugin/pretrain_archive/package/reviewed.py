"""What a package says of reviews after a stop, and of a run that ended by one or as an exploration: no release."""

from __future__ import annotations

from collections.abc import Iterator

from pretrain_archive.domain import kinds
from pretrain_archive.domain.exploration import is_exploration
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.reviews import CLOSING, figures
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


def without_release(view: RunView) -> Told | None:
    """Why there is no release: the run was stopped, a new run with changes takes its place, or it was an exploration.

    The package of an exploration is made before the record that closes it, so that nothing is asked of that.
    """
    found = view.last(kinds.RunClosed)
    if found is not None and found[1].outcome in CLOSING.values():
        record, numbers, outcome = found[0], found[1].figures, found[1].outcome
    elif is_exploration(view):
        record, numbers, outcome = view.records[0], figures(view), "explored"
    else:
        return None
    spent, step = numbers.get("minutes_spent", "unrecorded"), numbers.get("resume_step", "unrecorded")
    english, chinese = outcome_word(outcome, "en"), outcome_word(outcome, "zh-CN")
    return (
        f"There is no release: the run was {english}. It took {spent} min; last verified checkpoint: step {step}.",
        f"没有发布：本运行{chinese}。用时 {spent} 分钟；最后已核验检查点：第 {step} 步。",
        record,
    )
