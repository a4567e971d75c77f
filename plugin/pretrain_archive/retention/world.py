"""What the ledger knows about artifacts whose bytes may still exist: the input of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pretrain_archive.artifacts.classes import effective_class
from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.identity import Ref, format_time, parse_time
from pretrain_archive.domain.kinds import (
    AttemptStarted,
    CandidateNamed,
    CheckpointRegistered,
    ConfigurationDeclared,
    ReleaseMade,
    RunOpened,
)
from pretrain_archive.domain.records import Record
from pretrain_archive.domain.run_view import STATE_KINDS, RunView
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.files import ArtifactFiles, Target, choose
from pretrain_archive.retention.plan import Subject

LIVENESS = (
    *STATE_KINDS,
    "checkpoint.registered",
    "evaluation.reported",
    "candidate.named",
    "release.made",
    "configuration.declared",
    "tombstone.written",
)
"""The kinds that can make something live or dead."""

CLOCK_TOLERANCE = timedelta(minutes=1)
"""Clocks of several machines differ by seconds; ages are counted in days."""

NEUTRAL = frozenset({"evaluation", "candidate", "release", "package", "decision", "tombstone", "person"})
"""Types that rest on a checkpoint without needing its bytes; kept candidates and releases are seen by payload."""


@dataclass(frozen=True, kw_only=True)
class World:
    """Every artifact that is registered and has no tombstone, and the state of the runs around it.

    ``position`` is that of the newest record read, ``newest`` its time (empty if there is none).
    """

    subjects: tuple[Subject, ...]
    facts: Mapping[str, CheckpointRegistered]
    tombstones: Mapping[str, Record]
    position: int = -1
    newest: str = ""
    views: Mapping[str, RunView] = field(default_factory=dict)


def target_of(fact: CheckpointRegistered) -> Target:
    """What is to be removed for a registered checkpoint."""
    return Target(ref=f"checkpoint:{fact.checkpoint_id}", location=fact.location, files=tuple(fact.files))


def observe(ledger: Ledger, places: Sequence[ArtifactFiles]) -> World:
    """Read the ledger once and look at the bytes of what may go."""
    streams: dict[str, list[Record]] = {}
    position, newest = -1, ""
    for record in ledger.records(kinds=LIVENESS):
        streams.setdefault(record.stream, []).append(record)
        position, newest = record.position, max(newest, record.recorded_at)
    views = {uid: RunView.of(uid, records) for uid, records in streams.items() if uid.startswith("run_")}
    gathered = _Gathered(views)
    subjects = []
    for ref, (uid, registered_at, fact) in gathered.checkpoints.items():
        if ref not in gathered.tombstones:
            subjects.append(gathered.subject(ledger, places, uid, registered_at, fact))
    return World(
        subjects=tuple(subjects),
        facts={ref: fact for ref, (_, _, fact) in gathered.checkpoints.items()},
        tombstones=gathered.tombstones,
        position=position,
        newest=newest,
        views=views,
    )


def require_clock(world: World, now: datetime) -> None:
    """Refuse to judge ages with a clock that is behind the newest record."""
    if world.newest and now + CLOCK_TOLERANCE < parse_time(world.newest):
        raise RefusedError(
            f"the clock says {format_time(now)}, the newest record is of {world.newest}: "
            "ages cannot be trusted, nothing is planned or deleted.",
            hint="Set the clock right and run again.",
        )


class _Gathered:
    """The facts of all runs, indexed for the questions that the rules ask."""

    def __init__(self, views: Mapping[str, RunView]) -> None:
        self.views = views
        self.checkpoints: dict[str, tuple[str, str, CheckpointRegistered]] = {}
        self.tombstones: dict[str, Record] = {}
        self.selected: dict[str, list[str]] = {}
        self.named: dict[str, list[str]] = {}
        for uid, view in views.items():
            self._read(uid, view)
        live = [ref for ref in self.checkpoints if ref not in self.tombstones]
        self.at_location: dict[str, str] = {self.checkpoints[ref][2].location: ref for ref in live}

    def _read(self, uid: str, view: RunView) -> None:
        for record, fact in view.all(CheckpointRegistered):
            ref = f"checkpoint:{fact.checkpoint_id}"
            first = self.checkpoints.get(ref)
            self.checkpoints[ref] = (uid, first[1] if first else record.recorded_at, fact)
        for record in view.records:
            if record.kind == "tombstone.written":
                self.tombstones[str(record.payload["ref"])] = record
        candidates = {fact.candidate_id: fact for _, fact in view.all(CandidateNamed)}
        released = {fact.candidate_id: fact.release_id for _, fact in view.all(ReleaseMade)}
        for candidate in candidates.values():
            names = self.selected.setdefault(f"checkpoint:{candidate.checkpoint_id}", [])
            if candidate.kept:
                names.append(f"candidate:{candidate.candidate_id}")
            if candidate.candidate_id in released:
                names.append(f"release:{released[candidate.candidate_id]}")
        for _, started in view.all(AttemptStarted):
            self._name(started.resume_from, uid)
        for _, declared in view.all(ConfigurationDeclared):
            self._name(declared.base_model, uid)

    def _name(self, text: str | None, uid: str) -> None:
        if text:
            self.named.setdefault(text.rstrip("/"), []).append(uid)

    def subject(
        self,
        ledger: Ledger,
        places: Sequence[ArtifactFiles],
        uid: str,
        registered_at: str,
        fact: CheckpointRegistered,
    ) -> Subject:
        view = self.views[uid]
        ref = f"checkpoint:{fact.checkpoint_id}"
        users, gaps = self._users(ledger, uid, fact)
        place = choose(places, fact.location)
        seen = place.look(target_of(fact)) if place else None
        if seen is None:
            gaps.append(f"{fact.location} is not reachable from here")
        elif seen.presence in {"unreachable", "changed"}:
            gaps.append(f"{fact.location}: {seen.detail}")
        opened = view.latest(RunOpened)
        if opened is None:
            gaps.append("how its run began is unrecorded")
        holder = self.at_location.get(fact.location, ref)
        return Subject(
            id=ref,
            run_uid=uid,
            project=opened.project if opened else "",
            artifact_class=effective_class(view, fact),
            step=fact.step,
            attempt=fact.attempt,
            size=sum(file.size for file in fact.files),
            digest=fact.digest,
            location=fact.location,
            registered_at=registered_at,
            run_state=view.state,
            selected_by=tuple(self.selected.get(ref, ())),
            referenced_by=users,
            replaced_by="" if holder == ref else holder,
            missing=seen is not None and seen.presence == "missing",
            gaps=tuple(gaps),
        )

    def _users(
        self, ledger: Ledger, uid: str, fact: CheckpointRegistered
    ) -> tuple[tuple[str, ...], list[str]]:
        """Runs and other things outside ``uid`` that rest on the bytes, and what could not be found out."""
        ref = Ref(type="checkpoint", id=fact.checkpoint_id)
        own = {f"run:{uid}"}
        path = fact.location.removeprefix("file://")
        names = (fact.checkpoint_id, str(ref), fact.location, path, fact.digest)
        found = {f"run:{user}" for name in names for user in self.named.get(name, ())}
        trace = ledger.trace(ref, direction="forward")
        for step in trace.edges:
            if step.edge.object == ref and step.edge.subject.type not in NEUTRAL:
                found.add(str(step.edge.subject))
        found |= set(self._open_children(uid))
        gaps = ["not everything that rests on it could be found"] if trace.truncated else []
        return tuple(sorted(found - own)), gaps

    def _open_children(self, uid: str) -> Iterable[str]:
        """Runs that derive from ``uid`` and are not closed: they may still need its checkpoints."""
        for child, view in self.views.items():
            opened = view.latest(RunOpened)
            if opened and opened.derived_from in {uid, f"run:{uid}"} and view.state != "closed":
                yield f"run:{child}"
