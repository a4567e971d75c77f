"""Which artifacts may be deleted, by rules alone: no clock, no disk, no ledger.

Each rule is a question about one subject among all: why must it be kept? The answers of all rules are the reason
in the plan. Only a subject that no rule keeps, of a class that has a rule, with all its evidence, is deleted. Order
and age come from the recorded step and registration, never from file times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from pretrain_archive.domain.identity import parse_time
from pretrain_archive.domain.policy import LoadedPolicy, Retention

Action = Literal["delete", "keep", "blocked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A registered artifact whose bytes may still exist.

    ``id`` is its reference (``checkpoint:ID``). ``registered_at`` is when the ledger first knew it.
    ``run_state`` is that of the run view. ``selected_by`` names kept candidates and releases,
    ``referenced_by`` what else rests on it from outside, ``replaced_by`` a later artifact at the same location.
    ``gaps`` is missing evidence: it blocks.
    """

    id: str
    run_uid: str
    project: str
    artifact_class: str
    step: int
    attempt: int
    size: int
    digest: str
    location: str
    registered_at: str
    run_state: str
    selected_by: tuple[str, ...] = ()
    referenced_by: tuple[str, ...] = ()
    replaced_by: str = ""
    missing: bool = False
    gaps: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[int, int]:
        """Place in the run: attempt, then step, as numbers."""
        return (self.attempt, self.step)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """Why a subject stays, and by what (a reference, a policy field, a state)."""

    reason: str
    by: str


class Rule(Protocol):
    """One reason to keep."""

    def keeps(self, subject: Subject, among: Sequence[Subject]) -> Kept | None:
        """Why ``subject`` must be kept among the subjects of its run, or None."""


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Whatever is not closed may be resumed or reviewed (R151)."""

    def keeps(self, subject: Subject, among: Sequence[Subject]) -> Kept | None:
        """See :class:`Rule`."""
        del among
        if subject.run_state == "closed":
            return None
        return Kept(reason=f"its run is {subject.run_state}, not closed", by=f"run:{subject.run_uid}")


@dataclass(frozen=True, slots=True)
class Selected:
    """The source of a kept candidate or a release (R151)."""

    def keeps(self, subject: Subject, among: Sequence[Subject]) -> Kept | None:
        """See :class:`Rule`."""
        del among
        if not subject.selected_by:
            return None
        return Kept(reason=f"source of {', '.join(subject.selected_by)}", by=subject.selected_by[0])


@dataclass(frozen=True, slots=True)
class Referenced:
    """Something outside its run rests on it."""

    def keeps(self, subject: Subject, among: Sequence[Subject]) -> Kept | None:
        """See :class:`Rule`."""
        del among
        if not subject.referenced_by:
            return None
        return Kept(reason=f"used by {', '.join(subject.referenced_by)}", by=subject.referenced_by[0])


@dataclass(frozen=True, slots=True)
class Replaced:
    """A later artifact stands at the same location: deleting there would delete that one."""

    def keeps(self, subject: Subject, among: Sequence[Subject]) -> Kept | None:
        """See :class:`Rule`."""
        del among
        if not subject.replaced_by:
            return None
        return Kept(reason=f"its location now holds {subject.replaced_by}", by=subject.replaced_by)


@dataclass(frozen=True, kw_only=True, slots=True)
class LegalHold:
    """Held by name: a run, an artifact's id or reference, or a project."""

    names: frozenset[str]

    def keeps(self, subject: Subject, among: Sequence[Subject]) -> Kept | None:
        """See :class:`Rule`."""
        del among
        own = {subject.id, subject.id.partition(":")[2], subject.run_uid, f"run:{subject.run_uid}"}
        held = sorted(self.names & {*own, subject.project, f"project:{subject.project}"})
        return Kept(reason=f"legal hold on {', '.join(held)}", by="policy: legal_hold") if held else None


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepLast:
    """The last ``count`` of a class in its run, by number; those that are gone do not count."""

    artifact_class: str
    count: int

    def keeps(self, subject: Subject, among: Sequence[Subject]) -> Kept | None:
        """See :class:`Rule`."""
        if subject.artifact_class != self.artifact_class or subject.missing:
            return None
        peers = [
            peer
            for peer in among
            if peer.artifact_class == self.artifact_class
            and peer.run_uid == subject.run_uid
            and not peer.missing
            and not peer.replaced_by
        ]
        later = sum(peer.order > subject.order for peer in peers)
        if later >= self.count:
            return None
        return Kept(reason=f"one of the last {self.count}", by=f"policy: {self.artifact_class}_keep_last")


