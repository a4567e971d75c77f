"""Where something sensitive is. Without the text itself, on purpose."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """``offset`` and ``length`` count characters of the document's text, from 0."""

    kind: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """Offset behind the last character."""
        return self.offset + self.length
