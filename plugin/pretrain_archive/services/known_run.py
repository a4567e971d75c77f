"""A ledger that reads a run's records once: closing looks at a long run from several sides.

Records are never changed and positions only grow, so that what was read stays right, and each further look asks the
database only for what is newer. Everything else goes to the ledger as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, cast

from pretrain_archive.domain.records import Record
from pretrain_archive.ledger.port import Ledger


class KnownRuns:
    """Delegates to a ledger; keeps the records of each single stream that was asked for. For one thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, list[Record]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def records(
        self,
        *,
        streams: Collection[str] | None = None,
        kinds: Collection[str] = (),
        after: int = -1,
        limit: int | None = None,
    ) -> Iterator[Record]:
        """See ``Ledger.records``."""
        if streams is None or len(streams) != 1:
            return self._ledger.records(streams=streams, kinds=kinds, after=after, limit=limit)
        [stream] = streams
        known = self._known.setdefault(stream, [])
        known += self._ledger.records(streams=[stream], after=known[-1].position if known else -1)
        # As many as there are now: what a later call adds to the list is not part of this answer.
        found = (
            r for r in islice(known, len(known)) if r.position > after and (not kinds or r.kind in kinds)
        )
        return islice(found, limit)


def knowing_runs(ledger: Ledger) -> Ledger:
    """``ledger``, reading the records of a run once."""
    return ledger if isinstance(ledger, KnownRuns) else cast("Ledger", KnownRuns(ledger))
