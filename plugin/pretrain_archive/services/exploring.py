"""Close an exploration: no gate is asked, no release is made, and its package says so in its first line."""

from __future__ import annotations

from pretrain_archive.domain.errors import AlreadyRecordedError, RefusedError
from pretrain_archive.domain.exploration import REASON, is_exploration
from pretrain_archive.domain.kinds import PackageWritten, RunClosed
from pretrain_archive.domain.records import Draft
from pretrain_archive.domain.reviews import figures, last_end
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.service import load_run
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.package.attachments import attachments
from pretrain_archive.package.writer import Writer, write_package
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.closing import Closed, Shelf, close_draft, mirror
from pretrain_archive.services.runs import run_of
from pretrain_archive.storage.port import ObjectStore


def ends_unsigned(ledger: Ledger, caller: Caller, run_uid: str) -> bool:
    """Whether the run's end is nobody's to sign: an exploration at whose end nobody was asked."""
    view = run_of(ledger, caller, run_uid, open_only=False)
    return is_exploration(view) and view.dossier("close") is None


def close_exploration(
    ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, shelf: Shelf
) -> Closed:
    """Close an exploration that was launched, however its attempts ended, and return its package.

    The close and the statement about the package are one transaction, which is refused if the run got any record
    meanwhile. The same package is found again by a retry. Raises :class:`RefusedError` for a full run, before any
    launch, while an attempt has no end or a gate waits, and for a run that was closed in another way.
    """
    _require_closable(run_of(ledger, caller, run_uid, open_only=False))
    try:
        written = _write(ledger, store, caller, run_uid, shelf)
    except AlreadyRecordedError:
        caller.say(f"run {run_uid} was closed by another task meanwhile")
        written = _write(ledger, store, caller, run_uid, shelf)
    folder = shelf.packages_folder / run_uid
    mirror(store, folder, run_uid, caller)
    ledger.seal()
    caller.say(f"run {run_uid} is explored, nothing of it is released; package {folder} ({written.digest})")
    return Closed(package=written, folder=folder, outcome="explored", release=None)


def incomplete(ledger: Ledger, run_uid: str) -> str | None:
    """How the newest attempt ended, if it did not complete."""
    found = last_end(load_run(ledger, run_uid))
    if found is None or found[1].state == "completed":
        return None
    return f"the exploration was closed, its attempt {found[1].attempt} {found[1].state}: {found[1].reason}"


def _require_closable(view: RunView) -> None:
    closed, faults = view.latest(RunClosed), list[str]()
    if not is_exploration(view):
        faults.append("the run is no exploration: its end is for the close gate to decide")
    elif closed is not None:
        faults += [f"the run is closed as {closed.outcome}"] if closed.outcome != "explored" else []
    elif not view.attempts:
        faults.append("the run was never launched: it stays open")
    elif last_end(view) is None:
        faults.append(f"attempt {view.attempts} has no recorded end")
    elif (gate := view.waiting_gate()) is not None:
        faults.append(f"the {gate} gate waits for an answer")
    if faults:
        raise RefusedError(
            "no close",
            reasons=tuple(faults),
            hint="Clear the task that failed, or trigger a new exploration.",
        )


def _write(ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, shelf: Shelf) -> PackageWritten:
    view = load_run(ledger, run_uid)
    _require_closable(view)

    def closing(package: PackageWritten) -> list[Draft]:
        closed = RunClosed(
            outcome="explored", reason=REASON, package_digest=package.digest, figures=dict(figures(view))
        )
        # The statement about the package goes before it in the same transaction, and nothing else may.
        return [close_draft(caller, view, closed, follows=view.newest + 1)]

    writer = Writer(actor=caller.actor, origin=caller.origin, verifier_key=shelf.verifier_key, say=caller.say)
    return write_package(
        ledger, store, view, folder=shelf.packages_folder / run_uid, writer=writer, closing=closing,
        extra=attachments(shelf.attach),
    )  # fmt: skip
