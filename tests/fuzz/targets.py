"""The targets: every parser of bytes that come from outside, with inputs to begin with."""

from __future__ import annotations

from collections.abc import Iterable

from tests.fuzz.target import Target
from tests.fuzz.targets_artifacts import ARTIFACTS
from tests.fuzz.targets_records import RECORDS
from tests.fuzz.targets_texts import TEXTS
from tests.fuzz.wrong_on_purpose import WRONG


def by_name(*groups: Iterable[Target]) -> dict[str, Target]:
    """Targets by name."""
    return {target.name: target for group in groups for target in group}


TARGETS = by_name(ARTIFACTS, RECORDS, TEXTS)
ALL = by_name(ARTIFACTS, RECORDS, TEXTS, WRONG)
