"""What people said of the run's outputs and concluded of it, as part of the decision's story (R097, R118)."""

from __future__ import annotations

from typing import Protocol

from pretrain_archive.domain.governance_conclusion import conclusion_of, conclusion_told
from pretrain_archive.domain.human_texts import told
from pretrain_archive.domain.kinds import HumanEvaluationReported
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView


class Words(Protocol):
    """A sentence that is being made."""

    def say(self, en: str, zh: str, *records: Record) -> None:
        """Add a sentence in both languages, and the records behind it."""

    def missing(self, en: str, zh: str) -> None:
        """Say that something is unrecorded."""


def tell_conclusion(words: Words, view: RunView) -> None:
    """Say how people judged the outputs, what was concluded and learnt, or that nobody recorded a conclusion."""
    judged = view.last(HumanEvaluationReported)
    if judged is not None:
        passed, passed_zh = ("passed", "通过") if judged[1].passed else ("not passed", "未通过")
        words.say(
            f"Judged by people, {passed}: {told(judged[1])}.",
            f"人工评估{passed_zh}：{told(judged[1])}。",
            judged[0],
        )
    found = conclusion_of(view)
    if found is None:
        words.missing("A conclusion", "实验结论")
        return
    words.say(*conclusion_told(found[1]), found[0])
