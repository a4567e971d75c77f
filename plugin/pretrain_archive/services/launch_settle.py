"""Make sure that a job on a cluster which nobody follows any more is deleted, and that its attempt has an end.

Who may be the one: the trigger of a deferred task that a person ended, the next try of the task, or the clean-up at
the end of the DAG run. Whoever comes second finds everything done.
"""

from __future__ import annotations

from pretrain_archive.domain.kinds import AttemptEnded
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.permit import open_attempt
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.launch_bench import Bench, cluster_of
from pretrain_archive.services.launch_cluster import close_uncreated, cluster_launch, open_job
from pretrain_archive.services.runs import policy_of, run_of


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
