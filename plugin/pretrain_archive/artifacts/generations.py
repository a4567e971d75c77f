"""What is recorded of a run's checkpoints beside their registration: refusals, overwritten sources, other classes.

A step may have several generations: a later attempt that rewound writes it again. Each keeps its own record; where a
later one took the place of an earlier one's files, a record says that of the earlier one, which stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pretrain_archive.artifacts.classes import CheckpointClass
from pretrain_archive.domain.errors import CheckpointError
from pretrain_archive.domain.identity import Ref
from pretrain_archive.domain.kinds import (
    CheckpointOverwritten,
    CheckpointRefused,
    CheckpointRegistered,
    Payload,
    read_payload,
)
from pretrain_archive.domain.records import Actor, Draft, Edge, Origin, Record, Relation
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.ledger.port import Ledger

log = logging.getLogger(__name__)

KIND = "checkpoint.registered"
REFUSED = "checkpoint.refused"
OVERWRITTEN = "checkpoint.overwritten"
ORDINALS = {"": 0, "recovery": 1, "evaluation": 2, "candidate": 3}
"""Place of a step's records among those of one task try: first its registration, then class changes."""


def registered(ledger: Ledger, run_uid: str) -> list[tuple[Record, CheckpointRegistered]]:
    """The run's registered checkpoints with their records, oldest first; class changes appear again."""
    view = RunView.of(run_uid, ledger.records(streams=[run_uid], kinds=[KIND]))
    return list(view.all(CheckpointRegistered))


def current(view: RunView) -> dict[str, CheckpointRegistered]:
    """The newest fact about each registered checkpoint by id, in order of (attempt, step)."""
    latest = {fact.checkpoint_id: fact for _, fact in view.all(CheckpointRegistered)}
    return dict(sorted(latest.items(), key=lambda pair: (pair[1].attempt, pair[1].step)))


def registration_draft(
    payload: CheckpointRegistered, run_uid: str, *, actor: Actor, origin: Origin, ordinal: int | None
) -> Draft:
    """The draft of a registration: its edges, and the key that one registration of an attempt's step can take."""
    this = Ref(type="checkpoint", id=payload.checkpoint_id)
    rests = [
        (Relation.WAS_GENERATED_BY, Ref(type="run", id=run_uid)),
        (Relation.WAS_DERIVED_FROM, Ref.parse(f"snapshot:{payload.snapshot}")),
        (Relation.USED, Ref(type="configuration", id=payload.configuration_digest)),
    ]
    if payload.responsible:
        rests.append((Relation.WAS_ATTRIBUTED_TO, Ref(type="person", id=payload.responsible)))
    return Draft(
        stream=run_uid,
        kind=KIND,
        payload=payload.to_json(),
        actor=actor,
        origin=origin,
        attempt=payload.attempt,
        ordinal=payload.step * len(ORDINALS) if ordinal is None else ordinal,
        unique=f"checkpoint/{run_uid}/{payload.attempt}/{payload.step}",
        edges=tuple(Edge(subject=this, relation=relation, object=thing) for relation, thing in rests),
    )


def overwritten(view: RunView) -> dict[str, CheckpointOverwritten]:
    """By checkpoint id, the newest record that other bytes lie at its location."""
    return {fact.checkpoint_id: fact for _, fact in view.all(CheckpointOverwritten)}


