"""Which release of a run stands: what was made under an approval that was taken back later was never handed over."""

from __future__ import annotations

from pretrain_archive.domain.kinds import ReleaseMade, RunClosed
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView


def standing_release(view: RunView) -> tuple[Record, ReleaseMade] | None:
    """The run's release as its close gate left it.

    None where there is none, where the run was closed with another outcome than *register*, or where the newest
    decision, made since, says another one: the release was recorded, and the close that was to hand it over failed.
    """
    found = view.last(ReleaseMade)
    if found is None:
        return None
    closed, decision = view.latest(RunClosed), view.decision("close")
    if closed is not None:
        return found if closed.outcome == "register" else None
    since = decision is not None and decision[0].position > found[0].position
    return None if decision is not None and since and decision[1].outcome != "register" else found
