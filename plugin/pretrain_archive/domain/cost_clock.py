"""Moments of several clocks on one axis.

An attempt's steps carry the worker's clock, records the ledger's, members the cluster's. A record is written after
what it tells, so the smallest ``recorded_at − at`` of an attempt is the difference of the two clocks plus the
shortest delay; by it the ledger's moments are led to the worker's clock (the one-way estimate of Cristian,
"Probabilistic clock synchronization", 1989). Moments are whole microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from pretrain_archive.domain.identity import format_time, parse_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE = timedelta(microseconds=1)


def moment(text: str | None) -> int | None:
    """An RFC 3339 time as microseconds; None for what is none (a program may write anything there)."""
    if not text:
        return None
    try:
        return (parse_time(text) - _EPOCH) // _ONE
    except (ValueError, OverflowError):
        return None


def text_of(us: int) -> str:
    """A moment as the ledger writes it; what lies outside of all calendars is put at their edge."""
    return format_time(_EPOCH + _ONE * min(max(us, -62_135_596_800_000_000), 253_402_300_799_999_999))


def shift_of(pairs: Iterable[tuple[str, str | None]]) -> int:
    """What to subtract from the ledger's moments, from pairs of ``recorded_at`` and ``at``; 0 without any."""
    lags = []
    for recorded, at in pairs:
        ledger, worker = moment(recorded), moment(at)
        if ledger is not None and worker is not None:
            lags.append(ledger - worker)
    return min(lags, default=0)
