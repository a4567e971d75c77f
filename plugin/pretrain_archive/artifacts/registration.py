"""A checkpoint becomes evidence: read, hashed, checked against what it says of itself, then recorded once.

Two phases. First every byte is read and the folder inspected; nothing is written. Then, if the folder is
still as it was read, one record with its edges is appended under a key that only one registration of that
run, attempt and step can take. What does not hold is recorded as refused, with all its faults.

The same checkpoint registered again is the first record. The same step with other bytes is refused in the same
attempt; a later attempt, which may have rewound, makes a second generation beside the first.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path

from pretrain_archive.artifacts import hashing
from pretrain_archive.artifacts.classes import CLASSES, CheckpointClass
from pretrain_archive.artifacts.formats import Inspection, inspect
from pretrain_archive.artifacts.location import to_location
from pretrain_archive.domain.errors import AlreadyRecordedError, CheckpointError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import CheckpointRefused, CheckpointRegistered, read_payload
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger

log = logging.getLogger(__name__)

KIND = "checkpoint.registered"
REFUSED = "checkpoint.refused"
ORDINALS = {"": 0, "recovery": 1, "evaluation": 2, "candidate": 3}
"""Place of a step's records among those of one task try: first its registration, then class changes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What the run says about a checkpoint; ``snapshot`` is ``NAME@VERSION``, ``attempt`` counts from 1."""

    run_uid: str
    attempt: int
    step: int
    tokens: int | None
    snapshot: str
    configuration_digest: str
    responsible: str
    artifact_class: CheckpointClass = "recovery"
    purpose: str = ""


def checkpoint_id(run_uid: str, step: int, digest: str) -> str:
    """The stable name of a checkpoint: the same run, step and bytes give the same id."""
    return "ckpt_" + hashlib.sha256(f"{run_uid}\n{step}\n{digest}".encode()).hexdigest()[:32]


def register_checkpoint(
    ledger: Ledger,
    folder: Path,
    claim: Claim,
    *,
    actor: Actor,
    origin: Origin,
    ordinal: int | None = None,
) -> CheckpointRegistered:
    """Verify ``folder`` and record it; return the recorded fact (the first one, if known already).

    ``ordinal`` tells records of one task try apart; by default it follows from the step.
    Raises :class:`CheckpointError` after recording why the checkpoint does not count.
    """
    try:
        payload = _read(folder, claim)
        return _commit(ledger, folder, payload, claim, actor=actor, origin=origin, ordinal=ordinal)
    except _RefusalError as refusal:
        _record_refusal(ledger, folder, claim, refusal.problems, actor=actor, origin=origin)
        raise CheckpointError(
            f"checkpoint of step {claim.step} is not registered: {'; '.join(refusal.problems)}.",
            hint="Use an earlier checkpoint, or let the program write it again.",
        ) from refusal


class _RefusalError(Exception):
    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _read(folder: Path, claim: Claim) -> CheckpointRegistered:
    """Phase one: every byte is read; nothing is written."""
    seen = inspect(folder)
    problems = [*seen.problems, *_contradictions(seen, claim)]
    if problems:
        raise _RefusalError(*problems)
    try:
        files = hashing.hash_files(folder, seen.files)
    except CheckpointError as error:
        raise _RefusalError(error.message.rstrip(".")) from error
    digest = hashing.files_digest(files)
    return CheckpointRegistered(
        checkpoint_id=checkpoint_id(claim.run_uid, claim.step, digest),
        step=claim.step,
        tokens=claim.tokens if claim.tokens is not None else seen.tokens,
        attempt=claim.attempt,
        location=to_location(folder),
        format=seen.format,
        digest=digest,
        files=files,
        components=seen.components,
        tensors=len(seen.tensors) if seen.tensors else None,
        tensors_digest=_tensors_digest(seen) if seen.tensors else None,
        snapshot=claim.snapshot.removeprefix("snapshot:"),
        configuration_digest=claim.configuration_digest,
        data_position=seen.data_position,
        responsible=claim.responsible,
        artifact_class=claim.artifact_class,
        purpose=claim.purpose or CLASSES[claim.artifact_class].purpose,
    )


def _contradictions(seen: Inspection, claim: Claim) -> list[str]:
    pairs = (
        ("step", claim.step, seen.step),
        ("tokens", claim.tokens, seen.tokens),
        ("configuration", claim.configuration_digest, seen.configuration_digest),
    )
    return [
        f"{name}: the run says {said}, the checkpoint's state file {found}"
        for name, said, found in pairs
        if said is not None and found is not None and said != found
    ]


def _tensors_digest(seen: Inspection) -> str:
    return digest_of([[file, t.name, t.dtype, [str(n) for n in t.shape]] for file, t in seen.tensors])


