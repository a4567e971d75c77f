"""The recorded conclusion of an experiment (R097): which one counts, and how it is told."""

from __future__ import annotations

from pretrain_archive.domain import kinds
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView

OUTCOMES: dict[str, tuple[str, str]] = {
    "improved": ("improved", "有改进"),
    "no_better": ("no better", "没有改进"),
    "worse": ("worse", "变差"),
    "no_answer": ("no answer", "没有答案"),
}


def conclusion_of(view: RunView, *, signed: bool = False) -> tuple[Record, kinds.ExperimentConcluded] | None:
    """The newest conclusion of a run, None if there is none.

    With ``signed`` only what was there before the close counts: a later one is a later fact and never changes what
    was signed.
    """
    closed = view.last(kinds.RunClosed) if signed else None
    told = [
        found
        for found in view.all(kinds.ExperimentConcluded)
        if closed is None or found[0].position < closed[0].position
    ]
    return told[-1] if told else None


def conclusion_told(conclusion: kinds.ExperimentConcluded) -> tuple[str, str]:
    """The conclusion as a sentence in English and in 简体中文."""
    en, zh = OUTCOMES[conclusion.outcome]
    if conclusion.improved:
        en, zh = f"{en}: {_stop(conclusion.improved)}", f"{zh}：{_stop(conclusion.improved)}"
    if conclusion.against:
        en, zh = f"{en} (against {conclusion.against})", f"{zh}（对照 {conclusion.against}）"
    learnt = _stop(conclusion.learnt)
    return (
        f"Concluded by {conclusion.person}: {en}. Learnt: {learnt}.",
        f"{conclusion.person} 的结论：{zh}。经验：{learnt}。",
    )


def _stop(text: str) -> str:
    return text.strip().rstrip(".。")
