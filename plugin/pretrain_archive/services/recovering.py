"""Take over from an attempt whose worker is gone, and never from one that lives."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pretrain_archive.compute.leftovers import processes_of
from pretrain_archive.compute.recovery import close_lost_attempts
from pretrain_archive.domain.errors import StillRunningError
from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.kinds import AttemptStarted
from pretrain_archive.domain.records import Origin, Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.permit import open_attempt
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.checkpoints import registrar

SILENCE = timedelta(minutes=3)
"""Three heartbeats of the wrapper reach the ledger in this time; longer silence means that the worker is gone."""


def take_over(ledger: Ledger, caller: Caller, view: RunView, runs_folder: Path) -> None:
    """Close the attempt that has no end, if its worker is gone; :class:`StillRunningError` if it is not.

    A later try of the same task may end what an earlier try left on this machine: Airflow starts a new try only
    after it gave up the old one. Any other caller, and any other machine, has to see silence first.
    """
    intent = open_attempt(view)
    if intent is None:
        return
    if signs := signs_of_life(view, intent, successor=succeeds(caller.origin, intent.origin)):
        raise StillRunningError(
            f"attempt {intent.attempt} of run {view.run_uid} is running: {signs}.",
            hint="Wait for its end, or stop its task first; nothing was started and nothing was ended.",
        )
    closed = close_lost_attempts(
        ledger, view, runs_folder, actor=caller.actor, origin=caller.origin,
        on_checkpoint=registrar(ledger, caller, view),
    )  # fmt: skip
    for attempt in closed:
        caller.say(
            f"attempt {attempt.attempt} was {attempt.state} at step {attempt.last_step}: {attempt.reason}"
        )


def succeeds(mine: Origin, before: Origin) -> bool:
    """Whether ``mine`` is a later try of the very task that wrote ``before``."""
    same = ("dag_id", "dag_run_id", "task_id", "map_index")
    return (
        all(getattr(mine, name) == getattr(before, name) for name in same)
        and mine.try_number > before.try_number
    )


def signs_of_life(view: RunView, intent: Record, *, successor: bool) -> str:
    """Why the attempt may still run, in words; empty if it does not."""
    started = next((s for _, s in view.all(AttemptStarted) if s.attempt == intent.attempt), None)
    here = started is None or started.host == socket.gethostname()
    if here and successor:
        return ""
    if here and (alive := processes_of(view.run_uid, intent.attempt)):
        return f"{len(alive)} of its processes live on this machine"
    newest = max(r.recorded_at for r in view.records if r.attempt == intent.attempt)
    age = datetime.now(UTC) - parse_time(newest)
    if age < SILENCE and not here:
        return f"it wrote to the ledger {age.total_seconds():.0f} s ago from {started.host if started else 'its host'}"
    if age < SILENCE and started is None:
        return "its launch was recorded moments ago"
    return ""
