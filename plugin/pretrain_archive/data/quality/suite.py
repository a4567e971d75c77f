"""The versioned suite: which rules judge a data set, by which limits, and what makes a document unclean.

A suite is a TOML or JSON file (:data:`FORMAT`): ``name``, ``version``, ``[[threshold]]`` for single documents and
``[[rule]]`` over the tables of a check. Limits and severities stand in the suite and may be set otherwise by a policy;
they stand nowhere else. The suite that was used, with what the policy changed, is in the report and under its digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.policy import Data

FORMAT = "pretrain-archive/quality-suite/1"

Severity = Literal["blocking", "advisory"]
Table = Literal["documents", "aggregates", "fields"]

NEEDS = ("benchmarks", "parent", "split", "languages", "labels", "terms", "review", "rows")
"""What a rule may need; without it the rule is told among what was not checked."""

TINY = 1e-12
"""Subtracted from a required share: 1 - 0.58 is 0.42000000000000004 and must not fail 42 of 100."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Where:
    """Only rows whose ``column`` lies between ``min`` and ``max`` (both included, None is open)."""

    column: str
    min: float | None = None
    max: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The condition as plain JSON."""
        return {"column": self.column, "min": self.min, "max": self.max}


@dataclass(frozen=True, kw_only=True, slots=True)
class Threshold:
    """What makes one document unclean: ``column`` outside ``min`` to ``max``; ``source`` says who found it to matter.

    A document that ``where`` leaves out, or whose column is empty, is not judged by it. How many thresholds of a
    ``group`` a document breaks is its column ``faults_<group>``, empty if none of them judged it.
    """

    id: str
    column: str
    group: str = "cleanliness"
    min: float | None = None
    max: float | None = None
    where: Where | None = None
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The threshold as plain JSON."""
        where = self.where.to_dict() if self.where else None
        values = {"id": self.id, "group": self.group, "column": self.column, "min": self.min, "max": self.max}
        return values | {"where": where, "source": self.source}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One expectation over a table.

    ``documents`` has a row for each document, ``aggregates`` one row of numbers of the whole data set, ``fields`` a row
    for each record with the named field of the data itself. ``limit_is`` says what ``limit`` bounds: the ``share`` of
    rows that may fail, the ``max`` or the ``min`` of the column; empty where the expectation's arguments say it all.
    ``needs`` names what a check must have to be asked this (``benchmarks``, ``parent``, ``languages`` …; ``rows``: some
    row to judge); without it the rule is told among what was not checked.
    """

    id: str
    gate: str
    table: Table
    expectation: str
    column: str = ""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    limit: float | str | None = None
    limit_is: Literal["share", "max", "min", ""] = ""
    severity: Severity = "blocking"
    where: Where | None = None
    needs: str = ""
    source: str = ""

    @property
    def rows(self) -> bool:
        """Whether the expectation judges row by row, so that batches can be counted together."""
        return self.expectation.startswith("expect_column_values_to_")

    def arguments(self) -> dict[str, Any]:
        """The expectation's keyword arguments, with column and limit."""
        made = dict(self.kwargs)
        if self.column:
            made["column"] = self.column
        if isinstance(self.limit, int | float):
            if self.limit_is == "share":
                made["mostly"] = max(0.0, 1 - self.limit - TINY)
            elif self.limit_is == "max":
                made["max_value"] = self.limit + TINY
            elif self.limit_is == "min":
                made["min_value"] = self.limit
        return made

    def to_dict(self) -> dict[str, Any]:
        """The rule as plain JSON: what the suite's digest is over."""
        return {
            "id": self.id,
            "gate": self.gate,
            "table": self.table,
            "type": self.expectation,
            "kwargs": self.arguments(),
            "limit": self.limit,
            "severity": self.severity,
            "where": self.where.to_dict() if self.where else None,
            "needs": self.needs,
            "source": self.source,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Suite:
    """Rules and thresholds under a name and a version."""

    name: str
    version: str
    rules: tuple[Rule, ...]
    thresholds: tuple[Threshold, ...] = ()
    profile: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The suite as plain JSON."""
        return {
            "name": self.name,
            "version": self.version,
            "profile": self.profile,
            "rules": [rule.to_dict() for rule in self.rules],
            "thresholds": [threshold.to_dict() for threshold in self.thresholds],
        }

    def adapted(
        self, limits: Mapping[str, float], severities: Mapping[str, Severity], mixture: Sequence[Rule] = ()
    ) -> Suite:
        """The suite with a policy's limits and severities by rule id; an id that no rule has is an error."""
        rules = (*self.rules, *mixture)
        known = {rule.id: rule for rule in rules}
        for name in (*limits, *severities):
            if name not in known:
                hint = f"Rules with a limit: {', '.join(sorted(r.id for r in rules if r.limit_is))}."
                raise InputError("data.quality", name, "is no rule of the suite", hint=hint)
        for name, limit in limits.items():
            rule = known[name]
            if not rule.limit_is:
                raise InputError("data.quality.limits", name, "is a rule without a limit to set")
            known[name] = replace(rule, limit=limit)
        for name, severity in severities.items():
            known[name] = replace(known[name], severity=severity)
        return replace(self, rules=tuple(known.values()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a policy demands otherwise than the suite: by rule id, and ``mixture`` (domain, share, tolerance).

    The flat limits of a policy are named here too; None leaves the suite's own.
    """

    max_exact_duplicate_rate: float | None = None
    max_unclean_rate: float | None = None
    max_format_error_rate: float | None = None
    min_documents: int | None = None
    mixture: tuple[tuple[str, float, float], ...] = ()
    by_rule: Mapping[str, float] = field(default_factory=dict)
    severities: Mapping[str, Severity] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Data) -> Limits:
        """The limits of a policy."""
        for domain, numbers in data.mixture.items():
            if len(numbers) != 2:
                raise InputError(
                    f"data.mixture.{domain}",
                    numbers,
                    "is not a share and a tolerance",
                    hint="Write [0.5, 0.1].",
                )
        return cls(
            max_exact_duplicate_rate=data.max_exact_duplicate_rate,
            max_unclean_rate=data.max_unclean_rate,
            max_format_error_rate=data.max_format_error_rate,
            min_documents=data.min_documents,
            mixture=tuple((name, pair[0], pair[1]) for name, pair in sorted(data.mixture.items())),
            by_rule=dict(data.quality.limits),
            severities=dict(data.quality.severities),
        )

    def apply(self, suite: Suite) -> Suite:
        """The suite under these limits; a flat limit for a rule that the suite has not is left aside."""
        flat: dict[str, float | None] = {
            "exact_duplicates": self.max_exact_duplicate_rate,
            "cleanliness": self.max_unclean_rate,
            "format": self.max_format_error_rate,
            "documents": self.min_documents,
        }
        present = {rule.id for rule in suite.rules}
        limits = {name: value for name, value in flat.items() if value is not None and name in present}
        return suite.adapted(limits | dict(self.by_rule), self.severities, self._mixture())

    def _mixture(self) -> list[Rule]:
        rules = [
            Rule(
                id=f"mixture:{domain}",
                gate="mixture",
                table="aggregates",
                expectation="expect_column_max_to_be_between",
                column=f"share:{domain}",
                kwargs={"min_value": share - tolerance - TINY, "max_value": share + tolerance + TINY},
                limit=f"{share} ± {tolerance}",
                source="declared by the policy",
            )
            for domain, share, tolerance in self.mixture
        ]
        if self.mixture and "mixture_undeclared" in self.by_rule:
            rules.append(
                Rule(
                    id="mixture_undeclared",
                    gate="mixture",
                    table="aggregates",
                    expectation="expect_column_max_to_be_between",
                    column="undeclared_share",
                    limit_is="max",
                    severity="advisory",
                    source="declared by the policy",
                )
            )
        return rules
