"""What persons changed by hand while a run was open, and drift between attempts that no recorded change explains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pretrain_archive.domain.kinds import ChangeRecorded, EnvironmentObserved
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView

EXPLAINS = frozenset({"configuration", "patch", "node", "network", "storage", "other"})
"""Changes that may alter what a worker finds; a quota or a priority does not."""


def changes_of(view: RunView) -> list[tuple[Record, ChangeRecorded]]:
    """Every manual change of the run, oldest first."""
    return list(view.all(ChangeRecorded))


def told(change: ChangeRecorded) -> str:
    """A change in one line: what, where, from what to what, by whom and why."""
    sides = (change.before, change.after)
    moved = f" ({' → '.join(side or 'unrecorded' for side in sides)})" if any(sides) else ""
    return f"{change.what}, {change.scope}{moved}, by {change.person}: {change.reason}"


def unexplained_drift(view: RunView) -> list[str]:
    """Drift between an attempt and the one before that no recorded change explains, named by field.

    A change explains the drift of the attempt that it names and of the next one, since it may have been made in
    between; without an attempt it explains every later one. Differences that are graded ``info`` are no drift.
    """
    changed = [change for _, change in changes_of(view) if change.what in EXPLAINS]
    return [
        f"attempt {attempt}: {', '.join(sorted(fields))} differ from the attempt before"
        for attempt, fields in drift_between(view).items()
        if fields and not any(c.attempt is None or c.attempt in {attempt - 1, attempt} for c in changed)
    ]


def drift_between(view: RunView) -> dict[int, set[str]]:
    """The fields in which each attempt's workers started other than those of the attempt before, by attempt.

    Where an observation does not say so itself, the differences from the declared environment are compared.
    """
    fields: dict[int, set[str]] = {}
    before: set[tuple[str, str]] | None = None
    for attempt, observed in _starts(view).items():
        against = {_pair(d) for o in observed for d in _graded(o.differences)}
        itself = [d for o in observed if o.since_previous is not None for d in _graded(o.since_previous)]
        if any(o.since_previous is not None for o in observed):
            fields[attempt] = {str(d.get("field")) for d in itself}
        elif before is not None:
            fields[attempt] = {field for field, _ in before ^ against}
        before = against
    return fields


def _starts(view: RunView) -> dict[int, list[EnvironmentObserved]]:
    found: dict[int, list[EnvironmentObserved]] = {}
    for record, observed in view.all(EnvironmentObserved):
        if observed.moment != "end":
            found.setdefault(record.attempt, []).append(observed)
    return dict(sorted(found.items()))


def _graded(differences: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [d for d in differences if d.get("grade") != "info"]


def _pair(difference: Mapping[str, Any]) -> tuple[str, str]:
    return str(difference.get("field")), repr(difference.get("observed"))
