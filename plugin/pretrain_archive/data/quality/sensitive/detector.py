"""Find sensitive content in a text."""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator

from pretrain_archive.data.quality.sensitive import addresses, numbers, secrets
from pretrain_archive.data.quality.sensitive.finding import Finding
from pretrain_archive.data.quality.sensitive.settings import KINDS, Settings
from pretrain_archive.data.quality.sensitive.terms import Terms


class Detector:
    """Looks for what ``settings`` name; make one in each process and use it for all its documents."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._terms = Terms(self.settings.forbidden_terms)
        self._allow = [re.compile(pattern) for pattern in self.settings.allow]
        self._kinds = frozenset(self.settings.kinds)

    def find(self, text: str) -> list[Finding]:
        """All findings in the order of their places; of two that overlap the one of the surer kind."""
        found = [finding for finding in self._candidates(text) if finding.kind in self._kinds]
        if not found:
            return []
        if self._allow:
            found = [finding for finding in found if not self._is_allowed(text, finding)]
        return _without_overlaps(found)

    def _candidates(self, text: str) -> Iterator[Finding]:
        if "secret" in self._kinds:
            yield from _of("secret", secrets.secrets(text, high_entropy=self.settings.high_entropy))
        if "@" in text and "email" in self._kinds:
            yield from _of("email", addresses.emails(text))
        yield from _of("ipv6", addresses.ipv6(text))
        places = numbers.clusters(text)
        yield from _of("ipv4", addresses.ipv4(text, places))
        yield from _of("phone", numbers.phones(text, places))
        for number in (*numbers.numbers(text, places), *numbers.coded(text)):
            yield Finding(number.kind, number.start, number.end - number.start)
        if "forbidden_term" in self._kinds:
            yield from _of("forbidden_term", self._terms.find(text))

    def _is_allowed(self, text: str, finding: Finding) -> bool:
        found = text[finding.offset : finding.end]
        return any(pattern.fullmatch(found) for pattern in self._allow)


def count_by_kind(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings there are of each kind, kinds without any left out, in the order of :data:`KINDS`."""
    counts = Counter(finding.kind for finding in findings)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _of(kind: str, spans: Iterable[tuple[int, int]]) -> Iterator[Finding]:
    for start, end in spans:
        yield Finding(kind, start, end - start)


_SURE: dict[str, int] = {
    kind: rank
    for rank, kind in enumerate(
        (
            "secret",
            "cn_resident_id",
            "iban",
            "card",
            "national_id",
            "us_ssn",
            "email",
            "ipv6",
            "ipv4",
            "phone",
        )
    )
}


def _without_overlaps(found: list[Finding]) -> list[Finding]:
    """Forbidden terms stand beside anything; of the rest a place belongs to one finding."""
    terms = [finding for finding in found if finding.kind == "forbidden_term"]
    kept: list[Finding] = []
    for finding in sorted(
        (f for f in found if f.kind != "forbidden_term"), key=lambda f: (_SURE[f.kind], f.offset)
    ):
        at = bisect(kept, finding.offset, key=lambda other: other.offset)
        if (at == 0 or kept[at - 1].end <= finding.offset) and (
            at == len(kept) or finding.end <= kept[at].offset
        ):
            kept.insert(at, finding)
    return sorted([*kept, *terms], key=lambda finding: (finding.offset, finding.kind))