def _commit(
    ledger: Ledger,
    folder: Path,
    payload: CheckpointRegistered,
    claim: Claim,
    *,
    actor: Actor,
    origin: Origin,
    ordinal: int | None,
) -> CheckpointRegistered:
    """Phase two: the folder is still as read, the step is free or ours, the record is appended."""
    known = [fact for _, fact in registered(ledger, claim.run_uid)]
    same = [other for other in known if other.checkpoint_id == payload.checkpoint_id]
    if same:
        return same[-1]
    for other in known:
        if (other.step, other.attempt) == (payload.step, payload.attempt):
            raise _RefusalError(_other_content(payload, other))
    changed = hashing.changed_since(folder, payload.files)
    if changed:
        raise _RefusalError(*changed)
    draft = _draft(payload, claim.run_uid, actor=actor, origin=origin, ordinal=ordinal)
    try:
        record = ledger.append([draft])[0]
    except AlreadyRecordedError:
        # Another writer took the step between our look and our append: same bytes are ours, others not.
        winner = next(
            other
            for _, other in registered(ledger, claim.run_uid)
            if (other.step, other.attempt) == (payload.step, payload.attempt)
        )
        if winner.checkpoint_id != payload.checkpoint_id:
            raise _RefusalError(_other_content(payload, winner)) from None
        return winner
    log.info("checkpoint %s of step %s registered, %s", payload.checkpoint_id, payload.step, payload.digest)
    return read_payload(record, CheckpointRegistered)


def _other_content(new: CheckpointRegistered, old: CheckpointRegistered) -> str:
    return (
        f"step {new.step} is registered in attempt {old.attempt} with other content: "
        f"recorded {old.digest}, found {new.digest}"
    )


def _draft(
    payload: CheckpointRegistered, run_uid: str, *, actor: Actor, origin: Origin, ordinal: int | None
) -> Draft:
    this = Ref(type="checkpoint", id=payload.checkpoint_id)
    return Draft(
        stream=run_uid,
        kind=KIND,
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        attempt=payload.attempt,
        ordinal=payload.step * len(ORDINALS) if ordinal is None else ordinal,
        unique=f"checkpoint/{run_uid}/{payload.attempt}/{payload.step}",
        edges=(
            Edge(subject=this, relation=Relation.WAS_GENERATED_BY, object=Ref(type="run", id=run_uid)),
            Edge(
                subject=this,
                relation=Relation.WAS_DERIVED_FROM,
                object=Ref.parse(f"snapshot:{payload.snapshot}"),
            ),
            Edge(
                subject=this,
                relation=Relation.USED,
                object=Ref(type="configuration", id=payload.configuration_digest),
            ),
            Edge(
                subject=this,
                relation=Relation.WAS_ATTRIBUTED_TO,
                object=Ref(type="person", id=payload.responsible),
            ),
        ),
    )


def _record_refusal(
    ledger: Ledger, folder: Path, claim: Claim, problems: tuple[str, ...], *, actor: Actor, origin: Origin
) -> None:
    payload = CheckpointRefused(
        location=to_location(folder), step=claim.step, attempt=claim.attempt, problems=list(problems)
    )
    ours = [
        record
        for record in ledger.records(streams=[claim.run_uid], kinds=[REFUSED])
        if record.origin == origin and record.attempt == claim.attempt
    ]
    if any(read_payload(record, CheckpointRefused) == payload for record in ours):
        return
    draft = Draft(
        stream=claim.run_uid,
        kind=REFUSED,
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        attempt=claim.attempt,
        ordinal=len(ours),
    )
    ledger.append([draft])
    log.warning("checkpoint of step %s refused: %s", claim.step, "; ".join(problems))


def registered(ledger: Ledger, run_uid: str) -> list[tuple[Record, CheckpointRegistered]]:
    """The run's registered checkpoints with their records, oldest first; class changes appear again."""
    view = RunView.of(run_uid, ledger.records(streams=[run_uid], kinds=[KIND]))
    return list(view.all(CheckpointRegistered))


def current(view: RunView) -> dict[str, CheckpointRegistered]:
    """The newest fact about each registered checkpoint by id, in order of (attempt, step)."""
    latest = {fact.checkpoint_id: fact for _, fact in view.all(CheckpointRegistered)}
    return dict(sorted(latest.items(), key=lambda pair: (pair[1].attempt, pair[1].step)))


def reclassify(
    ledger: Ledger,
    *,
    run_uid: str,
    checkpoint: str,
    artifact_class: CheckpointClass,
    purpose: str,
    actor: Actor,
    origin: Origin,
    ordinal: int | None = None,
) -> CheckpointRegistered:
    """Record that a registered checkpoint now serves another purpose; bytes and id stay as they are.

    The same class again is the known fact. Raises :class:`CheckpointError` for an unknown checkpoint.
    """
    facts = [fact for _, fact in registered(ledger, run_uid) if fact.checkpoint_id == checkpoint]
    if not facts:
        raise CheckpointError(
            f"{checkpoint}: not a registered checkpoint of {run_uid}.", hint="Register it first."
        )
    if facts[-1].artifact_class == artifact_class:
        return facts[-1]
    payload = facts[-1].model_copy(update={"artifact_class": artifact_class, "purpose": purpose})
    draft = Draft(
        stream=run_uid,
        kind=KIND,
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        attempt=payload.attempt,
        ordinal=payload.step * len(ORDINALS) + ORDINALS[artifact_class] if ordinal is None else ordinal,
    )
    return read_payload(ledger.append([draft])[0], CheckpointRegistered)
