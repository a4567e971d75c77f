"""verified, changed, unrecorded: what can be said of an item of evidence, and by which check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """The three values; nothing is guessed between them."""

    VERIFIED = "verified"
    CHANGED = "changed"
    UNRECORDED = "unrecorded"


WORST_FIRST = (Verdict.CHANGED, Verdict.UNRECORDED, Verdict.VERIFIED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One item of evidence with its verdict.

    ``check`` names what was compared with what; ``checked_at`` is when (RFC 3339, empty if never);
    ``expected`` and ``found`` are short texts; ``evidence`` lists record ids; ``owner`` is the person who can
    mend a gap and ``hint`` how; ``requirement`` the numbered requirement behind it.
    """

    id: str
    track: str
    verdict: Verdict
    check: str
    checked_at: str = ""
    expected: str = ""
    found: str = ""
    blocking: bool = True
    evidence: tuple[str, ...] = ()
    owner: str = ""
    hint: str = ""
    requirement: str = ""

    def __post_init__(self) -> None:
        if self.verdict is Verdict.VERIFIED and not self.check:
            raise ValueError(f"item {self.id}: verified needs the check behind it")

    def to_dict(self) -> dict[str, Any]:
        """The item as plain JSON."""
        return {
            "id": self.id,
            "track": self.track,
            "verdict": self.verdict.value,
            "check": self.check,
            "checked_at": self.checked_at,
            "expected": self.expected,
            "found": self.found,
            "blocking": self.blocking,
            "evidence": list(self.evidence),
            "owner": self.owner,
            "hint": self.hint,
            "requirement": self.requirement,
        }


def counts(items: Iterable[Item]) -> dict[str, int]:
    """How many items stand at each verdict; every verdict is named."""
    seen = Counter(item.verdict for item in items)
    return {verdict.value: seen[verdict] for verdict in WORST_FIRST}


def worst_first(items: Iterable[Item]) -> list[Item]:
    """Changed, then unrecorded, then verified; blocking before advisory; else in the given order."""
    return sorted(items, key=lambda item: (WORST_FIRST.index(item.verdict), not item.blocking))
