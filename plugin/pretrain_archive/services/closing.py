"""Close a run: carry out the signed outcome, freeze the run, write its package, clean its temporary data.

Each step is found again by a retry: the release and the close are unique per run, the package has the same
bytes for the same records. Parallel closes: one wins, the other finds the run closed and the package there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pretrain_archive.artifacts.evaluation import require_present
from pretrain_archive.artifacts.releases import Terms, make_release
from pretrain_archive.domain.candidates import chosen_candidate
from pretrain_archive.domain.errors import AlreadyRecordedError, RefusedError
from pretrain_archive.domain.kinds import (
    AttemptEnded,
    CheckpointRegistered,
    GateDecision,
    LaunchIntended,
    PackageWritten,
    ReleaseExported,
    ReleaseMade,
    RunClosed,
    TemporaryRemoved,
)
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.records import Draft, Record
from pretrain_archive.domain.releases import standing_release
from pretrain_archive.domain.reviews import CLOSING
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.gates.permit import signature_faults
from pretrain_archive.gates.service import gate_view, load_run
from pretrain_archive.gates.sources import newest_of_sources, with_sources
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.package.attachments import attachments
from pretrain_archive.package.writer import Writer, write_package
from pretrain_archive.retention import temporary as retention
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.known_run import knowing_runs
from pretrain_archive.services.releasing import (
    Registration,
    Releasing,
    export_release,
    require_signer,
    sign_release,
)
from pretrain_archive.services.runs import opened_of, request_of, run_of
from pretrain_archive.storage.port import ObjectStore, local_path


@dataclass(frozen=True, kw_only=True)
class Closed:
    """A closed run: its package, the outcome that was signed, and the release if there is one."""

    package: PackageWritten
    folder: Path
    outcome: str
    release: ReleaseMade | None
    registration: Registration | None = None

    @property
    def registered(self) -> str | None:
        """The registry's version of the release, or that it is pending; None without a registry or a release."""
        told = self.registration
        if isinstance(told, ReleaseExported):
            return f"{told.name} version {told.version} in {told.registry_url}"
        return None if told is None else f"pending: {told.reason}"


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """Where packages go, what signs them, and the policies by project as they stand now.

    ``attach`` are files and folders of this machine that go into the package as they are.
    """

    packages_folder: Path
    verifier_key: str
    policies: Callable[[str], LoadedPolicy]
    attach: tuple[Path, ...] = ()
    releasing: Releasing = field(default_factory=Releasing)


def close_archive(ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, shelf: Shelf) -> Closed:
    """Close the run as its close gate decided and return its package.

    The close and the statement about the package are one transaction. Raises :class:`RefusedError` unless a
    fresh approval of an entitled person stands in the ledger under the policy in force. A run that is closed
    already gets the package that its close named.
    """
    ledger = knowing_runs(ledger)
    # The sources as they stand before anything is judged: a release is not recorded if one moves meanwhile.
    view = with_sources(ledger, run_of(ledger, caller, run_uid, open_only=False))
    record, decision = _signed(ledger, view, shelf)
    release = _release(ledger, caller, view, record, decision, releasing=shelf.releasing)
    sign_release(ledger, store, caller, run_uid, shelf.releasing)
    written = _write(ledger, store, caller, view, decision=decision, shelf=shelf)
    folder = shelf.packages_folder / run_uid
    mirror(store, folder, run_uid, caller)
    ledger.seal()
    caller.say(f"package {folder} ({written.files} files, {written.digest})")
    try:
        registration = export_release(ledger, caller, run_uid, shelf.releasing)
    except RefusedError as error:  # the package of a model that was taken down since is still its package
        registration = None
        caller.say(str(error))
    return Closed(
        package=written,
        folder=folder,
        outcome=str(decision.outcome),
        release=release,
        registration=registration,
    )


def archive_stopped(ledger: Ledger, store: ObjectStore, caller: Caller, run_uid: str, shelf: Shelf) -> Closed:
    """Write the package of a run that a review closed: stopped, or replaced by a new run with changes.

    It has no release and no signature of the run and close gates, and says so. The same package is found again by
    a retry. Raises :class:`RefusedError` for a run that no review closed.
    """
    ledger = knowing_runs(ledger)
    view = with_sources(ledger, run_of(ledger, caller, run_uid, open_only=False))
    closed = view.latest(RunClosed)
    if closed is None or closed.outcome not in CLOSING.values():
        raise RefusedError(f"run {run_uid} was not closed by a review", hint="Answer its review first.")
    folder = shelf.packages_folder / run_uid
    writer = Writer(actor=caller.actor, origin=caller.origin, verifier_key=shelf.verifier_key, say=caller.say)
    try:
        written = write_package(ledger, store, view, folder=folder, writer=writer)
    except AlreadyRecordedError:
        caller.say(f"the package of run {run_uid} was written by another task meanwhile")
        written = write_package(ledger, store, load_run(ledger, run_uid), folder=folder, writer=writer)
    mirror(store, folder, run_uid, caller)
    ledger.seal()
    caller.say(f"run {run_uid} is {closed.outcome}; package {folder} ({written.digest})")
    return Closed(package=written, folder=folder, outcome=closed.outcome, release=None)


