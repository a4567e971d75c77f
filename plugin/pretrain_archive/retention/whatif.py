"""Before a deletion: which decisions could no longer be verified after it; and the verification itself.

A decision rests on a checkpoint's bytes when it was made about them: the run's own closing, a gate that approved
after the checkpoint was there, an evaluation, a candidate (a dropped one too), a release. While the bytes are
there and are what was recorded, that decision is verified in respect of them; when a clean-up took them away, a
tombstone keeps digest and reason, and it is unrecorded: nobody can look again. Bytes that are gone or other without a
tombstone are changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pretrain_archive.artifacts.verification import verify_checkpoint
from pretrain_archive.domain.kinds import (
    CandidateNamed,
    CheckpointRegistered,
    EvaluationReported,
    GateDecision,
    ReleaseMade,
    TombstoneWritten,
)
from pretrain_archive.domain.run_view import RunView
from pretrain_archive.domain.verdicts import Item, Verdict
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.facts import Facts
from pretrain_archive.retention.files import ArtifactFiles, choose, target_for
from pretrain_archive.retention.subjects import Subject

Standing = Mapping[tuple[str, str], Verdict]
"""Decision and checkpoint → how the decision stands in respect of the checkpoint's bytes."""


class Falls:
    """Which decisions fall from verified to unrecorded when bytes are deleted."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._of_run: dict[tuple[str, int], list[str]] = {}

    def of(self, subject: Subject) -> list[str]:
        """The decisions that rest on the bytes of ``subject``; not to be changed.

        Nothing falls where nothing stands: bytes that are gone already, wholly or in part, verify no decision.
        """
        if subject.kind != "checkpoint" or subject.missing or subject.partial or subject.gone_parts:
            return []
        facts, ref = self._facts, subject.ref
        found = self._of_its_run(subject)
        if ref not in facts.special:
            return found
        about = sorted({name for name, _ in facts.users.get(ref, ()) if name.startswith("evaluation:")})
        for candidate in sorted(facts.of_checkpoint.get(ref.partition(":")[2], ())):
            about.append(f"candidate:{candidate}")
            if candidate in facts.released:
                about.append(f"release:{facts.released[candidate]}")
        return [*found, *about]

    def _of_its_run(self, subject: Subject) -> list[str]:
        run = self._facts.run(subject.run_uid)
        after = sum(at > subject.registered_at for _, at in run.decisions) if run.decisions else 0
        found = self._of_run.get((subject.run_uid, after))
        if found is None:
            decisions = [name for name, at in run.decisions if at > subject.registered_at]
            found = [f"run:{subject.run_uid}", *dict.fromkeys(decisions)]
            self._of_run[subject.run_uid, after] = found
        return found


def predicted(before: Standing, going: Iterable[Mapping[str, object]]) -> Standing:
    """How every decision will stand after the deletions of a plan, by the ``falls`` of its items."""
    after = dict(before)
    for item in going:
        named = item.get("falls")
        for decision in named if isinstance(named, list) else ():
            after[str(decision), str(item["id"])] = Verdict.UNRECORDED
    return after


def standing(ledger: Ledger, places: Sequence[ArtifactFiles], *, hashed: bool = False) -> Standing:
    """How every decision stands now in respect of every checkpoint, by looking at the bytes.

    ``hashed`` reads and hashes every byte; else names and sizes are compared. Read record by record and independent
    of what the plan gathers, so that the two can be held against each other.
    """
    streams: dict[str, list] = {}  # type: ignore[type-arg]
    for record in ledger.records():
        streams.setdefault(record.stream, []).append(record)
    views = [RunView.of(uid, records) for uid, records in streams.items()]
    stones: dict[str, list[TombstoneWritten]] = {}
    for view in views:
        for _, stone in view.all(TombstoneWritten):
            stones.setdefault(stone.ref, []).append(stone)
    found: dict[tuple[str, str], Verdict] = {}
    for view in views:
        for ref, (registered_at, fact) in _checkpoints(view).items():
            verdict = verdict_of(fact, stones.get(ref, ()), places, hashed=hashed)
            for decision in _decisions(views, view, ref, registered_at):
                found[decision, ref] = verdict
    return found


def verdict_of(
    fact: CheckpointRegistered,
    stones: Sequence[TombstoneWritten],
    places: Sequence[ArtifactFiles],
    *,
    hashed: bool,
) -> Verdict:
    """Whether the bytes of a checkpoint are what was recorded, deleted with a tombstone, or neither."""
    place = choose(places, fact.location)
    if place is None:
        return Verdict.UNRECORDED
    gone = {part for stone in stones for part in stone.parts}
    presence = place.look(target_for(fact, gone=gone)).presence
    if any(not stone.parts for stone in stones):
        return Verdict.UNRECORDED if presence == "missing" else Verdict.CHANGED
    if presence == "unreachable":
        return Verdict.UNRECORDED
    if presence != "present":
        return Verdict.CHANGED
    rest = _worst(verify_checkpoint(fact, gone=gone)) if hashed else Verdict.VERIFIED
    return Verdict.UNRECORDED if gone and rest is Verdict.VERIFIED else rest


def _worst(items: Sequence[Item]) -> Verdict:
    verdicts = {item.verdict for item in items}
    if Verdict.CHANGED in verdicts:
        return Verdict.CHANGED
    return Verdict.UNRECORDED if Verdict.UNRECORDED in verdicts or not items else Verdict.VERIFIED


def _checkpoints(view: RunView) -> dict[str, tuple[str, CheckpointRegistered]]:
    found: dict[str, tuple[str, CheckpointRegistered]] = {}
    for record, fact in view.all(CheckpointRegistered):
        ref = f"checkpoint:{fact.checkpoint_id}"
        found[ref] = (found[ref][0] if ref in found else record.recorded_at, fact)
    return found


def _decisions(views: Sequence[RunView], own: RunView, ref: str, registered_at: str) -> Iterator[str]:
    name = ref.partition(":")[2]
    yield f"run:{own.run_uid}"
    for record, decision in own.all(GateDecision):
        if decision.decision == "approve" and record.recorded_at > registered_at:
            yield f"decision:{own.run_uid}/{decision.gate}@{decision.dossier_digest[7:]}"
    for view in views:
        for _, report in view.all(EvaluationReported):
            if report.checkpoint_id == name:
                yield f"evaluation:{report.evaluation_id}"
    chosen = {
        c.candidate_id for view in views for _, c in view.all(CandidateNamed) if c.checkpoint_id == name
    }
    yield from (f"candidate:{candidate}" for candidate in chosen)
    for view in views:
        released = (fact for _, fact in view.all(ReleaseMade))
        yield from (f"release:{fact.release_id}" for fact in released if fact.candidate_id in chosen)
