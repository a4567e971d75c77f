"""Great Expectations over frames: how rules become expectations, and what of an answer is kept.

The library is imported inside the functions: it costs seconds, and DAG files must not pay them. Its usage statistics
are off, its context lives in memory, and of its results only numbers are kept. What it cannot judge is *not checked*;
a number that is not finite is never within a limit (NaN is a missing value, infinity is out of range).
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pretrain_archive.data.quality.suite import Rule, Threshold, Where
from pretrain_archive.domain.errors import InputError

DETAIL = 300
"""Characters that are kept of the library's words about a rule that it could not judge."""

LARGEST = 1.7976931348623157e308
"""The largest finite double: the open end of a range, so that infinity lies outside it."""

BETWEEN = "to_be_between"
ENDS = ("min_value", "max_value")


@dataclass(kw_only=True, slots=True)
class Answer:
    """What was found for one rule, summed over batches: ``unexpected`` of ``judged`` rows, ``missing`` left out.

    ``observed`` is the value of an expectation over a whole column. ``results`` are the library's own answers.
    """

    rule: Rule
    rows: int = 0
    missing: int = 0
    unexpected: int = 0
    observed: Any = None
    success: bool = True
    error: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)

    @property
    def judged(self) -> int:
        """Rows that had a value."""
        return self.rows - self.missing

    def add(self, result: Any) -> None:
        """Take in the library's answer for one more batch."""
        numbers = result.result or {}
        errors = _exceptions(result.exception_info)
        self.error = self.error or "; ".join(errors)[:DETAIL]
        self.rows += int(numbers.get("element_count") or 0)
        self.missing += int(numbers.get("missing_count") or 0)
        self.unexpected += int(numbers.get("unexpected_count") or 0)
        self.observed = numbers.get("observed_value")
        self.success = self.success and bool(result.success)
        kept = {
            name: strict(numbers[name])
            for name in sorted(numbers)
            if not isinstance(numbers[name], list | dict)
        }
        self.results.append(
            {"success": bool(result.success), "result": kept, "error": "; ".join(errors)[:DETAIL] or None}
        )


def strict(value: Any) -> Any:
    """A value that strict JSON can hold; a number that is not finite becomes ``{"value": "inf", "not_finite": true}``.

    Text of the data is never kept: a text becomes its type.
    """
    if value is None or isinstance(value, bool):
        return value
    number = strict_number(value)
    if isinstance(number, str):
        finite = number not in {"nan", "inf", "-inf"}
        return type(value).__name__ if finite else {"value": number, "not_finite": True}
    return number


def strict_number(value: Any) -> float | str | None:
    """A number that strict JSON can hold, or a text that says what it was (``nan``, ``inf``)."""
    if value is None or isinstance(value, str):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return type(value).__name__
    return number if math.isfinite(number) else str(number)


def _library() -> Any:
    """The library; whoever imports it first must have set what it reads while it is imported."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # no message may leave this machine
    # It tells of its own workings, hundreds of lines while it is imported and more at every call.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations  # noqa: PLC0415

    return great_expectations


class Validator:
    """Great Expectations with its context; ``kind`` is the data source that frames belong to."""

    def __init__(self, kind: Literal["pandas", "spark"] = "pandas", *, session: Any = None) -> None:
        gx = _library()
        sources = _context(gx).data_sources
        if kind == "spark":
            # Our own session: the library would otherwise stop it and start one of other settings.
            self._source = sources.add_spark("frames", force_reuse_spark_context=True, persist=False)
        else:
            self._source = sources.add_pandas("frames")
        self._gx, self._session, self._count = gx, session, 0

    def validate(self, rules: Sequence[Rule], frame: Any, answers: dict[str, Answer]) -> None:
        """Let the library judge ``rules`` over one frame and add what it says to ``answers``."""
        if not rules:
            return
        self._count += 1
        name = f"frame{self._count}"
        suite = self._gx.ExpectationSuite(name=name, expectations=[expectation(rule) for rule in rules])
        asset = self._source.add_dataframe_asset(name)
        batch = asset.add_batch_definition_whole_dataframe(name).get_batch({"dataframe": frame})
        # No values are listed: only numbers leave the library.
        form = {"result_format": "BASIC", "partial_unexpected_count": 0}
        for result in batch.validate(suite, result_format=form).results:
            answers[result.expectation_config.meta["rule"]].add(result)
        self._source.delete_asset(name)


def check_rules(rules: Iterable[Rule], thresholds: Iterable[Threshold] = ()) -> None:
    """Raise ``InputError`` for a rule that is no expectation of the library, or none that data could fail."""
    for rule in rules:
        arguments = rule.arguments()
        if rule.table == "documents":
            ranged = rule.rows and rule.expectation.endswith(BETWEEN)
            _numeric(rule.id, rule.column if ranged else "", rule.where)
        if (value := _not_finite(arguments)) is not None:
            raise InputError("suite", rule.id, f"holds {value}, expected finite numbers")
        if rule.expectation.endswith(BETWEEN) and all(arguments.get(end) is None for end in ENDS):
            # The library lets it pass, whatever the data.
            raise InputError(
                "suite",
                rule.id,
                "has neither min_value nor max_value",
                hint="Give it a limit, or an end of its range.",
            )
        expectation(rule)
    for threshold in thresholds:
        _numeric(threshold.id, threshold.column, threshold.where)


def _numeric(name: str, column: str, where: Where | None) -> None:
    """Raise ``InputError`` where a range is asked of a column of texts or digests."""
    from pretrain_archive.data.quality.tables import NO_NUMBERS  # noqa: PLC0415

    for asked in (column, where.column if where else ""):
        if asked in NO_NUMBERS:
            raise InputError("suite", name, f"asks for a range of {asked!r}, which is no number")


def _not_finite(value: Any) -> float | None:
    """A number in plain JSON that is not finite, None if there is none."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return next((found for part in parts if (found := _not_finite(part)) is not None), None)
    return value if isinstance(value, float) and not math.isfinite(value) else None


def expectation(rule: Rule) -> Any:
    """The library's expectation for a rule."""
    _library()
    from great_expectations.expectations.expectation_configuration import (  # noqa: PLC0415
        ExpectationConfiguration,
    )

    kwargs = rule.arguments()
    if rule.expectation.endswith(BETWEEN) and rule.table != "documents":
        kwargs |= _closed(kwargs)
    try:
        return ExpectationConfiguration(
            type=rule.expectation, kwargs=kwargs, meta={"rule": rule.id}
        ).to_domain_obj()
    except Exception as error:  # the library raises many unrelated types for a bad configuration
        raise InputError(
            "suite", rule.expectation, f"not an expectation that can be used: {error}"
        ) from error


def engine() -> str:
    """Name and version of the library that judges."""
    from importlib.metadata import version  # noqa: PLC0415

    return f"great_expectations {version('great_expectations')}"


def _closed(kwargs: dict[str, Any]) -> dict[str, float]:
    """A range with both ends: an open end would take infinity for a value within it."""
    open_ends = {"min_value": -LARGEST, "max_value": LARGEST}
    given = [name for name in open_ends if kwargs.get(name) is not None]
    return {} if len(given) != 1 else {name: end for name, end in open_ends.items() if name not in given}


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


def _exceptions(info: Any) -> list[str]:
    nested = [info, *(value for value in (info or {}).values() if isinstance(value, dict))]
    return [str(e["exception_message"]) for e in nested if e and e.get("raised_exception")]
