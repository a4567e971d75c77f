"""A checkpoint becomes evidence: read, hashed, checked against what it says of itself, then recorded once.

Two phases. First every byte is read and the checkpoint inspected; nothing is written. Then, if it is still as it was
read, one record with its edges is appended under a key that only one registration of that run, attempt and step can
take. What does not hold is recorded as refused, with all its faults. A bucket that does not answer is no fault of the
checkpoint: then nothing is recorded, and a later try finds out.

The same checkpoint registered again is the first record. The same step with other bytes is refused in the same
attempt; a later attempt, which may have rewound, makes a second generation beside the first. Where its files took the
place of the first one's, the same transaction says of the first that its source was overwritten.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

from pretrain_archive.artifacts import hashing, readers, scanning
from pretrain_archive.artifacts.claims import Claim, contradictions, unnamable
from pretrain_archive.artifacts.classes import CLASSES
from pretrain_archive.artifacts.formats import Inspection, inspect
from pretrain_archive.artifacts.generations import (
    KIND,
    ORDINALS,
    REFUSED,
    History,
    current,
    reclassify,
    record_refusal,
    registered,
    registration_draft,
)
from pretrain_archive.artifacts.hash_stamps import HashStamps
from pretrain_archive.artifacts.readers import FileEntry, Reader
from pretrain_archive.domain.errors import AlreadyRecordedError, CheckpointError
from pretrain_archive.domain.kinds import (
    CheckpointRefused,
    CheckpointRegistered,
    FileDigest,
    read_payload,
)
from pretrain_archive.domain.records import Actor, Draft, Origin
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger

__all__ = [
    "KIND", "ORDINALS", "REFUSED", "Claim", "Reading", "checkpoint_id", "current", "reclassify", "register_checkpoint",
    "registered",
]  # fmt: skip

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """How a checkpoint is read: with the stamps of earlier hashing, with a look at every value, told to whom.

    ``history`` is given where many checkpoints of one run are registered.
    """

    stamps: HashStamps | None = None
    scan: bool = False
    progress: hashing.Progress | None = None
    history: History | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    """One registration: what is read, what the run says of it, and who writes."""

    ledger: Ledger
    reader: Reader
    claim: Claim
    actor: Actor
    origin: Origin
    reading: Reading
    history: History
    seen: list[FileEntry] = field(default_factory=list)


def checkpoint_id(run_uid: str, step: int, digest: str) -> str:
    """The stable name of a checkpoint: the same run, step and bytes give the same id."""
    return "ckpt_" + hashlib.sha256(f"{run_uid}\n{step}\n{digest}".encode()).hexdigest()[:32]


def register_checkpoint(
    ledger: Ledger,
    folder: Path | Reader | str,
    claim: Claim,
    *,
    actor: Actor,
    origin: Origin,
    ordinal: int | None = None,
    reading: Reading | None = None,
) -> CheckpointRegistered:
    """Verify a folder, an address or what a reader reads, and record it; return the fact (the first, if known).

    ``ordinal`` tells records of one task try apart; by default it follows from the step.
    Raises :class:`CheckpointError` after recording why the checkpoint does not count, and :class:`StorageError`,
    with nothing recorded, where its bucket does not answer.
    """
    reader = readers.reader_of(folder)
    reading = reading or Reading()
    work = _Work(
        ledger=ledger,
        reader=reader,
        claim=claim,
        actor=actor,
        origin=origin,
        reading=reading,
        history=reading.history or History(ledger, claim.run_uid),
    )
    try:
        return _unchanged(work) or _commit(work, _read(work), ordinal)
    except _RefusalError as refusal:
        refused = CheckpointRefused(
            location=reader.location, step=claim.step, attempt=claim.attempt, problems=list(refusal.problems)
        )
        more = _overwriting(work, refusal.found, accepted=False) if refusal.found else []
        record_refusal(ledger, claim.run_uid, refused, more, actor=actor, origin=origin)
        raise CheckpointError(
            f"checkpoint of step {claim.step} is not registered: {'; '.join(refusal.problems)}.",
            hint="Use an earlier checkpoint, or let the program write it again.",
        ) from refusal


class _RefusalError(Exception):
    """``found`` is the checkpoint that is refused though it is whole: its step has other bytes on record."""

    def __init__(self, *problems: str, found: CheckpointRegistered | None = None) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
        self.found = found


def _unchanged(work: _Work) -> CheckpointRegistered | None:
    """The registered checkpoint whose files are, by their stamps, those that lie here: nothing is opened for that."""
    stamps, claim = work.reading.stamps, work.claim
    if stamps is None or work.reading.scan:
        return None
    try:
        listing = work.reader.listing()
    except CheckpointError:
        return None  # told by whoever looks closer
    digests = [(file, stamps.known(work.reader.location, file)) for file in listing.files]
    if listing.faults or not all(sha256 for _, sha256 in digests):
        return None
    files = [FileDigest(path=file.path, size=file.size, sha256=sha256 or "") for file, sha256 in digests]
    name = checkpoint_id(claim.run_uid, claim.step, hashing.files_digest(files))
    work.history.refresh()
    return work.history.known(name)


def _read(work: _Work) -> CheckpointRegistered:
    """Phase one: every byte is read; nothing is written."""
    claim, reader = work.claim, work.reader
    seen = _look(work)
    try:
        hashed = hashing.hash_checkpoint(
            reader, seen.files, stamps=work.reading.stamps, progress=work.reading.progress, durable=True
        )
        scan = scanning.scan(reader, seen.files) if work.reading.scan else None
    except CheckpointError as error:
        raise _RefusalError(error.message.rstrip(".")) from error
    spoiled, odd = scanning.judged(scan)
    if spoiled:
        raise _RefusalError(*spoiled)
    warnings = [*seen.warnings, *odd]
    work.seen.extend(seen.files)
    digest = hashing.files_digest(hashed.files)
    return CheckpointRegistered(
        checkpoint_id=checkpoint_id(claim.run_uid, claim.step, digest),
        step=claim.step,
        tokens=claim.tokens if claim.tokens is not None else seen.tokens,
        attempt=claim.attempt,
        location=reader.location,
        format=seen.format,
        digest=digest,
        files=hashed.files,
        components=seen.components,
        tensors=seen.tensor_count if seen.tensors else None,
        tensors_digest=_tensors_digest(seen) if seen.tensors else None,
        snapshot=claim.snapshot.removeprefix("snapshot:"),
        configuration_digest=claim.configuration_digest,
        data_position=seen.data_position,
        responsible=claim.responsible,
        artifact_class=claim.artifact_class,
        purpose=claim.purpose or CLASSES[claim.artifact_class].purpose,
        model=claim.model,
        model_facts=seen.facts,
        warnings=warnings,
        check=hashed.told(),
        scan=scan,
    )


def _look(work: _Work) -> Inspection:
    """Inspect after a moment in which nothing moved: what is still being written is refused."""
    try:
        before = work.reader.listing().files
    except CheckpointError as error:
        raise _RefusalError(error.message.rstrip(".")) from error
    readers.wait_granule(before)
    seen = inspect(work.reader)
    marks = {file.path: file.mark for file in before}
    moving = [
        f"{file.path} is being written while it is read"
        for file in seen.files
        if marks.get(file.path, file.mark) != file.mark
    ]
    problems = [*seen.problems, *contradictions(seen, work.claim), *moving, *unnamable(seen.files)]
    if problems:
        raise _RefusalError(*problems)
    return seen


def _tensors_digest(seen: Inspection) -> str:
    return digest_of([[file, t.name, t.dtype, [str(n) for n in t.shape]] for file, t in seen.tensors])


def _commit(work: _Work, payload: CheckpointRegistered, ordinal: int | None) -> CheckpointRegistered:
    """Phase two: the checkpoint is still as read, the step is free or ours, the record is appended."""
    claim = work.claim
    work.history.refresh()
    same = work.history.known(payload.checkpoint_id)
    if same is not None:
        return same
    other = work.history.at_step(payload.step, payload.attempt)
    if other is not None:
        raise _RefusalError(_other_content(payload, other), found=payload)
    changed = hashing.changed_since(work.reader, work.seen)
    if changed:
        raise _RefusalError(*changed)
    draft = registration_draft(payload, claim.run_uid, actor=work.actor, origin=work.origin, ordinal=ordinal)
    try:
        record = work.ledger.append([draft, *_overwriting(work, payload, accepted=True)])[0]
    except AlreadyRecordedError:
        # Another writer took the step between our look and our append: same bytes are ours, others not.
        work.history.refresh()
        winner = work.history.at_step(payload.step, payload.attempt)
        if winner is None:
            raise
        if winner.checkpoint_id != payload.checkpoint_id:
            raise _RefusalError(_other_content(payload, winner), found=payload) from None
        return winner
    log.info("checkpoint %s of step %s registered, %s", payload.checkpoint_id, payload.step, payload.digest)
    return read_payload(record, CheckpointRegistered)


def _overwriting(work: _Work, payload: CheckpointRegistered, *, accepted: bool) -> list[Draft]:
    return work.history.overwriting(payload, accepted=accepted, actor=work.actor, origin=work.origin)


def _other_content(new: CheckpointRegistered, old: CheckpointRegistered) -> str:
    return (
        f"step {new.step} is registered in attempt {old.attempt} with other content: "
        f"recorded {old.digest}, found {new.digest}"
    )
