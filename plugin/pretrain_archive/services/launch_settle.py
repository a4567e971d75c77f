"""Make sure that a job on a cluster which nobody follows any more is deleted, and that its attempt has an end.

Who may be the one: the trigger of a deferred task that a person ended, the next try of the task, the clean-up at
the end of the DAG run, or the daily pass over all runs. Whoever comes second finds everything done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from pretrain_archive.domain.errors import ArchiveError
from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.kinds import AttemptEnded, ConfigurationDeclared
from pretrain_archive.domain.records import Origin, Record
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.permit import open_attempt
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.launch_bench import Bench, cluster_of
from pretrain_archive.services.launch_cluster import close_uncreated, cluster_launch, open_job
from pretrain_archive.services.runs import policy_of, run_of

DagRunState = Literal["active", "over", "unknown"]
"""Of the DAG run that launched: it may follow its job, it does not any more, or this Airflow knows no such run."""
GRACE = timedelta(days=1)
"""How long beyond its budget a job is left alone whose DAG run this Airflow does not know: another may follow it."""


def settle_unfollowed(
    ledger: Ledger, caller: Caller, bench: Bench, *, state_of: Callable[[Origin], DagRunState]
) -> tuple[list[str], list[str]]:
    """End every open attempt on a cluster whose DAG run is over or gone; the runs that were settled, and the faults.

    A fault of one run, ``run: what``, leaves the others alone and may be tried again.
    """
    settled: list[str] = []
    faults: list[str] = []
    for run_uid, intent in _open_intents(ledger).items():
        try:
            view = load_run(ledger, run_uid)
            if not needs_settling(view) or not _unfollowed(view, intent, state_of(intent.origin)):
                continue
            why = f"the DAG run that launched it is over or gone; ended by {caller.actor.name}"
            settle_removed(ledger, replace(caller, origin=intent.origin), run_uid, bench, reason=why)
            settled.append(run_uid)
        except ArchiveError as error:
            faults.append(f"{run_uid}: {error}")
    return settled, faults


def _open_intents(ledger: Ledger) -> dict[str, Record]:
    """The launch token of each run whose newest attempt on a cluster has no end."""
    found: dict[str, Record] = {}
    for record in ledger.records(kinds=("launch.intended", "attempt.ended")):
        if record.kind == "attempt.ended":
            known = found.get(record.stream)
            if known is not None and known.attempt == record.attempt:
                del found[record.stream]
        elif record.payload.get("target") == "kubernetes":
            found[record.stream] = record
    return found


def _unfollowed(view: RunView, intent: Record, state: DagRunState) -> bool:
    if state != "unknown":
        return state == "over"
    declared = view.latest(ConfigurationDeclared)
    allowed = timedelta(minutes=declared.budget.minutes if declared else 0) + GRACE
    return datetime.now(UTC) - parse_time(intent.recorded_at) > allowed


def settle_removed(
    ledger: Ledger, caller: Caller, run_uid: str, bench: Bench, *, reason: str
) -> AttemptEnded | None:
    """End the run's open attempt on a cluster; None where there is none.

    Job and pods are deleted and proved to be gone, what they wrote is read, and the end is recorded with
    ``reason``. Raises ``ClusterUnavailableError`` or ``LedgerUnavailableError``, and may then be called again.
    """
    view = run_of(ledger, caller, run_uid, open_only=False)
    if not needs_settling(view):
        return None
    cluster = cluster_of(policy_of(view))
    assert cluster is not None
    if open_job(view) is None:
        closed = close_uncreated(ledger, caller, view, bench, cluster, patient=False)
        return closed[-1] if closed else None
    job = cluster_launch(ledger, caller, view, bench, cluster)
    job.kill(reason)
    if view.state == "closed":  # it takes no more facts; that the job goes is what matters
        return None
    ended = job.end()
    caller.say(f"attempt {ended.attempt} {ended.state} at step {ended.last_step}: {ended.reason}")
    return ended


def needs_settling(view: RunView) -> bool:
    """Whether the run has an attempt on a cluster that has no end."""
    if view.opened is None or not view.opened.policy or cluster_of(policy_of(view)) is None:
        return False
    return open_attempt(view) is not None and (view.state != "closed" or open_job(view) is not None)
