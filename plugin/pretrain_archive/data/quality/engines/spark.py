"""More than one machine: the same measures over the same jobs, spread by Spark; the same numbers as on one machine.

Each job of the scan is measured by a Spark task with the functions of the local engine and leaves the same files in the
working folder, which must be a file system that all machines share. The statistics are then a Spark data frame: exact
duplicates and the mixture are Spark aggregations, Great Expectations judges through its Spark data source. Near
duplicates are searched in the same sketch files by the driver, in memory that a setting bounds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrain_archive.data.quality.aggregates import Plan, Summary, summarise, total
from pretrain_archive.data.quality.columns import with_faults
from pretrain_archive.data.quality.engines.local import blame_findings, facts_of, listed, plan_of, unclean
from pretrain_archive.data.quality.engines.spark_jobs import measure_jobs
from pretrain_archive.data.quality.engines.spark_session import spark_session
from pretrain_archive.data.quality.facts import EXAMPLES, Facts, Inputs
from pretrain_archive.data.quality.fields import field_batches
from pretrain_archive.data.quality.judging.expectations import Answer, Validator
from pretrain_archive.data.quality.judging.local import LocalJudge, by_condition
from pretrain_archive.data.quality.likeness import (
    ROW_BITS,
    Examples,
    compared,
    find_near,
    near_report,
    places_of,
    row_of,
    starts_of,
)
from pretrain_archive.data.quality.scan import Scan
from pretrain_archive.data.quality.suite import Rule
from pretrain_archive.data.quality.tables import DERIVED, Documents, as_text, with_derived

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

NUMBER = "number"
MARKS = {"duplicate", "near_duplicate", "contaminated"}


@contextmanager
def measure_spark(inputs: Inputs) -> Iterator[tuple[Facts, Plan]]:
    """Measure everything on Spark; what was measured can be judged inside the ``with`` block."""
    with spark_session(inputs.master) as spark:
        found = measure_jobs(spark, inputs)
        documents = Documents(scan=found)
        examples = listed(found)
        frame = _frame(spark, found)
        duplicates = _exact(frame, documents, examples)
        exact = duplicates.count()
        frame = frame.join(duplicates.select(NUMBER, "duplicate"), NUMBER, "left").fillna({"duplicate": 0})
        frame, facts = _alike(spark, frame, documents, inputs, exact, examples)
        frame = frame.persist()
        plan = plan_of(inputs, documents.columns | (MARKS & set(frame.columns)))
        summary = _summary(frame, plan)
        blame_findings(summary, found.findings())
        examples["unclean_documents"] = unclean(documents, plan) if summary.unclean else []
        judge = SparkJudge(frame, plan, documents, inputs)
        made = facts_of(found, summary, plan, judge)
        made.exact_duplicates, made.examples = exact, examples
        made.near, made.contamination, made.numbers = facts
        yield made, plan
        frame.unpersist()
        duplicates.unpersist()


class SparkJudge(LocalJudge):
    """Judges rules over documents with Great Expectations' Spark data source, all else as on one machine."""

    def __init__(self, frame: DataFrame, plan: Plan, documents: Documents, inputs: Inputs) -> None:
        super().__init__(documents.batches, plan, fields=field_batches(inputs.shards))
        self._all = frame

    def judge_documents(
        self, rules: Sequence[Rule], validator: Validator, answers: dict[str, Answer]
    ) -> None:
        """Let the library judge rules over the whole data frame."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        del validator
        on_spark = Validator("spark")
        table = _judged(self._all, self.plan, rules, self.needed(rules)).persist()
        for where, asked in by_condition(rules).items():
            chosen = table
            if where is not None:
                column = F.col(where.column)
                # As on one machine: a missing value is not within.
                chosen = table.filter(column.isNotNull() & ~F.isnan(column.cast("double")))
                chosen = chosen if where.min is None else chosen.filter(column >= where.min)
                chosen = chosen if where.max is None else chosen.filter(column <= where.max)
            names = sorted({rule.column for rule in asked if rule.column}) or table.columns[:1]
            on_spark.validate(asked, chosen.select(*names), answers)
        table.unpersist()


def _frame(spark: SparkSession, found: Scan) -> DataFrame:
    """The statistics of all documents, each with its number: the ordinal of its job, then its row."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    files = [_literal(found.folder / f"{name}.parquet") for name in found.names]
    if not files:
        return spark.createDataFrame(
            [], "path string, domain string, bytes long, tokens long, sha256 binary, number long"
        )
    ordinals = spark.createDataFrame(
        [(f"{name}.parquet", ordinal) for ordinal, name in enumerate(found.names)],
        "file string, ordinal long",
    )
    read = spark.read.parquet(*files).select(
        "*", F.col("_metadata.file_name").alias("file"), F.col("_metadata.row_index").alias("row")
    )
    numbered = read.join(F.broadcast(ordinals), "file")
    number = F.shiftleft(F.col("ordinal"), ROW_BITS) + F.col("row")
    return numbered.withColumn(NUMBER, number).drop("file", "row", "ordinal")


