"""Whether several evaluations measured the same thing: metric definitions side by side (R124).

Pure, from records alone. Compared are how it was measured (the definition, key by key), the suites that the output was
held to, the data set, and unit and direction of every metric. Another program that measures by the same definition is
noted, and no difference of definition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pretrain_archive.domain.kinds import EvaluationReported

ABSENT = "unrecorded"
MOST = 200
"""Differences that are listed; more are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Different:
    """One field of the definitions and what each evaluation says of it, by its label."""

    field: str
    values: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The difference as plain JSON."""
        return {"field": self.field, "values": dict(self.values)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """The definitions of several evaluations; ``noted`` differs without changing what is measured."""

    labels: tuple[str, ...]
    different: tuple[Different, ...]
    noted: tuple[Different, ...] = ()
    equal: int = 0

    @property
    def uniform(self) -> bool:
        """Whether the numbers can be compared."""
        return not self.different

    def to_json(self) -> dict[str, Any]:
        """What ``evaluation compare`` prints."""
        return {
            "uniform": self.uniform,
            "evaluations": list(self.labels),
            "different": [one.to_json() for one in self.different[:MOST]],
            "more": max(0, len(self.different) - MOST),
            "noted": [one.to_json() for one in self.noted],
            "equal": self.equal,
        }


def definition_of(report: EvaluationReported) -> dict[str, Any]:
    """Every field of a report's metric definitions under its path."""
    fields = {f"definition.{path}": value for path, value in _leaves(report.definition)}
    fields |= {"data_set": report.data_set, "data_set_digest": report.data_set_digest}
    for suite in report.suites:
        fields[f"suite.{suite.name}"] = f"version {suite.version}, {suite.digest}"
    for metric in report.metrics:
        fields[f"metric.{metric.name}"] = f"{metric.unit or 'unit unrecorded'}, {metric.direction} is better"
    return fields


def compare_definitions(reports: Mapping[str, EvaluationReported]) -> Compared:
    """What differs between the definitions of ``reports`` (label → report); at least two."""
    if len(reports) < 2:
        raise ValueError("a comparison needs two evaluations")
    every = {label: definition_of(report) for label, report in reports.items()}
    different, equal = [], 0
    for field in sorted({field for fields in every.values() for field in fields}):
        values = {label: fields.get(field, ABSENT) for label, fields in every.items()}
        if len({_text(value) for value in values.values()}) == 1:
            equal += 1
        else:
            different.append(Different(field=field, values=values))
    programs = {label: report.evaluator_digest or ABSENT for label, report in reports.items()}
    noted = [Different(field="program", values=programs)] if len(set(programs.values())) > 1 else []
    return Compared(
        labels=tuple(reports), different=tuple(different), noted=tuple(noted), equal=equal
    )  # fmt: skip


def named_differences(compared: Compared, most: int = 5) -> list[str]:
    """The first differing fields in words."""
    shown = [
        f"{one.field}: {' / '.join(_short(value) for value in one.values.values())}"
        for one in compared.different[:most]
    ]
    rest = len(compared.different) - most
    return [*shown, *([f"and {rest} more"] if rest > 0 else [])]


def _leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        return [
            leaf for key, one in value.items() for leaf in _leaves(one, f"{path}.{key}" if path else str(key))
        ]
    return [(path, value)]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else _text(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
