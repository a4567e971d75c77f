"""Find the run that a task works on, and read what was asked for."""

from __future__ import annotations

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.gates import recorded_policy
from pretrain_archive.domain.kinds import RunOpened, SnapshotCreated
from pretrain_archive.domain.policy import Policy
from pretrain_archive.domain.request import RunRequest, read_request
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller


def run_of(ledger: Ledger, caller: Caller, run_uid: str, *, open_only: bool = True) -> RunView:
    """The run ``run_uid``, checked to belong to the caller's DAG run: XCom can be overwritten by hand."""
    view = load_run(ledger, run_uid)
    if view.opened is None:
        raise RefusedError(f"run {run_uid!r} is not in the ledger", hint="Run the task 'open_run' first.")
    if view.opened.dag_run_id != caller.origin.dag_run_id or view.opened.dag_id != caller.origin.dag_id:
        raise RefusedError(
            f"run {run_uid} belongs to DAG run {view.opened.dag_run_id!r}, not to {caller.origin.dag_run_id!r}"
        )
    if open_only and view.state == "closed":
        raise RefusedError(f"run {run_uid} is closed and frozen", hint="Trigger a new run.")
    return view


def opened_of(view: RunView) -> RunOpened:
    """How the run was opened."""
    if view.opened is None:
        raise RefusedError(f"run {view.run_uid!r} is not in the ledger")
    return view.opened


def request_of(view: RunView) -> RunRequest:
    """The request that the run was opened with."""
    return read_request(opened_of(view).conf)


def policy_of(view: RunView) -> Policy:
    """The policy that the run was opened under."""
    return recorded_policy(view)


def snapshot_of(view: RunView) -> SnapshotCreated:
    """The run's data snapshot."""
    found = view.latest(SnapshotCreated)
    if found is None:
        raise RefusedError(f"run {view.run_uid} has no data snapshot", hint="Run the task 'snapshot' first.")
    return found
