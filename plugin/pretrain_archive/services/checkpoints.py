"""Checkpoints of a run: registered while training writes them, and once more when it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pretrain_archive import config
from pretrain_archive.artifacts.generations import History
from pretrain_archive.artifacts.hash_stamps import HashStamps
from pretrain_archive.artifacts.pointers import NamedFolder, named_checkpoints
from pretrain_archive.artifacts.readers import open_reader
from pretrain_archive.artifacts.registration import Claim, Reading, register_checkpoint
from pretrain_archive.compute.events import CheckpointEvent
from pretrain_archive.compute.ingest import OnCheckpoint
from pretrain_archive.domain.errors import CheckpointError, InputError, RefusedError
from pretrain_archive.domain.kinds import CheckpointRegistered, ConfigurationDeclared
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.progress import Meter, every
from pretrain_archive.services.resuming import reconcile_ended
from pretrain_archive.services.runs import opened_of, run_of, snapshot_of


@dataclass(frozen=True, kw_only=True)
class Registered:
    """What registration found: verified checkpoints by attempt and step, and why others do not count."""

    kept: tuple[CheckpointRegistered, ...]
    refused: tuple[str, ...]


def claim_of(
    view: RunView, *, attempt: int, step: int, tokens: int | None, wish: Mapping[str, Any] | None = None
) -> Claim:
    """What the run says about a checkpoint of ``step``; ``wish`` replaces its class, purpose or person."""
    snapshot, declared = snapshot_of(view), view.latest(ConfigurationDeclared)
    if declared is None:
        raise RefusedError(f"run {view.run_uid} has no recorded configuration")
    claim = Claim(
        run_uid=view.run_uid,
        attempt=attempt,
        step=step,
        tokens=tokens,
        snapshot=f"{snapshot.name}@{snapshot.version}",
        configuration_digest=declared.configuration_digest,
        responsible=opened_of(view).people.get("restore_owner", ""),
        model=model_of(view),
    )
    return replace(claim, **wish) if wish else claim


def model_of(view: RunView) -> str | None:
    """What the run is to release, as its request names it: the model that its checkpoints belong to (R102, R193)."""
    conf = opened_of(view).conf
    name, version = conf.get("release_name"), conf.get("release_version")
    return f"{name}@{version}" if name and version else str(name) if name else None


def place_of(text: str) -> Path | str:
    """A folder or an address from how a configuration or a program spells it."""
    return text if "://" in text else Path(text)


def stamps_of(view: RunView) -> HashStamps:
    """The run's stamps. They lie where its program does not write: by its own stamps it could vouch for itself."""
    return HashStamps(config.checkpoint_stamps_folder(), of=view.run_uid)


def reading_of(caller: Caller, view: RunView, step: int) -> Reading:
    """Files that were not written since are not read again, and a long read tells how far it is."""
    return Reading(stamps=stamps_of(view), progress=_progress(caller, step))


def _progress(caller: Caller, step: int) -> Meter:
    return every(caller.say, f"hashing the checkpoint of step {step}:")


def registrar(ledger: Ledger, caller: Caller, view: RunView) -> OnCheckpoint:
    """A callback that verifies and registers what a program reports as written; refusals are recorded."""

    def register(event: CheckpointEvent) -> bool:
        claim = claim_of(view, attempt=event.attempt, step=event.step, tokens=event.tokens)
        try:
            made = register_checkpoint(
                ledger,
                open_reader(place_of(event.path)),
                claim,
                actor=caller.actor,
                origin=caller.origin,
                reading=reading_of(caller, view, event.step),
            )
        except (CheckpointError, InputError) as error:
            caller.say(f"checkpoint of step {event.step} refused: {error}")
            return False
        caller.say(f"checkpoint of step {made.step} verified: {made.digest}")
        return True

    return register


def register_all(ledger: Ledger, caller: Caller, run_uid: str, *, scan: bool = False) -> Registered:
    """Register every checkpoint folder of the run that is not registered yet; with ``scan`` look at every value.

    A folder that states no attempt belongs to the run's last one, unless its bytes are registered already. Raises
    :class:`CheckpointError` if none of them counts: a run without a checkpoint has no result.
    """
    view = run_of(ledger, caller, run_uid)
    declared = view.latest(ConfigurationDeclared)
    place = place_of(declared.checkpoints.location) if declared else Path()
    if view.attempts == 0:
        raise RefusedError(f"run {run_uid} was never launched", hint="Run the task 'gpu_launch' first.")
    reconcile_ended(ledger, caller, view)  # whoever ended the attempts: a trigger on a cluster does not
    kept: list[CheckpointRegistered] = []
    refused: list[str] = []
    reading = Reading(stamps=stamps_of(view), scan=scan, history=History(ledger, run_uid))
    for found in named_checkpoints(place):
        told = replace(reading, progress=_progress(caller, found.step))
        try:
            kept.append(_register(ledger, caller, view, found, told))
        except (CheckpointError, InputError) as error:  # one folder must not hinder the others
            refused.append(f"step {found.step}: {error.message}")
    if not kept:
        raise CheckpointError(
            f"no complete checkpoint in {place}" + (f": {'; '.join(refused)}" if refused else "."),
            hint="Let the program write at least one checkpoint.",
        )
    kept.sort(
        key=lambda made: (made.attempt, made.step)
    )  # what a later attempt rewound past is not the newest
    return Registered(kept=tuple(kept), refused=tuple(refused))


def _register(
    ledger: Ledger, caller: Caller, view: RunView, found: NamedFolder, reading: Reading
) -> CheckpointRegistered:
    claim = claim_of(view, attempt=found.attempt or view.attempts, step=found.step, tokens=None)
    made = register_checkpoint(
        ledger,
        found.reader,
        claim,
        actor=caller.actor,
        origin=caller.origin,
        reading=reading,
    )
    for warning in made.warnings:
        caller.say(f"checkpoint of step {found.step}: {warning}")
    return made
