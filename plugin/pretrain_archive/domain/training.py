"""What the attempts of a run were to reach and what they took: read the same way everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pretrain_archive.domain import kinds
from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.run_view import RunView


def target_steps(configuration: Mapping[str, Any]) -> int | None:
    """The step at which training is complete, where the configuration says so: ``steps`` or ``optimisation.steps``.

    A step is a positive whole number; anything else says nothing.
    """
    nested = configuration.get("optimisation")
    inner = nested.get("steps") if isinstance(nested, Mapping) else None
    steps = configuration.get("steps", inner)
    return steps if isinstance(steps, int) and not isinstance(steps, bool) and steps > 0 else None


def charged_seconds(view: RunView) -> dict[int, float]:
    """What each ended attempt is charged, in seconds, by attempt.

    The recorded time; where nobody wrote one down (the worker vanished), the time between the records of the
    launch and of the end: machines may have been held that long, and what is unknown must not be free.
    """
    launched = {record.attempt: record for record, _ in view.all(kinds.LaunchIntended)}
    charged: dict[int, float] = {}
    for record, ended in view.all(kinds.AttemptEnded):
        seconds = ended.seconds
        if seconds is None and (launch := launched.get(ended.attempt)) is not None:
            passed = parse_time(record.recorded_at) - parse_time(launch.recorded_at)
            seconds = max(0.0, passed.total_seconds())
        charged[ended.attempt] = seconds or 0.0
    return charged


def spent_minutes(view: RunView) -> float:
    """Minutes of the budget that the ended attempts took."""
    return sum(charged_seconds(view).values()) / 60
