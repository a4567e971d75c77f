"""A plan over everything that the ledger knows, run by run: what goes, what stays, what that costs, what falls.

A million checkpoints are judged without a look at each: bytes are looked at where a look can change an answer, which
is at what protects others (the last, the best), and at everything while there is little. Each deletion looks again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pretrain_archive.domain.errors import RefusedError
from pretrain_archive.domain.kinds import RetentionPlanned
from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.ledger.canonical import digest_of
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.files import ArtifactFiles
from pretrain_archive.retention.folders import FolderFiles
from pretrain_archive.retention.pages import PageWriter
from pretrain_archive.retention.plan import GOING, Decision, decide_run
from pretrain_archive.retention.subjects import Subject, SubjectSource
from pretrain_archive.retention.summary import Summary
from pretrain_archive.retention.whatif import Falls
from pretrain_archive.retention.world import World, find_others, observe, require_clock
from pretrain_archive.storage.port import ObjectStore

MOST_INLINE = 2000
"""Items of a plan that its record holds; a longer plan has pages in the store."""

MOST_LOOKS = 2_000
"""Looks at bytes that a plan spends on what it would delete; those at what protects others are not counted."""

PROTECTS = frozenset({"last", "best"})
_ROUNDS = 8
Policies = Mapping[str, LoadedPolicy]


@dataclass(kw_only=True)
class Planner:
    """Judges runs with everything in view. ``looks`` is how many looks are left; ``look`` replaces the world's."""

    world: World
    policies: Policies
    now: datetime
    others: Mapping[str, Sequence[Subject]] = field(default_factory=dict)
    looks: int = MOST_LOOKS
    look: Callable[[Subject], Subject] | None = None
    unlooked: int = 0

    def runs(self) -> list[str]:
        """Every run with something in it, in the order of a plan; what belongs to no run comes first."""
        return sorted({*self.world.by_run, *self.others})

    def decide(self, run_uid: str, wanted: frozenset[str] | None = None) -> list[Decision]:
        """The answer for everything of a run. ``wanted`` are the only ones to be looked at beside what protects."""
        look = self.look or self.world.looked
        found = self.world.judged(run_uid, look=False)
        everything = wanted is None and self.looks >= len(found)
        closed = self.world.liveness.facts.run(run_uid).closed
        subjects = {subject.ref: subject for subject in found}
        looked: set[str] = set()
        for ref in found if closed else ():
            if everything or (wanted is not None and ref.ref in wanted):
                looked.add(ref.ref)
                subjects[ref.ref] = look(ref)
        self.looks -= len(looked) if wanted is None else 0
        answers: list[Decision] = []
        for _ in range(_ROUNDS):
            answers = self._answers(subjects, run_uid)
            fresh = [a for a in answers if a.code in PROTECTS and a.subject.ref not in looked and closed]
            fresh = [a for a in fresh if a.subject.kind == "checkpoint"]
            looked.update(answer.subject.ref for answer in fresh)
            seen = [look(answer.subject) for answer in fresh]
            if all(new is answer.subject for new, answer in zip(seen, fresh, strict=True)):
                break
            subjects.update((subject.ref, subject) for subject in seen)
        self.unlooked += sum(a.action in GOING and a.subject.ref not in looked for a in answers)
        return answers

    def _answers(self, subjects: Mapping[str, Subject], run_uid: str) -> list[Decision]:
        among = [*subjects.values(), *self.others.get(run_uid, ())]
        return list(decide_run(among, self.policies, now=self.now))


def make_plan(
    ledger: Ledger,
    policies: Policies,
    *,
    places: Sequence[ArtifactFiles] = (FolderFiles(),),
    now: datetime | None = None,
    store: ObjectStore | None = None,
    sources: Iterable[SubjectSource] = (),
) -> RetentionPlanned:
    """Work out what may go and what stays; nothing is recorded.

    ``policies`` maps projects to their policies. A plan of more than :data:`MOST_INLINE` items is written to
    ``store`` in pages. Raises :class:`RefusedError` if the clock is behind the newest record, or a long plan has no
    store.
    """
    moment = now or datetime.now(UTC)
    with _no_collection():
        world = observe(ledger, places, now=moment, policies=policies)
        require_clock(world, moment)
        return _plan_of(world, policies, store, sources)


def _plan_of(
    world: World, policies: Policies, store: ObjectStore | None, sources: Iterable[SubjectSource]
) -> RetentionPlanned:
    others: dict[str, list[Subject]] = {}
    for subject in find_others(world, sources):
        others.setdefault(subject.run_uid, []).append(subject)
    worker = Planner(world=world, policies=policies, now=world.now, others=others, looks=MOST_LOOKS)
    summary = Summary(policies=policies)
    gathered = _Gathered(store)
    falls = Falls(world.liveness.facts)
    for uid in worker.runs():
        for answer in worker.decide(uid):
            falling = falls.of(answer.subject) if answer.action in GOING else ()
            summary.take(answer, falling)
            loaded = policies.get(answer.subject.project)
            gathered.add(answer, loaded.digest if loaded else None, falling)
    summary.unlooked = worker.unlooked
    return gathered.planned(summary)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the cycle collector: millions of values without cycles are made, and it would walk them many times."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Gathered:
    """Items in memory while they are few, in pages from then on."""

    def __init__(self, store: ObjectStore | None) -> None:
        self._store = store
        self._few: list[tuple[Decision, str | None, Sequence[str]]] = []
        self._pages: PageWriter | None = None

    def add(self, answer: Decision, policy_digest: str | None, falling: Sequence[str]) -> None:
        if self._pages is not None:
            self._pages.add(answer.to_row(policy_digest, falling))
            return
        self._few.append((answer, policy_digest, falling))
        if len(self._few) > MOST_INLINE:
            if self._store is None:
                raise RefusedError(
                    f"the plan has more than {MOST_INLINE} items and no store to keep them in.",
                    hint="Set [pretrain_archive] store_url.",
                )
            self._pages = PageWriter(self._store)
            for early, policy, falls in self._few:
                self._pages.add(early.to_row(policy, falls))
            self._few = []

    def planned(self, summary: Summary) -> RetentionPlanned:
        said = summary.to_json()
        totals = {
            "total_bytes": summary.total_bytes,
            "needs_approval": summary.needs_approval,
            "summary": said,
        }
        if self._pages is None:
            items = [early.to_item(policy, falls) for early, policy, falls in self._few]
            digest = digest_of(items)
            return RetentionPlanned(plan_digest=digest, items=items, item_count=len(items), **totals)
        digest = self._pages.finish()
        return RetentionPlanned(
            plan_digest=digest, items=[], item_count=self._pages.count, items_digest=digest, **totals
        )
