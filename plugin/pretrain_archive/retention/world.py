"""What the ledger knows about things whose bytes may still exist, and what is there: the input of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.identity import format_time, parse_time
from pretrain_archive.domain.kinds import CheckpointRegistered, read_payload
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.facts import KINDS, Facts
from pretrain_archive.retention.files import ArtifactFiles, Target, choose, target_for
from pretrain_archive.retention.liveness import Liveness
from pretrain_archive.retention.registries import Registered
from pretrain_archive.retention.running import RunNow
from pretrain_archive.retention.subjects import Subject, SubjectSource

LIVENESS = KINDS
"""The kinds that can make something live or dead."""

CLOCK_TOLERANCE = timedelta(minutes=1)
"""Clocks of several machines differ by seconds; ages are counted in days."""


def target_of(fact: CheckpointRegistered) -> Target:
    """What is to be removed for a registered checkpoint."""
    return Target(ref=f"checkpoint:{fact.checkpoint_id}", location=fact.location, files=tuple(fact.files))


class RegisteredFacts(Mapping[str, CheckpointRegistered]):
    """The registration of each checkpoint, read from the ledger when it is asked for."""

    def __init__(self, ledger: Ledger, facts: Facts) -> None:
        self._ledger, self._facts = ledger, facts

    def __getitem__(self, ref: str) -> CheckpointRegistered:
        position = self._facts.checkpoints[ref].position
        record = next(
            iter(self._ledger.records(kinds=["checkpoint.registered"], after=position - 1, limit=1))
        )
        return read_payload(record, CheckpointRegistered)

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts.checkpoints)

    def __len__(self) -> int:
        return len(self._facts.checkpoints)


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything registered, the runs around it, and the places where bytes lie.

    ``now`` is by which clock leases end. Everything is read from ``liveness``, which :meth:`refresh` brings up to
    date; ``places`` are only looked at where somebody asks for a look. The registries that ``policies`` name are asked
    by ``ask``, once until the next refresh.
    """

    liveness: Liveness
    places: Sequence[ArtifactFiles]
    now: datetime
    policies: Mapping[str, LoadedPolicy] = field(default_factory=dict)
    ask: Callable[[Mapping[str, LoadedPolicy]], Registered] = Registered.ask

    @property
    def ledger(self) -> Ledger:
        """The ledger behind it."""
        return self.liveness.ledger

    @property
    def position(self) -> int:
        """That of the newest record read, -1 if there is none."""
        return self.liveness.facts.position

    @property
    def newest(self) -> str:
        """The time of the newest record read, empty if there is none."""
        return self.liveness.facts.newest

    @property
    def tombstones(self) -> Mapping[str, int]:
        """The position of the tombstone of each thing that was deleted as a whole."""
        return self.liveness.facts.tombstones

    @property
    def runs(self) -> Mapping[str, RunNow]:
        """Every run as it stands."""
        return self.liveness.facts.runs

    @cached_property
    def facts(self) -> Mapping[str, CheckpointRegistered]:
        """The registration of every checkpoint, deleted ones too; each is read when it is asked for."""
        return RegisteredFacts(self.ledger, self.liveness.facts)

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """Every checkpoint that is not deleted, looked at. For few of them; a plan goes run by run."""
        return tuple(subject for uid in self.by_run for subject in self.judged(uid, look=True))

    @cached_property
    def _moment(self) -> str:
        return format_time(self.now)

    @cached_property
    def registered(self) -> Registered:
        """What the registries answered that the policies name."""
        return self.ask(self.policies)

    @cached_property
    def by_run(self) -> Mapping[str, Sequence[str]]:
        """The references of the checkpoints that are not deleted, by run."""
        found: dict[str, list[str]] = {}
        checkpoints = self.liveness.facts.checkpoints
        for ref in self.liveness.facts.live_refs():
            found.setdefault(checkpoints.run_of(ref), []).append(ref)
        return found

    def refresh(self) -> None:
        """Read what the ledger has got since; registries are asked again when somebody wants to know."""
        self.liveness.refresh()
        for name in ("subjects", "by_run", "registered"):
            self.__dict__.pop(name, None)

    def judged(self, run_uid: str, *, look: bool) -> list[Subject]:
        """The checkpoints of a run with everything that is known to need them; ``look`` at their bytes, too."""
        facts = self.liveness.facts
        run = facts.run(run_uid)
        found = [facts.checkpoints[ref] for ref in self.by_run.get(run_uid, ())]
        answers = self.registered
        if look or answers.faults or answers.names or not facts.is_quiet(run_uid):
            return [self._judged(facts, subject, run, look) for subject in found]
        at, special, project = facts.at_location, facts.special, run.project
        return [
            subject
            if subject.ref not in special
            and at.get(subject.location, subject.ref) == subject.ref
            and subject.project == project
            else self._judged(facts, subject, run, look)
            for subject in found
        ]

    def _judged(self, facts: Facts, subject: Subject, run: RunNow, look: bool) -> Subject:
        ref, changes = subject.ref, dict[str, Any]()
        if live := self.liveness.keepers(ref, self._moment):
            changes["live"] = tuple(live)
        if (holder := facts.replaced_by(ref)) is not None:
            changes["replaced_by"] = holder
        if (effective := facts.effective_class(ref)) != subject.artifact_class:
            changes["artifact_class"] = effective
        if run.state != subject.run_state:
            changes["run_state"] = run.state
        if run.project != subject.project:
            changes["project"] = run.project
        if not run.opened:
            changes["gaps"] = ("how its run began is unrecorded",)
        found = self._registered(replace(subject, **changes) if changes else subject)
        return self.looked(found) if look else found

    def _registered(self, subject: Subject) -> Subject:
        answers = self.registered
        if not answers.faults and not answers.names:
            return subject
        if (gap := answers.gap(subject.project)) is not None:
            return replace(subject, gaps=(*subject.gaps, gap))
        kept = answers.keeps(subject)
        return subject if kept is None else replace(subject, live=(*subject.live, kept))

    def looked(self, subject: Subject) -> Subject:
        """The checkpoint with what its place says: whether its bytes are gone, or what stands in the way."""
        place = choose(self.places, subject.location)
        if place is None:
            return replace(subject, gaps=(*subject.gaps, f"{subject.location} is not reachable from here"))
        seen = place.look(target_for(self.facts[subject.ref], gone=subject.gone_parts))
        if seen.presence in {"unreachable", "changed"}:
            return replace(subject, gaps=(*subject.gaps, f"{subject.location}: {seen.detail}"))
        if seen.presence == "present":
            return subject
        return replace(subject, missing=seen.presence == "missing", partial=seen.presence == "partial")

    def with_life(self, subject: Subject) -> Subject:
        """A subject of another kind with everything that the ledger says needs it."""
        run = self.liveness.facts.run(subject.run_uid) if subject.run_uid else None
        state = run.state if run else "none"
        project = run.project if run and run.project else subject.project
        live = (*subject.live, *self.liveness.keepers_of_other(subject.ref, subject.run_uid))
        return self._registered(replace(subject, run_state=state, project=project, live=live))


def observe(
    ledger: Ledger,
    places: Sequence[ArtifactFiles],
    *,
    now: datetime | None = None,
    policies: Mapping[str, LoadedPolicy] | None = None,
) -> World:
    """Read the ledger once. Without ``policies`` no registry is asked."""
    moment = now or datetime.now(UTC)
    return World(liveness=Liveness.read(ledger), places=places, now=moment, policies=policies or {})


def require_clock(world: World, now: datetime) -> None:
    """Refuse to judge ages with a clock that is behind the newest record."""
    if world.newest and now + CLOCK_TOLERANCE < parse_time(world.newest):
        raise RefusedError(
            f"the clock says {format_time(now)}, the newest record is of {world.newest}: "
            "ages cannot be trusted, nothing is planned or deleted.",
            hint="Set the clock right and run again.",
        )


def find_others(world: World, sources: Iterable[SubjectSource]) -> Iterator[Subject]:
    """The subjects of other kinds, each with what needs it; what was deleted is left out."""
    for source in sources:
        for subject in source.find(world):
            if subject.ref not in world.tombstones:
                yield world.with_life(subject)
