"""What time it is at a launch: the machine's clock, and never earlier than what the ledger has seen since.

A clock that went back must not revive an approval that expired. Records behind the decision testify that time
passed since it was given, whoever wrote them; those before it say nothing about it, so that one record of a clock
that ran ahead can be answered by asking the gate again. A clock that runs ahead only lets things expire sooner.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.identity import format_time, parse_time
from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.port import Ledger

CLOCKS_DIFFER = timedelta(minutes=5)
TOKEN_LIVES = timedelta(minutes=15)
"""From deriving a token to using it: longer, and what was checked is no longer what holds."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The time that counts, and the time that the machine's clock said."""

    counts: datetime
    clock: datetime

    def behind(self) -> str:
        """Words on a clock that is behind the ledger; empty where the two agree."""
        if self.counts - self.clock <= CLOCKS_DIFFER:
            return ""
        return f" (this machine's clock says {format_time(self.clock)}, the ledger has seen {format_time(self.counts)})"


def moment_at(ledger: Ledger, now: datetime, *, after: int) -> Moment:
    """``now``, or the latest time of the records behind position ``after``, whichever is later."""
    seen = ledger.newest_time(after=after)
    try:
        latest = parse_time(seen) if seen is not None else now
    except ValueError as error:
        raise RefusedError(
            "no launch: a record's time in the ledger was edited",
            reasons=(f"{seen!r} is not a time",),
            hint="Run 'pretrain-archive ledger verify'; nothing was started.",
        ) from error
    return Moment(counts=max(now, latest), clock=now)


def valid_until(decision: Record, *, hours: float) -> datetime:
    """When an approval ends: counted from its moment, or from its record where that is earlier."""
    moments = (str(decision.payload["responded_at"]), decision.recorded_at)
    return min(parse_time(moment) for moment in moments) + timedelta(hours=hours)
