"""What a person asks of checkpoints from outside of a run's tasks: look, register, verify, list, classify."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pretrain_archive.artifacts.classes import CLASSES, CheckpointClass, effective_class
from pretrain_archive.artifacts.formats import Inspection, inspect
from pretrain_archive.artifacts.generations import current, overwritten, reclassify
from pretrain_archive.artifacts.location import address_of, below
from pretrain_archive.artifacts.parts import gone_parts
from pretrain_archive.artifacts.pointers import (
    attempt_of,
    find_pointer,
    newest_complete,
    resolve_latest,
    step_of,
)
from pretrain_archive.artifacts.readers import open_reader
from pretrain_archive.artifacts.registration import Reading, register_checkpoint
from pretrain_archive.artifacts.scanning import scan
from pretrain_archive.artifacts.usage import Use, last_used
from pretrain_archive.artifacts.verification import Opened, verify_checkpoint
from pretrain_archive.domain.errors import CheckpointError, InputError, RefusedError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import CheckpointRegistered, TensorScan, TombstoneWritten
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.services.caller import Caller
from pretrain_archive.services.checkpoints import claim_of, stamps_of
from pretrain_archive.services.progress import Meter


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """A checkpoint as it is now; ``step`` is what its name or its state says, ``scan`` the look at every value."""

    seen: Inspection
    step: int | None
    scan: TensorScan | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A registered checkpoint as a list shows it; ``state`` is empty, ``overwritten`` or ``deleted``."""

    checkpoint: CheckpointRegistered
    effective_class: str
    state: str
    last_use: Use | None

    def to_dict(self) -> dict[str, Any]:
        """One row as plain JSON."""
        fact, use = self.checkpoint, self.last_use
        return {
            "checkpoint_id": fact.checkpoint_id, "step": fact.step, "attempt": fact.attempt, "tokens": fact.tokens,
            "class": self.effective_class, "purpose": fact.purpose, "format": fact.format, "digest": fact.digest,
            "bytes": sum(fact.components.values()), "components": dict(fact.components), "location": fact.location,
            "responsible": fact.responsible, "model": fact.model, "snapshot": fact.snapshot,
            "configuration_digest": fact.configuration_digest, "state": self.state,
            "last_use": None if use is None else {"how": use.how, "at": use.at, "record_id": use.record_id},
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What a person says of a checkpoint to register; None is taken from its name, its state or the run."""

    place: str
    step: int | None = None
    attempt: int | None = None
    tokens: int | None = None
    artifact_class: CheckpointClass = "recovery"
    purpose: str = ""
    responsible: str = ""
    pointer: str = ""
    newest: bool = False
    scan: bool = False
    use_stamps: bool = True


def look(place: str, *, values: bool = False, progress: Meter | None = None) -> Looked:
    """Inspect a folder or an address; with ``values`` look at every value. Nothing is recorded or changed."""
    reader = open_reader(address_of(place))
    seen = inspect(reader)
    found = scan(reader, seen.files, progress=progress) if values and seen.complete else None
    return Looked(seen=seen, step=seen.step if seen.step is not None else step_of(reader.name), scan=found)


def register(
    ledger: Ledger, caller: Caller, view: RunView, wish: Wish, *, progress: Meter | None = None
) -> CheckpointRegistered:
    """Register one checkpoint of an open run that was launched; :class:`RefusedError` for another run.

    ``wish.pointer`` names a pointer in the folder ``wish.place``: it is resolved, and the word is not recorded. With
    ``wish.newest`` the newest complete checkpoint in that folder is taken, whatever a pointer says.
    """
    if view.opened is None or view.state == "closed":
        state = "is closed and frozen" if view.opened else "is not in the ledger"
        raise RefusedError(
            f"run {view.run_uid} {state}", hint="Register checkpoints while their run is open."
        )
    if not view.attempts:
        raise RefusedError(
            f"run {view.run_uid} was never launched", hint="A checkpoint belongs to an attempt."
        )
    address = _chosen(wish)
    reader = open_reader(address)
    step = wish.step if wish.step is not None else step_of(reader.name)
    if step is None:
        step = inspect(reader).step
    if step is None:
        pointer = find_pointer(address)
        more = f", or take what the pointer names with --pointer {pointer}" if pointer else ""
        raise InputError(
            "--step",
            None,
            "neither the name nor the checkpoint states a step",
            hint=f"Give it with --step{more}.",
        )
    attempt = wish.attempt or attempt_of(reader.name) or view.attempts
    if not 1 <= attempt <= view.attempts:
        raise InputError("--attempt", attempt, f"the run has {view.attempts} attempts")
    claim = claim_of(view, attempt=attempt, step=step, tokens=wish.tokens, wish=wish_of(wish))
    stamps = stamps_of(view) if wish.use_stamps else None
    reading = Reading(stamps=stamps, scan=wish.scan, progress=progress)
    return register_checkpoint(
        ledger, reader, claim, actor=caller.actor, origin=caller.origin, reading=reading
    )


def _chosen(wish: Wish) -> str:
    address = address_of(wish.place)
    if wish.pointer:
        return below(address, resolve_latest(address, wish.pointer).name)
    if not wish.newest:
        return address
    found = newest_complete(address)
    if found is None:
        raise CheckpointError(
            f"{address}: there is no complete checkpoint.", hint="Look with: checkpoint inspect"
        )
    return below(address, found.name)


def wish_of(wish: Wish) -> Mapping[str, str]:
    """The parts of a claim that a person may set, without those that were not."""
    said = {
        "artifact_class": wish.artifact_class,
        "purpose": wish.purpose,
        "responsible": wish.responsible,
    }
    return {name: text for name, text in said.items() if text}


def find_checkpoint(ledger: Ledger, checkpoint_id: str) -> tuple[RunView, CheckpointRegistered]:
    """A registered checkpoint and its run by its id; :class:`InputError` if there is none."""
    start = Ref(type="checkpoint", id=checkpoint_id)
    for found in ledger.trace(start, direction="backward", max_nodes=50).edges:
        if found.edge.subject == start and found.edge.object.type == "run":
            uid = found.edge.object.id
            view = RunView.of(uid, ledger.records(streams=[uid]))
            fact = current(view).get(checkpoint_id)
            if fact is not None:
                return view, fact
    raise InputError(
        "CHECKPOINT", checkpoint_id, "is not in the ledger", hint="See: pretrain-archive checkpoint list RUN"
    )


def verify(
    ledger: Ledger, checkpoint_id: str, *, use_stamps: bool = False, progress: Meter | None = None
) -> tuple[CheckpointRegistered, list[Item]]:
    """Read a registered checkpoint again and compare it with its record; by default every byte, whatever stamps say."""
    view, fact = find_checkpoint(ledger, checkpoint_id)
    stamps = stamps_of(view) if use_stamps else None
    return fact, _verified(view, fact, stamps=stamps, progress=progress)


def verify_place(
    ledger: Ledger, place: str, *, progress: Meter | None = None, opened: Opened = open_reader
) -> tuple[CheckpointRegistered, list[Item]]:
    """The same for the newest checkpoint that was registered at a place; :class:`CheckpointError` if none was."""
    address = opened(address_of(place)).location  # as records spell it
    found: CheckpointRegistered | None = None
    for _, body in ledger.bodies(kinds=["checkpoint.registered"]):
        if body["payload"].get("location") == address:
            found = CheckpointRegistered.model_validate(body["payload"])
    if found is None:
        raise CheckpointError(
            f"{address}: no checkpoint was registered there.", hint="Look at it with: checkpoint inspect"
        )
    view, fact = find_checkpoint(ledger, found.checkpoint_id)
    return fact, _verified(view, fact, progress=progress, opened=opened)


def _verified(view: RunView, fact: CheckpointRegistered, **how: Any) -> list[Item]:
    """What a tombstone explains is not missing: a whole one is unrecorded, of one that lost parts the rest is read."""
    ref = f"checkpoint:{fact.checkpoint_id}"
    whole = [stone for _, stone in view.all(TombstoneWritten) if stone.ref == ref and not stone.parts]
    if whole:
        hint = f"The bytes were deleted: {whole[-1].reason}."
        return [
            Item(
                id=ref,
                track="artifact",
                verdict=Verdict.UNRECORDED,
                check="",
                expected=fact.digest,
                hint=hint,
            )
        ]
    return verify_checkpoint(fact, gone=gone_parts(view).get(fact.checkpoint_id, frozenset()), **how)


def listed(view: RunView) -> list[Listed]:
    """The registered checkpoints of a run in the order of attempt and step, with class, state and last use."""
    used, over = last_used(view), overwritten(view)
    gone = {stone.ref for _, stone in view.all(TombstoneWritten) if not stone.parts}

    def state(fact: CheckpointRegistered) -> str:
        if f"checkpoint:{fact.checkpoint_id}" in gone:
            return "deleted"
        return "overwritten" if fact.checkpoint_id in over else ""

    return [
        Listed(
            checkpoint=fact,
            effective_class=effective_class(view, fact),
            state=state(fact),
            last_use=used.get(fact.checkpoint_id),
        )
        for fact in current(view).values()
    ]


def classify(
    ledger: Ledger, caller: Caller, checkpoint_id: str, artifact_class: str, purpose: str
) -> CheckpointRegistered:
    """Record that a checkpoint serves another purpose now; bytes and id stay. A closed run refuses."""
    if artifact_class not in get_args(CheckpointClass):
        known = ", ".join(get_args(CheckpointClass))
        raise InputError(
            "--class", artifact_class, f"must be one of {known}", hint="Releases are made at the gate."
        )
    view, _ = find_checkpoint(ledger, checkpoint_id)
    if view.state == "closed":
        raise RefusedError(f"run {view.run_uid} is closed and frozen")
    name: CheckpointClass = artifact_class  # type: ignore[assignment] # checked above
    return reclassify(
        ledger, run_uid=view.run_uid, checkpoint=checkpoint_id, artifact_class=name,
        purpose=purpose or CLASSES[name].purpose, actor=caller.actor, origin=caller.origin,
    )  # fmt: skip
