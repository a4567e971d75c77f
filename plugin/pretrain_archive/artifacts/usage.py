"""When a checkpoint was last of use, and for what: derived from records, never stored (R101).

A use is a record that rests on the checkpoint: its registration, an attempt that resumed from it, an evaluation, a
candidate, a release. Looking at it or verifying it is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pretrain_archive.artifacts.location import to_path
from pretrain_archive.domain.kinds import (
    AttemptStarted,
    CandidateNamed,
    CheckpointRegistered,
    EvaluationReported,
    ReleaseMade,
)
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import RunView


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """A use: ``how`` is registration, resume, evaluation, candidate or release; the record is its evidence."""

    checkpoint_id: str
    how: str
    at: str
    record_id: str
    run_uid: str


def last_used(view: RunView, *others: RunView) -> dict[str, Use]:
    """By id of every checkpoint that ``view`` registered: its newest use, in that run or in ``others``."""
    known = list(view.all(CheckpointRegistered))
    found: dict[str, Use] = {}
    for each in (view, *others):
        for use in uses(each, known):
            before = found.get(use.checkpoint_id)
            if before is None or use.at >= before.at:
                found[use.checkpoint_id] = use
    ours = {fact.checkpoint_id for _, fact in known}
    return {name: use for name, use in found.items() if name in ours}


def uses(view: RunView, known: Iterable[tuple[Record, CheckpointRegistered]]) -> Iterable[Use]:
    """Every use that the records of ``view`` tell, of the checkpoints ``known`` and of those that they name."""
    registered = list(known)

    def use(record: Record, checkpoint: str, how: str) -> Use:
        return Use(
            checkpoint_id=checkpoint,
            how=how,
            at=record.recorded_at,
            record_id=record.record_id,
            run_uid=view.run_uid,
        )

    first: set[str] = set()
    for record, fact in view.all(CheckpointRegistered):
        if fact.checkpoint_id not in first:  # a later one is a change of class
            first.add(fact.checkpoint_id)
            yield use(record, fact.checkpoint_id, "registration")
    for record, start in view.all(AttemptStarted):
        resumed = _resumed(record, start, registered)
        if resumed:
            yield use(record, resumed, "resume")
    for record, report in view.all(EvaluationReported):
        yield use(record, report.checkpoint_id, "evaluation")
    candidates = {}
    for record, candidate in view.all(CandidateNamed):
        candidates[candidate.candidate_id] = candidate.checkpoint_id
        yield use(record, candidate.checkpoint_id, "candidate")
    for record, release in view.all(ReleaseMade):
        if release.candidate_id in candidates:
            yield use(record, candidates[release.candidate_id], "release")


def _resumed(
    record: Record, start: AttemptStarted, known: list[tuple[Record, CheckpointRegistered]]
) -> str | None:
    """The checkpoint that an attempt went on from: the last one that was registered at that folder before."""
    at_folder = [
        fact.checkpoint_id
        for earlier, fact in known
        if start.resume_from
        and earlier.recorded_at <= record.recorded_at
        and str(to_path(fact.location) or fact.location) == start.resume_from
        and start.resume_step in {None, fact.step}
    ]
    return at_folder[-1] if at_folder else None
