"""The gates as a Great Expectations suite over the tables, and how it is run.

Great Expectations is imported inside the functions: it costs seconds, and DAG files must not pay them. Its
usage statistics are off, its context lives in memory, and of its results only numbers are kept.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pretrain_archive.data.quality.tables import DOCUMENT_COLUMNS, Tables
from pretrain_archive.domain.errors import InputError
from pretrain_archive.domain.kinds import QualityGate
from pretrain_archive.domain.policy import Data

TINY = 1e-12
"""Subtracted from a required share: 1 - 0.58 is 0.42000000000000004 and must not fail 42 of 100."""

DETAIL = 300
"""Characters that are kept of the library's words about a rule that it could not judge."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What quality is demanded; rates are between 0 and 1, ``mixture`` is domain → (share, tolerance)."""

    max_exact_duplicate_rate: float = 0.05
    max_unclean_rate: float = 0.02
    max_format_error_rate: float = 0.0
    min_documents: int = 1
    mixture: tuple[tuple[str, float, float], ...] = ()

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
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One expectation: the table it looks at, its type and arguments, and the limit as a person reads it."""

    name: str
    table: str
    type: str
    kwargs: dict[str, Any]
    limit: float | str | None

    def to_dict(self) -> dict[str, Any]:
        """The rule as plain JSON: what the suite's digest is over."""
        return {"name": self.name, "table": self.table, "type": self.type, "kwargs": self.kwargs}


def standard_rules(limits: Limits) -> list[Rule]:
    """The gates of the standard suite: documents, format, exact duplicates, cleanliness, mixture."""
    within = "expect_column_values_to_be_in_set"

    def rate(name: str, table: str, column: str, limit: float, *, good: bool) -> Rule:
        mostly = max(0.0, 1 - limit - TINY)
        kwargs = {"column": column, "value_set": [good], "mostly": mostly}
        return Rule(name=name, table=table, type=within, kwargs=kwargs, limit=limit)

    return [
        Rule(
            name="documents",
            table="documents",
            type="expect_table_row_count_to_be_between",
            kwargs={"min_value": limits.min_documents},
            limit=limits.min_documents,
        ),
        rate("format", "units", "format_ok", limits.max_format_error_rate, good=True),
        rate("exact_duplicates", "documents", "duplicate", limits.max_exact_duplicate_rate, good=False),
        rate("cleanliness", "documents", "clean", limits.max_unclean_rate, good=True),
        *(
            Rule(
                name=f"mixture:{domain}",
                table="mixture",
                type="expect_column_max_to_be_between",
                kwargs={
                    "column": domain,
                    "min_value": share - tolerance - TINY,
                    "max_value": share + tolerance + TINY,
                },
                limit=f"{share} ± {tolerance}",
            )
            for domain, share, tolerance in limits.mixture
        ),
    ]


def read_rules(file: Path) -> list[Rule]:
    """Read expectations over the documents table from JSON: a list, or ``{"expectations": [...]}``.

    Each is ``{"type": "expect_…", "kwargs": {…}}``. Raises ``InputError`` naming file and place.
    """
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError("suite", str(file), f"cannot be read as JSON: {error}") from error
    listed = value.get("expectations") if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise InputError("suite", str(file), "is not a list of expectations")
    rules = []
    for number, entry in enumerate(listed):
        if not (isinstance(entry, dict) and isinstance(entry.get("type"), str)):
            raise InputError("suite", str(file), f"expectation {number} has no type")
        kwargs = entry.get("kwargs", {})
        column = kwargs.get("column", "table")
        if column != "table" and column not in DOCUMENT_COLUMNS:
            hint = f"Columns are {', '.join(DOCUMENT_COLUMNS)}."
            raise InputError("suite", column, f"expectation {number} names an unknown column", hint=hint)
        limit = ", ".join(f"{name}={kwargs[name]}" for name in sorted(kwargs) if name != "column")
        name = f"{entry['type'].removeprefix('expect_')}:{column}#{number}"
        rules.append(Rule(name=name, table="documents", type=entry["type"], kwargs=kwargs, limit=limit))
    return rules


