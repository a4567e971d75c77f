"""Columns of statistics as numbers: what lies outside a limit, how values are spread, what is missing.

NaN and an empty value are missing and fail nothing; infinity lies outside of every range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pretrain_archive.data.quality.suite import Rule, Threshold, Where

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa  # type: ignore[import-untyped]
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

RATIO_BINS = 20
SIZE_BINS = 32
"""Bins of a histogram of sizes: 0, 1, 2–3, 4–7 … by powers of two; the last one is open."""


def numbers(table: pa.Table, name: str) -> Floats:
    """A column as doubles; what is missing is NaN."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    column = table[name]
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def with_faults(table: pa.Table, thresholds: Sequence[Threshold]) -> tuple[pa.Table, dict[str, list[int]]]:
    """The table with a column ``faults_<group>`` per group, and per threshold how many rows it judged and found faulty.

    The column counts the thresholds that a document breaks; it is empty where none of the group judged it.
    """
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    counts: dict[str, Any] = {}
    judged: dict[str, Any] = {}
    found: dict[str, list[int]] = {}
    for threshold in thresholds:
        asked, broken = _judged(table, threshold)
        group = threshold.group
        counts[group] = counts.get(group, np.zeros(table.num_rows, dtype=np.int32)) + broken
        judged[group] = judged.get(group, np.zeros(table.num_rows, dtype=bool)) | asked
        found[threshold.id] = [int(asked.sum()), int(broken.sum())]
    for group, column in counts.items():
        table = table.append_column(f"faults_{group}", pa.array(column, mask=~judged[group]))
    return table, found


def beyond(table: pa.Table, threshold: Threshold) -> Mask:
    """Which documents break a threshold."""
    return _judged(table, threshold)[1]


def _judged(table: pa.Table, threshold: Threshold) -> tuple[Mask, Mask]:
    import numpy as np  # noqa: PLC0415

    values = numbers(table, threshold.column)
    asked = ~np.isnan(values) & within(table, threshold.where)
    return asked, asked & outside(values, threshold.min, threshold.max)


def failing(table: pa.Table, rule: Rule) -> Mask | None:
    """Which rows fail a rule over rows, to say where they lie; None for expectations of another form."""
    import numpy as np  # noqa: PLC0415
    import pyarrow.compute as pc  # type: ignore[import-untyped]  # noqa: PLC0415

    if not rule.rows or rule.column not in table.column_names:
        return None
    asked, arguments = within(table, rule.where), rule.arguments()
    if rule.expectation.endswith("_values_to_be_between"):
        values = numbers(table, rule.column)
        return (
            asked
            & ~np.isnan(values)
            & outside(values, arguments.get("min_value"), arguments.get("max_value"))
        )
    if rule.expectation.endswith("_values_to_be_in_set"):
        inside = np.zeros(table.num_rows, dtype=bool)
        for value in arguments["value_set"]:
            inside |= np.asarray(
                pc.fill_null(pc.equal(table[rule.column], value), fill_value=True), dtype=bool
            )
        return asked & ~inside
    return None


def outside(values: Floats, low: float | None, high: float | None) -> Mask:
    """Whether each value lies outside; infinity always does, a missing value never."""
    import numpy as np  # noqa: PLC0415

    mask = np.isinf(values)
    if low is not None:
        mask |= values < low
    if high is not None:
        mask |= values > high
    return mask


def histogram(values: Floats, form: Literal["size", "ratio"]) -> list[int]:
    """Counts per bin, then how many values are missing and how many are not finite."""
    import numpy as np  # noqa: PLC0415

    finite = values[np.isfinite(values)]
    if form == "ratio":
        # A share of exactly 1 belongs to the last bin; what lies beyond 1 too (a rate per word can).
        bins = np.clip((finite * RATIO_BINS).astype(np.int64), 0, RATIO_BINS - 1)
        counts = np.bincount(bins, minlength=RATIO_BINS)
    else:
        whole = np.clip(finite, 0, 2**62).astype(np.int64)
        bins = np.where(whole > 0, np.floor(np.log2(np.maximum(whole, 1))).astype(np.int64) + 1, 0)
        counts = np.bincount(np.minimum(bins, SIZE_BINS - 1), minlength=SIZE_BINS)
    missing = int(np.isnan(values).sum())
    return [*(int(count) for count in counts), missing, len(values) - len(finite) - missing]


def within(table: pa.Table, where: Where | None) -> Mask:
    """Which rows a condition takes; a missing value is not within."""
    import numpy as np  # noqa: PLC0415

    if where is None:
        return np.ones(table.num_rows, dtype=bool)
    values = numbers(table, where.column)
    low = -np.inf if where.min is None else where.min
    high = np.inf if where.max is None else where.max
    return (values >= low) & (values <= high)
