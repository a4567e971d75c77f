"""A released model's life as its records tell it: state, open problems, and how long its records are kept. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import format_time, parse_time
from pretrain_archive.domain.kinds import ReleaseMade, read_payload
from pretrain_archive.domain.kinds.model_life import LifeFact
from pretrain_archive.domain.records import Record

State = Literal["released", "delivered", "taken_down", "retired"]
Told = tuple[Record, LifeFact]

LIFE: dict[str, type[LifeFact]] = {
    "model.feedback": kinds.FeedbackReceived,
    "model.adjusted": kinds.AdjustmentMade,
    "model.retraining": kinds.RetrainingBegun,
    "model.delivered": kinds.ModelDelivered,
    "model.taken_down": kinds.ModelTakenDown,
    "model.retired": kinds.ModelRetired,
}
"""The kinds of a model's life and the payload of each."""


@dataclass(frozen=True, kw_only=True)
class Life:
    """A release and what was recorded of it since, in the order in which it was recorded.

    ``record`` is that of the release, in its run; ``evaluated`` the newest human evaluation of that run with its
    record, whose problems stay open until something resolves them.
    """

    record: Record
    release: ReleaseMade
    facts: tuple[Told, ...] = ()
    evaluated: tuple[Record, kinds.HumanEvaluationReported] | None = None

    @property
    def run_uid(self) -> str:
        """The run that made the release."""
        return self.record.stream

    @property
    def title(self) -> str:
        """``NAME@VERSION``."""
        return f"{self.release.name}@{self.release.version}"

    @property
    def retired(self) -> tuple[Record, kinds.ModelRetired] | None:
        """The retirement, if there is one; the first counts."""
        return next(((r, f) for r, f in self.facts if isinstance(f, kinds.ModelRetired)), None)

    @property
    def delivered(self) -> bool:
        """Whether the model was ever handed over (R109)."""
        return any(isinstance(fact, kinds.ModelDelivered) for _, fact in self.facts)

    @property
    def happened(self) -> list[LifeFact]:
        """The facts in the order in which they happened: one that is recorded late stands where it belongs."""
        return [
            fact
            for _, fact in sorted(self.facts, key=lambda told: (parse_time(told[1].at), told[0].position))
        ]

    def until(self, moment: str) -> Life:
        """The life as it was at a moment, with all that is known of it by now."""
        last = parse_time(moment)
        return replace(self, facts=tuple(told for told in self.facts if parse_time(told[1].at) <= last))

    @property
    def state(self) -> State:
        """The newest of release, delivery and take-down; a retirement stands for good."""
        if self.retired is not None:
            return "retired"
        state: State = "released"
        for fact in self.happened:
            if isinstance(fact, kinds.ModelDelivered):
                state = "delivered"
            elif isinstance(fact, kinds.ModelTakenDown) and not fact.where:
                state = "taken_down"
            elif isinstance(fact, kinds.ModelTakenDown):
                state = "taken_down" if not self._places(until=fact) else state
        return state

    def _places(self, *, until: LifeFact | None = None) -> set[str]:
        """Where the model lies after ``until`` (after everything)."""
        places: set[str] = set()
        for fact in self.happened:
            if isinstance(fact, kinds.ModelDelivered):
                places.add(fact.where)
            elif isinstance(fact, kinds.ModelTakenDown):
                places = places - {fact.where} if fact.where else set()
            if fact is until:
                break
        return places

    @property
    def places(self) -> tuple[str, ...]:
        """Where the model was delivered to and not taken down since."""
        return tuple(sorted(self._places()))

    def open_problems(self) -> list[dict[str, Any]]:
        """Problems of human evaluation and feedback that no adjustment and no retraining has resolved."""
        resolved = {one for _, fact in self.facts for one in getattr(fact, "resolves", ())}
        return [problem for problem in self._problems() if problem["id"] not in resolved]

    def _problems(self) -> Iterable[dict[str, Any]]:
        if self.evaluated is not None:
            record, report = self.evaluated
            for number, found in enumerate(report.problems, 1):
                if not found.of_candidate:
                    continue
                yield {
                    "id": f"{record.record_id}#{number}", "from": "human evaluation", "severity": found.severity,
                    "text": found.note, "category": found.category, "by": found.by, "at": record.recorded_at,
                }  # fmt: skip
        for _, fact in self.facts:
            if isinstance(fact, kinds.FeedbackReceived) and fact.severity is not None:
                yield {
                    "id": fact.fact_id, "from": fact.source or "feedback", "severity": fact.severity,
                    "text": fact.text, "category": None, "by": fact.by, "at": fact.at,
                }  # fmt: skip

    def records_kept_until(self, days_now: float | None) -> str | None:
        """Until when records and package are kept at least; None is without end.

        They are kept without end before the retirement. After it the longer of what the policy said then and says
        now (``days_now``) counts, so that no later policy shortens it.
        """
        if self.retired is None or days_now is None or self.retired[1].records_keep_days is None:
            return None
        days = max(days_now, self.retired[1].records_keep_days)
        try:
            return format_time(parse_time(self.retired[1].at) + timedelta(days=days))
        except OverflowError:  # behind the year 9999, which no calendar here can name
            return None


def facts_of(records: Iterable[Record]) -> tuple[Told, ...]:
    """The facts of a release's life among ``records``, by position."""
    found = [(record, read_payload(record, LIFE[record.kind])) for record in records if record.kind in LIFE]
    return tuple(sorted(found, key=lambda told: told[0].position))
