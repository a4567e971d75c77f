"""What a person concluded of the run, as part of the decision's story (R097)."""

from __future__ import annotations

from typing import Protocol

from pretrain_archive.domain.governance_conclusion import conclusion_of, conclusion_told
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView


class Words(Protocol):
    """A sentence that is being made."""

    def say(self, en: str, zh: str, *records: Record) -> None:
        """Add a sentence in both languages, and the records behind it."""

    def missing(self, en: str, zh: str) -> None:
        """Say that something is unrecorded."""


def tell_conclusion(words: Words, view: RunView) -> None:
    """Say what was concluded and learnt, or that nobody recorded it."""
    found = conclusion_of(view)
    if found is None:
        words.missing("A conclusion", "实验结论")
        return
    words.say(*conclusion_told(found[1]), found[0])