def _literal(path: Path) -> str:
    """A path for Spark, which takes what is not escaped for a pattern."""
    return re.sub(r"([][{}*?\\])", r"\\\1", str(path))


def _exact(frame: DataFrame, documents: Documents, examples: Examples) -> DataFrame:
    """Documents whose bytes equal an earlier one's, with the number of the first; some are listed."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    first = frame.groupBy("sha256").agg(F.min(NUMBER).alias("first"), F.count("*").alias("copies"))
    repeated = frame.select(NUMBER, "sha256").join(first.filter("copies > 1"), "sha256")
    duplicates = (
        repeated.filter(F.col(NUMBER) != F.col("first"))
        .select(NUMBER, "first")
        .withColumn("duplicate", F.lit(1))
    )
    duplicates = duplicates.persist()
    starts = starts_of(documents.scan)
    pairs = [
        (row_of(one[0], starts), row_of(one[1], starts))
        for one in duplicates.orderBy(NUMBER).limit(EXAMPLES).collect()
    ]
    places = places_of(documents, {row for pair in pairs for row in pair})
    examples["exact_duplicates"] = [{**places[row], "same_as": places[kept]} for row, kept in pairs]
    return duplicates


def _alike(  # noqa: PLR0917 - what is compared, and where it is told
    spark: SparkSession,
    frame: DataFrame,
    documents: Documents,
    inputs: Inputs,
    exact: int,
    examples: Examples,
) -> tuple[DataFrame, tuple[dict[str, Any] | None, list[dict[str, Any]] | None, dict[str, float]]]:
    """The frame with marks of near duplicates and of contamination, and what a report tells of them."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    starts, near = starts_of(documents.scan), None
    if inputs.measures.near_duplicates is not None and starts[-1]:
        near = find_near(documents, inputs, starts, examples)
        frame = _marked(spark, frame, (number for number, _ in near.twins()), "near_duplicate", inputs.work)
        frame = frame.withColumn("near_duplicate", F.col("near_duplicate") * (1 - F.col("duplicate")))
    contamination, numbers, marked = compared(documents, inputs, near, starts)
    if marked:
        found = {number for one in marked for number in one}
        frame = _marked(spark, frame, found, "contaminated", inputs.work)
    told = None if near is None else near_report(near, exact)
    return frame, (told, contamination, numbers)


def _marked(
    spark: SparkSession, frame: DataFrame, numbers: Iterable[int], name: str, work: Path
) -> DataFrame:
    """The frame with a column that is 1 for the documents of these numbers, which may be very many."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    file = work / f"{name}.parquet"
    pq.write_table(pa.table({NUMBER: pa.array(list(numbers), pa.int64())}), file)
    marks = spark.read.parquet(_literal(file)).withColumn(name, F.lit(1))
    return frame.join(marks, NUMBER, "left").fillna({name: 0})


def _summary(frame: DataFrame, plan: Plan) -> Summary:
    """The sum over all documents: a part of it by each Spark task; the mixture by a Spark aggregation."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    names = plan.names()

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415

        made = total(summarise(_derived(pa.Table.from_batches([batch]), names), plan) for batch in batches)
        yield pa.RecordBatch.from_pydict({"summary": [json.dumps(made.to_json())]})

    rows = frame.select(*_stored(names)).mapInArrow(add, "summary string").collect()
    summary = total(Summary.from_json(json.loads(row["summary"])) for row in rows)
    grouped = frame.groupBy("domain").agg(F.count("*"), F.sum("bytes"), F.sum("tokens")).collect()
    summary.domains = {str(row[0]): [int(row[1]), int(row[2] or 0), int(row[3] or 0)] for row in grouped}
    return summary


def _judged(frame: DataFrame, plan: Plan, rules: Sequence[Rule], needed: Sequence[str]) -> DataFrame:
    """The columns that rules ask, with those that are derived and counts of faults."""
    wanted = sorted(
        {rule.column for rule in rules if rule.column} | {r.where.column for r in rules if r.where}
    )
    groups = {name.removeprefix("faults_") for name in wanted}
    thresholds = [threshold for threshold in plan.usable() if threshold.group in groups]
    wanted = wanted or ["bytes"]
    types = dict(frame.dtypes) | {name: "int" for name in wanted if name.startswith("faults_")}
    types |= {"language_known": "string", "language_mismatch": "tinyint"}

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415

        for batch in batches:
            table = _derived(pa.Table.from_batches([batch]), wanted)
            table, _ = with_faults(table, thresholds)
            yield from table.select(wanted).to_batches()

    stored = _stored(sorted({*needed, *(name for name in wanted if not name.startswith("faults_"))}))
    return frame.select(*stored).mapInArrow(add, ", ".join(f"`{name}` {types[name]}" for name in wanted))


def _stored(names: Sequence[str]) -> list[str]:
    """The columns behind names, some of which are derived from others."""
    made = {name for name in names if name not in DERIVED}
    for name in names:
        made |= set(DERIVED.get(name, ()))
    return sorted(made) or ["bytes"]


def _derived(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return with_derived(as_text(table), set(names))
