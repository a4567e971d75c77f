"""Checkpoints of a run: registered while training writes them, and once more when it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts.pointers import list_checkpoints
from pretrain_archive.artifacts.registration import Claim, register_checkpoint
from pretrain_archive.compute.events import CheckpointEvent
from pretrain_archive.compute.ingest import OnCheckpoint
from pretrain_archive.domain.errors import CheckpointError, RefusedError
from pretrain_archive.domain.kinds import CheckpointRegistered, ConfigurationDeclared
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.resuming import reconcile_ended
from pretrain_archive.services.runs import opened_of, run_of, snapshot_of


@dataclass(frozen=True, kw_only=True)
class Registered:
    """What registration found: verified checkpoints by step, and why others do not count."""

    kept: tuple[CheckpointRegistered, ...]
    refused: tuple[str, ...]


def claim_of(view: RunView, *, attempt: int, step: int, tokens: int | None) -> Claim:
    """What the run says about a checkpoint of ``step``."""
    snapshot, config = snapshot_of(view), view.latest(ConfigurationDeclared)
    if config is None:
        raise RefusedError(f"run {view.run_uid} has no recorded configuration")
    return Claim(
        run_uid=view.run_uid,
        attempt=attempt,
        step=step,
        tokens=tokens,
        snapshot=f"{snapshot.name}@{snapshot.version}",
        configuration_digest=config.configuration_digest,
        responsible=opened_of(view).people.get("restore_owner", ""),
        purpose="recovery",
    )


def registrar(ledger: Ledger, caller: Caller, view: RunView) -> OnCheckpoint:
    """A callback that verifies and registers what a program reports as written; refusals are recorded."""

    def register(event: CheckpointEvent) -> bool:
        claim = claim_of(view, attempt=event.attempt, step=event.step, tokens=event.tokens)
        try:
            made = register_checkpoint(
                ledger, Path(event.path), claim, actor=caller.actor, origin=caller.origin
            )
        except CheckpointError as error:
            caller.say(f"checkpoint of step {event.step} refused: {error}")
            return False
        caller.say(f"checkpoint of step {made.step} verified: {made.digest}")
        return True

    return register


def register_all(ledger: Ledger, caller: Caller, run_uid: str) -> Registered:
    """Register every checkpoint folder of the run that is not registered yet.

    Raises :class:`CheckpointError` if none of them counts: a run without a checkpoint has no result.
    """
    view = run_of(ledger, caller, run_uid)
    config = view.latest(ConfigurationDeclared)
    folder = Path(config.checkpoints.location) if config else Path()
    if view.attempts == 0:
        raise RefusedError(f"run {run_uid} was never launched", hint="Run the task 'gpu_launch' first.")
    reconcile_ended(ledger, caller, view)  # whoever ended the attempts: a trigger on a cluster does not
    kept: list[CheckpointRegistered] = []
    refused: list[str] = []
    for found in list_checkpoints(folder):
        known = [c for _, c in view.all(CheckpointRegistered) if c.step == found.step]
        attempt = found.attempt or (known[-1].attempt if known else view.attempts)
        claim = claim_of(view, attempt=attempt, step=found.step, tokens=None)
        try:
            made = register_checkpoint(ledger, found.folder, claim, actor=caller.actor, origin=caller.origin)
            kept.append(made)
        except CheckpointError as error:
            refused.append(f"step {found.step}: {error.message}")
    if not kept:
        raise CheckpointError(
            f"no complete checkpoint in {folder}" + (f": {'; '.join(refused)}" if refused else "."),
            hint="Let the program write at least one checkpoint.",
        )
    return Registered(kept=tuple(kept), refused=tuple(refused))
