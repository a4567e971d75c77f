# ruff: noqa: D102 (the methods are those of Chooser)
"""What a rule at work is asked, and the answers of one that does nothing."""

from __future__ import annotations

from typing import Any, Protocol

from pretrain_archive.data.processing.reading import Doc
from pretrain_archive.data.quality.documents import Fields, Text

NEAR = "pretrain-archive-near-"
"""Temporary folders with sketches of documents."""


class Chooser(Protocol):
    """A rule at work. With ``surveys`` every document is seen once, in order, before any is judged.

    Judging is done on several threads and changes nothing. ``number`` is the document's place in the order.
    """

    surveys: bool
    texts: bool
    fields: Fields

    def name(self, path: str) -> str:
        """Why a whole file is left out by its name alone; empty to look inside."""

    def see(self, doc: Doc) -> None:
        """Take note of a document."""

    def settle(self) -> dict[str, Any]:
        """Decide from what was seen; returns what to record of it (plain JSON)."""

    def judge(self, doc: Doc, number: int) -> str:
        """Why a document is left out; empty to keep it."""

    def rewrite(self, text: Text) -> str | None:
        """The new text, None to leave it as it is."""


class Plain:
    """What most rules do not do."""

    surveys = False
    texts = False

    def __init__(self, fields: Fields) -> None:
        self.fields = fields

    def name(self, path: str) -> str:  # noqa: ARG002 - see Chooser
        return ""

    def see(self, doc: Doc) -> None:
        """Nothing to note."""

    def settle(self) -> dict[str, Any]:
        return {}

    def judge(self, doc: Doc, number: int) -> str:  # noqa: ARG002 - see Chooser
        return ""

    def rewrite(self, text: Text) -> str | None:  # noqa: ARG002 - see Chooser
        return None