class History:
    """What is on record of a run's checkpoints: read once, and then only what came since.

    A run may have a thousand checkpoints of many files; registering each must not read all of them again.
    """

    def __init__(self, ledger: Ledger, run_uid: str) -> None:
        self.ledger = ledger
        self.run_uid = run_uid
        self._read = -1
        self._marks: list[Record] = []
        self._marked: dict[str, CheckpointOverwritten] = {}
        self._newest: dict[str, CheckpointRegistered] = {}
        self._steps: dict[tuple[int, int], CheckpointRegistered] = {}

    def refresh(self) -> None:
        """Read what was recorded since the last time."""
        new = self.ledger.records(streams=[self.run_uid], kinds=[KIND, OVERWRITTEN], after=self._read)
        for record in new:
            self._read = record.position
            if record.kind == OVERWRITTEN:
                self._marks.append(record)
                mark = read_payload(record, CheckpointOverwritten)
                self._marked[mark.checkpoint_id] = mark
                continue
            fact = read_payload(record, CheckpointRegistered)
            self._newest[fact.checkpoint_id] = fact
            self._steps[fact.step, fact.attempt] = fact

    def known(self, checkpoint: str) -> CheckpointRegistered | None:
        """The newest fact about a checkpoint."""
        return self._newest.get(checkpoint)

    def at_step(self, step: int, attempt: int) -> CheckpointRegistered | None:
        """What is registered of a step of an attempt."""
        return self._steps.get((step, attempt))

    def overwriting(
        self, new: CheckpointRegistered, *, accepted: bool, actor: Actor, origin: Origin
    ) -> list[Draft]:
        """A draft for each checkpoint whose location holds ``new`` now; none for what is on record already."""
        facts = [
            CheckpointOverwritten(
                checkpoint_id=old.checkpoint_id,
                digest=old.digest,
                location=old.location,
                step=old.step,
                attempt=old.attempt,
                found_digest=new.digest,
                found_attempt=new.attempt,
                replaced_by=new.checkpoint_id if accepted else None,
            )
            for old in self._newest.values()
            if old.location == new.location
            and old.digest != new.digest  # the id holds the step that is claimed
        ]
        fresh = [
            fact
            for fact in facts
            if self._marked.get(fact.checkpoint_id) != fact and not _told(self._marked, fact)
        ]
        start = len(_own(self._marks, OVERWRITTEN, origin, new.attempt))
        return [
            _draft(self.run_uid, OVERWRITTEN, fact, new.attempt, start + number, actor=actor, origin=origin)
            for number, fact in enumerate(fresh)
        ]


def _told(known: dict[str, CheckpointOverwritten], fact: CheckpointOverwritten) -> bool:
    """An acceptance after a refusal is news, a refusal after an acceptance of the same bytes is not."""
    before = known.get(fact.checkpoint_id)
    return before is not None and before.found_digest == fact.found_digest and fact.replaced_by is None


def record_refusal(
    ledger: Ledger,
    run_uid: str,
    refused: CheckpointRefused,
    more: Sequence[Draft] = (),
    *,
    actor: Actor,
    origin: Origin,
) -> None:
    """Record once why a checkpoint does not count, together with ``more``; the same finding adds nothing."""
    records = list(ledger.records(streams=[run_uid], kinds=[REFUSED]))
    ours = _own(records, REFUSED, origin, refused.attempt)
    drafts = list(more)
    if not any(read_payload(record, CheckpointRefused) == refused for record in ours):
        drafts.append(
            _draft(run_uid, REFUSED, refused, refused.attempt, len(ours), actor=actor, origin=origin)
        )
        log.warning("checkpoint of step %s refused: %s", refused.step, "; ".join(refused.problems))
    if drafts:
        ledger.append(drafts)


def _own(records: Sequence[Record], kind: str, origin: Origin, attempt: int) -> list[Record]:
    """The records of a kind that this task try wrote of an attempt: their number is the next ordinal."""
    return [
        record
        for record in records
        if record.kind == kind and record.origin == origin and record.attempt == attempt
    ]


def _draft(
    run_uid: str, kind: str, fact: Payload, attempt: int, ordinal: int, *, actor: Actor, origin: Origin
) -> Draft:
    return Draft(
        stream=run_uid,
        kind=kind,
        payload=fact.to_json(),
        actor=actor,
        origin=origin,
        attempt=attempt,
        ordinal=ordinal,
    )


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
    place = payload.step * len(ORDINALS) + ORDINALS[artifact_class] if ordinal is None else ordinal
    draft = _draft(run_uid, KIND, payload, payload.attempt, place, actor=actor, origin=origin)
    return read_payload(ledger.append([draft])[0], CheckpointRegistered)
