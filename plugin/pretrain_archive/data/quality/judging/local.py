"""Great Expectations on one machine: documents are judged in batches as pandas frames, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pretrain_archive.data.quality.aggregates import Plan
from pretrain_archive.data.quality.columns import with_faults, within
from pretrain_archive.data.quality.judging.expectations import Answer, Validator
from pretrain_archive.data.quality.suite import Rule, Where

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

Batches = Callable[[Sequence[str]], Iterator["pa.Table"]]
"""Named columns of all documents, batch by batch."""


class LocalJudge:
    """Judges rules with Great Expectations over pandas frames.

    Rules over rows are judged batch by batch and counted together; other expectations over documents see their
    columns whole. ``fields`` gives the batches of the data's own fields.
    """

    def __init__(self, batches: Batches, plan: Plan, *, fields: Batches | None = None) -> None:
        self._batches, self.plan, self._fields = batches, plan, fields

    def __call__(self, rules: Sequence[Rule], aggregates: Mapping[str, float]) -> dict[str, Answer]:
        """Answers by rule id; a rule whose column is in no table has none."""
        import pandas as pd  # noqa: PLC0415

        validator = Validator("pandas")
        answers = {
            rule.id: Answer(rule=rule) for rule in rules if _known(rule, self.plan, aggregates, self._fields)
        }
        asked = [rule for rule in rules if rule.id in answers]
        row = [rule for rule in asked if rule.table == "aggregates"]
        if row:
            frame = pd.DataFrame({rule.column: [float(aggregates[rule.column])] for rule in row})
            validator.validate(row, frame, answers)
        if documents := [rule for rule in asked if rule.table == "documents"]:
            self.judge_documents(documents, validator, answers)
        if self._fields is not None:
            self._judge([rule for rule in asked if rule.table == "fields"], self._fields, validator, answers)
        return answers

    def judge_documents(
        self, rules: Sequence[Rule], validator: Validator, answers: dict[str, Answer]
    ) -> None:
        """Let the library judge rules over the documents."""
        self._judge(rules, self._batches, validator, answers)

    def _judge(
        self, rules: Sequence[Rule], batches: Batches, validator: Validator, answers: dict[str, Answer]
    ) -> None:
        import pyarrow as pa  # noqa: PLC0415

        by_row, whole = [r for r in rules if r.rows], [r for r in rules if not r.rows]
        if by_row:
            for table in batches(self.needed(by_row)):
                self._frame(by_row, table, validator, answers)
        if whole and (tables := list(batches(self.needed(whole)))):
            self._frame(whole, pa.concat_tables(tables), validator, answers)

    def needed(self, rules: Sequence[Rule]) -> list[str]:
        """The measured columns behind the rules: those of thresholds for a column of faults."""
        wanted: set[str] = set()
        for rule in rules:
            wanted |= {rule.where.column} if rule.where else set()
            group = rule.column.removeprefix("faults_")
            if group == rule.column:
                wanted |= {rule.column} if rule.column else set()
            for threshold in self.plan.usable():
                if threshold.group == group:
                    wanted |= {threshold.column, *([threshold.where.column] if threshold.where else [])}
        return sorted(wanted)

    def _frame(
        self, rules: Sequence[Rule], table: pa.Table, validator: Validator, answers: dict[str, Answer]
    ) -> None:
        present = set(table.column_names)
        thresholds = [
            t
            for t in self.plan.usable()
            if t.column in present and (t.where is None or t.where.column in present)
        ]
        groups = {rule.column for rule in rules}
        table, _ = with_faults(table, [t for t in thresholds if f"faults_{t.group}" in groups])
        for where, asked in by_condition(rules).items():
            chosen = table if where is None else table.filter(_mask(table, where))
            if chosen.num_rows:
                names = sorted({rule.column for rule in asked if rule.column}) or table.column_names[:1]
                validator.validate(asked, chosen.select(names).to_pandas(), answers)


def by_condition(rules: Sequence[Rule]) -> dict[Where | None, list[Rule]]:
    """The rules that look at the same rows, together."""
    grouped: dict[Where | None, list[Rule]] = {}
    for rule in rules:
        grouped.setdefault(rule.where, []).append(rule)
    return grouped


def _mask(table: pa.Table, where: Where) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.array(within(table, where))


def _known(rule: Rule, plan: Plan, aggregates: Mapping[str, float], fields: Batches | None) -> bool:
    if rule.table == "aggregates":
        return rule.column in aggregates
    if rule.table == "fields":
        return fields is not None
    groups = {f"faults_{threshold.group}" for threshold in plan.usable()}
    wanted = {rule.column} | ({rule.where.column} if rule.where else set())
    return wanted <= plan.columns | groups | {""}