def _write(
    ledger: Ledger, store: ObjectStore, caller: Caller, view: RunView, *, decision: GateDecision, shelf: Shelf
) -> PackageWritten:
    """Write the package; the close is recorded in the same transaction as the statement about it."""
    run_uid = view.run_uid

    def closed(package: PackageWritten) -> RunClosed:
        return RunClosed(
            outcome=decision.outcome or "continue",
            reason=f"{decision.person_name}: {decision.reason}",
            package_digest=package.digest,
        )

    def write() -> PackageWritten:
        writer = Writer(
            actor=caller.actor, origin=caller.origin, verifier_key=shelf.verifier_key, say=caller.say
        )
        run, folder = load_run(ledger, run_uid), shelf.packages_folder / run_uid
        return write_package(
            ledger, store, run, folder=folder, writer=writer,
            extra=attachments(shelf.attach), closing=lambda package: [close_draft(caller, run, closed(package))],
        )  # fmt: skip

    try:
        return write()
    except AlreadyRecordedError:
        caller.say(f"run {run_uid} was closed by another task meanwhile")
        return write()


def close_draft(caller: Caller, view: RunView, closed: RunClosed, *, follows: int | None = None) -> Draft:
    """The record that freezes the run; one per run. ``follows`` is the newest record that may go before it."""
    return Draft(
        stream=view.run_uid, kind="run.closed", payload=closed.to_json(), actor=caller.actor, origin=caller.origin,
        attempt=view.attempts, unique=f"close/{view.run_uid}", follows=follows,
    )  # fmt: skip


def _signed(ledger: Ledger, view: RunView, shelf: Shelf) -> tuple[Record, GateDecision]:
    """The close decision, if it stands: the same questions as before a launch."""
    if view.state == "closed":
        found = view.decision("close")
        if found is None or found[1].decision != "approve":
            raise RefusedError(f"run {view.run_uid} was closed without an approval; it has no package")
        return found
    policy = shelf.policies(opened_of(view).project)
    gate = gate_view(ledger, view, "close", policy)
    hours = policy.policy.gates.decision_valid_hours
    faults = signature_faults(gate, now=datetime.now(UTC), hours=hours, policy=policy)
    faults += [f"{item.id} is {item.verdict.value}" for item in gate.dossier.blocked_by()]
    if faults or gate.decision is None:
        raise RefusedError(
            "no close", reasons=tuple(faults), hint="Answer the close gate again from its page."
        )
    return gate.decision


def _release(
    ledger: Ledger,
    caller: Caller,
    view: RunView,
    record: Record,
    decision: GateDecision,
    *,
    releasing: Releasing,
) -> ReleaseMade | None:
    """The release that the outcome *register* makes: one per run, of bytes that are there, read once more.

    A run that is closed gets none: it has the one that it was closed with. Where an earlier try made one and did not
    close, it must be the one that this decision is about.
    """
    if view.state == "closed":
        found = standing_release(view)
        return found[1] if found else None
    if decision.outcome != "register":
        return None
    named = chosen_candidate(view)
    if named is None:
        raise RefusedError(f"run {view.run_uid} has no candidate to register")
    candidate = named[1]
    chosen = [c for _, c in view.all(CheckpointRegistered) if c.checkpoint_id == candidate.checkpoint_id]
    if not chosen:
        raise RefusedError(f"the candidate's checkpoint {candidate.checkpoint_id} is not registered")
    require_present(chosen[-1])
    require_signer(releasing, chosen[-1])
    request = request_of(view)
    terms = Terms(
        name=request.release_name,
        version=request.release_version,
        applicable=request.applicable,
        not_applicable=request.not_applicable,
        known_limits=request.known_limits,
        rollback=request.rollback or "",
        take_down=request.take_down or "",
        usage_scope=request.usage_scope,
    )
    made = make_release(
        ledger, run_uid=view.run_uid, decision=record, candidate=candidate, terms=terms, actor=caller.actor,
        origin=caller.origin, beside=newest_of_sources(view),
    )  # fmt: skip
    caller.say(f"release {made.release.name} {made.release.version}")
    return made.release


def mirror(store: ObjectStore, folder: Path, run_uid: str, caller: Caller) -> None:
    """Where the store is not this machine's disk, the package is put there too, file by file."""
    if local_path(store, "x") is not None:
        return
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        with path.open("rb") as data:
            store.put_if_absent(f"packages/{run_uid}/{path.relative_to(folder).as_posix()}", data)
    caller.say(f"package also at {store.location(f'packages/{run_uid}')}")


def clean_temporary(
    ledger: Ledger, caller: Caller, run_uid: str, runs_folder: Path
) -> TemporaryRemoved | None:
    """Remove the run's laid-out data and leftovers of evaluation, prove that they are gone, and record it.

    Refused while an attempt has no recorded end: its process may still read the data.
    """
    view = run_of(ledger, caller, run_uid, open_only=False)
    ended = {fact.attempt for _, fact in view.all(AttemptEnded)}
    if open_attempts := [r.attempt for r, _ in view.all(LaunchIntended) if r.attempt not in ended]:
        raise RefusedError(f"attempt {open_attempts[0]} of run {opened_of(view).run_uid} has no recorded end")
    folder = runs_folder / run_uid
    return retention.clean_temporary(
        ledger, run_uid=run_uid, root=runs_folder, folders=[folder / "data", *folder.glob("evaluation-*")],
        actor=caller.actor, origin=caller.origin,
    )  # fmt: skip