def run_rules(rules: Sequence[Rule], tables: Tables) -> list[QualityGate]:
    """Let Great Expectations judge each rule; what it cannot judge has failed."""
    # Read when the library is imported: no message may leave this machine.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx  # noqa: PLC0415
    import pandas as pd  # type: ignore[import-untyped]  # noqa: PLC0415

    source = _context(gx).data_sources.add_pandas("tables")
    answers: dict[str, Any] = {}
    for table, frame in _frames(rules, tables, pd).items():
        wanted = [_expectation(rule) for rule in rules if rule.table == table]
        if wanted:
            suite = gx.ExpectationSuite(name=table, expectations=wanted)
            asset = source.add_dataframe_asset(table)
            batch = asset.add_batch_definition_whole_dataframe(table).get_batch({"dataframe": frame})
            answers |= {
                answer.expectation_config.meta["rule"]: answer for answer in batch.validate(suite).results
            }
    return [_gate(rule, answers.get(rule.name)) for rule in rules]


def _context(gx: Any) -> Any:
    """A context in memory that sends nothing, draws nothing and leaves no folder behind."""
    from great_expectations.data_context.types.base import (  # noqa: PLC0415
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def engine() -> str:
    """Name and version of the library that judges."""
    from importlib.metadata import version  # noqa: PLC0415

    return f"great_expectations {version('great_expectations')}"


def _expectation(rule: Rule) -> Any:
    from great_expectations.expectations.expectation_configuration import (  # noqa: PLC0415
        ExpectationConfiguration,
    )

    meta = {"rule": rule.name}
    try:
        return ExpectationConfiguration(type=rule.type, kwargs=rule.kwargs, meta=meta).to_domain_obj()
    except Exception as error:  # the library raises many unrelated types for a bad configuration
        raise InputError("suite", rule.type, f"not an expectation that can be used: {error}") from error


def _frames(rules: Sequence[Rule], tables: Tables, pd: Any) -> dict[str, Any]:
    shares = tables.shares()
    domains = [rule.kwargs["column"] for rule in rules if rule.table == "mixture"]
    return {
        "documents": pd.DataFrame(tables.columns),
        "units": pd.DataFrame({"format_ok": [True] * tables.documents + [False] * tables.broken}),
        # One row with a column per declared domain; a domain without a byte has share 0.
        "mixture": pd.DataFrame({domain: [shares.get(domain, 0.0)] for domain in domains}),
    }


def _gate(rule: Rule, answer: Any) -> QualityGate:
    if answer is None:
        return QualityGate(
            name=rule.name, passed=False, observed=None, limit=rule.limit, detail="it was not judged"
        )
    errors = _exceptions(answer.exception_info)
    result = answer.result or {}
    observed = result.get("observed_value", None)
    detail = ""
    if result.get("unexpected_percent") is not None and "unexpected_count" in result:
        observed = result["unexpected_count"] / max(1, result["element_count"] - result["missing_count"])
        detail = f"{result['unexpected_count']} of {result['element_count']} rows"
    return QualityGate(
        name=rule.name,
        passed=bool(answer.success) and not errors,
        observed=strict_number(observed),
        limit=strict_number(rule.limit),
        detail="; ".join(errors)[:DETAIL] or detail,
    )


def _exceptions(info: Any) -> list[str]:
    nested = [info, *(value for value in (info or {}).values() if isinstance(value, dict))]
    return [str(e["exception_message"]) for e in nested if e and e.get("raised_exception")]


def strict_number(value: Any) -> float | str | None:
    """A number that strict JSON can hold, or a text that says what it was (``nan``, ``inf``)."""
    if value is None or isinstance(value, str):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return type(value).__name__
    return number if math.isfinite(number) else str(number)