@dataclass(frozen=True, kw_only=True, slots=True)
class YoungerThan:
    """Registered less than ``days`` ago."""

    artifact_class: str
    days: float
    now: datetime

    def keeps(self, subject: Subject, among: Sequence[Subject]) -> Kept | None:
        """See :class:`Rule`."""
        del among
        if subject.artifact_class != self.artifact_class:
            return None
        if self.now - parse_time(subject.registered_at) >= timedelta(days=self.days):
            return None
        reason = f"younger than {self.days:g} days (registered {subject.registered_at[:10]})"
        return Kept(reason=reason, by=f"policy: {self.artifact_class}_max_age_days")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassWithoutRule:
    """No rule, no deletion: there is no built-in day count (R148)."""

    classes: frozenset[str]

    def keeps(self, subject: Subject, among: Sequence[Subject]) -> Kept | None:
        """See :class:`Rule`."""
        del among
        if subject.artifact_class in self.classes:
            return None
        return Kept(reason=f"class {subject.artifact_class} is not deleted by age", by="policy")


@dataclass(frozen=True, slots=True)
class OrderUnclear:
    """Steps and registrations disagree on what came later: nothing is concluded from either."""

    def keeps(self, subject: Subject, among: Sequence[Subject]) -> Kept | None:
        """See :class:`Rule`."""
        own = parse_time(subject.registered_at)
        for peer in among:
            other = parse_time(peer.registered_at)
            if (peer.order > subject.order and other < own) or (peer.order < subject.order and other > own):
                reason = f"step {subject.step} and step {peer.step} were registered in the other order"
                return Kept(reason=reason, by=peer.id)
        return None


def rules_of(policy: Retention, now: datetime) -> tuple[Rule, ...]:
    """The rules that a project's policy makes, with those that always hold."""
    return (
        OpenRun(),
        Selected(),
        Referenced(),
        Replaced(),
        LegalHold(names=frozenset(policy.legal_hold)),
        ClassWithoutRule(classes=frozenset({"recovery", "evaluation"})),
        OrderUnclear(),
        KeepLast(artifact_class="recovery", count=policy.recovery_keep_last),
        YoungerThan(artifact_class="recovery", days=policy.recovery_max_age_days, now=now),
        YoungerThan(artifact_class="evaluation", days=policy.evaluation_max_age_days, now=now),
    )


def decide(
    subjects: Sequence[Subject], policies: Mapping[str, LoadedPolicy], *, now: datetime
) -> list[dict[str, Any]]:
    """One plan item per subject, by run, attempt and step.

    Keys: id, class, action, reason, bytes, blocked_by; and run, project, step, digest, location,
    policy_digest.
    """
    by_run: dict[str, list[Subject]] = {}
    for subject in subjects:
        by_run.setdefault(subject.run_uid, []).append(subject)
    return [
        _item(subject, among, policies.get(subject.project), now)
        for _, among in sorted(by_run.items())
        for subject in sorted(among, key=lambda entry: (entry.order, entry.id))
    ]


def _item(
    subject: Subject, among: Sequence[Subject], loaded: LoadedPolicy | None, now: datetime
) -> dict[str, Any]:
    retention = loaded.policy.retention if loaded else None
    action, reason, by = _verdict(subject, among, retention, now)
    return {
        "id": subject.id,
        "class": subject.artifact_class,
        "action": action,
        "reason": reason,
        "bytes": 0 if subject.missing else subject.size,
        "blocked_by": by,
        "run": subject.run_uid,
        "project": subject.project,
        "step": subject.step,
        "digest": subject.digest,
        "location": subject.location,
        "policy_digest": loaded.digest if loaded else None,
    }


def _verdict(
    subject: Subject, among: Sequence[Subject], retention: Retention | None, now: datetime
) -> tuple[Action, str, str]:
    if retention is None:
        who = repr(subject.project) if subject.project else "an unrecorded project"
        return "blocked", f"no retention policy of {who} is known", "policy"
    if subject.gaps:
        return "blocked", "; ".join(subject.gaps), "missing evidence"
    found = [rule.keeps(subject, among) for rule in rules_of(retention, now)]
    kept = [answer for answer in found if answer is not None]
    if kept:
        return "keep", "; ".join(answer.reason for answer in kept), kept[0].by
    if subject.artifact_class == "recovery":
        rule = (
            f"older than {retention.recovery_max_age_days:g} days and not one of the last "
            f"{retention.recovery_keep_last}"
        )
    else:
        rule = f"older than {retention.evaluation_max_age_days:g} days"
    gone = "; its bytes are already missing" if subject.missing else ""
    return "delete", f"closed run; {subject.artifact_class}: {rule}{gone}", ""
