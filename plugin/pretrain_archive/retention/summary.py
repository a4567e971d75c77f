"""A plan in numbers, by project: how many go and stay and why, their bytes and cost, what falls, what has no owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pretrain_archive.domain.cost_attribution import GIGABYTE
from pretrain_archive.domain.policy import LoadedPolicy, Policy
from pretrain_archive.retention.plan import GOING, Decision

MOST_LARGEST = 10
MOST_EXAMPLES = 20
"""References that a summary names of each sort; the counts are of all."""


@dataclass(kw_only=True)
class _Project:
    """The numbers of one project."""

    seen: dict[tuple[str, str, str, str], list[int]] = field(default_factory=dict)
    falling: set[str] = field(default_factory=set)
    last_falling: Sequence[str] = ()
    blocked: list[dict[str, str]] = field(default_factory=list)
    ownerless: Counter[str] = field(default_factory=Counter)
    ownerless_bytes: int = 0
    ownerless_examples: list[str] = field(default_factory=list)

    def count(self, place: int, within: int | None = None) -> dict[str, Any]:
        """How many by one part of the key (action, class, kind, code); ``within`` another part, by that first."""
        if within is None:
            flat = Counter[str]()
            for key, (count, _) in self.seen.items():
                flat[key[place]] += count
            return dict(sorted(flat.items()))
        nested: dict[str, Counter[str]] = {}
        for key, (count, _) in self.seen.items():
            nested.setdefault(key[within], Counter())[key[place]] += count
        return {name: dict(sorted(counts.items())) for name, counts in sorted(nested.items())}

    def size(self, *actions: str) -> int:
        """The bytes of some actions."""
        return sum(size for key, (_, size) in self.seen.items() if key[0] in actions)


@dataclass(kw_only=True)
class Summary:
    """Takes answers one by one; :meth:`to_json` is what the record of a plan says of them."""

    policies: Mapping[str, LoadedPolicy]
    unlooked: int = 0
    _projects: dict[str, _Project] = field(default_factory=dict)
    _people: dict[str, frozenset[str]] = field(default_factory=dict)
    _largest: list[tuple[int, str, str]] = field(default_factory=list)

    def take(self, answer: Decision, falling: Sequence[str]) -> None:
        """One more answer of the plan."""
        subject, action = answer.subject, answer.action
        project = self._projects.get(subject.project)
        if project is None:
            project = self._projects[subject.project] = _Project()
        key = (action, subject.artifact_class, subject.kind, answer.code)
        seen = project.seen.get(key)
        if seen is None:
            seen = project.seen[key] = [0, 0]
        seen[0] += 1
        seen[1] += answer.size
        if action in GOING:
            self._note_large(answer)
        if action == "blocked" and len(project.blocked) < MOST_EXAMPLES:
            project.blocked.append({"id": subject.ref, "reason": answer.reason})
        if falling and falling != project.last_falling:
            project.falling.update(falling)
            project.last_falling = falling
        if subject.kind == "checkpoint" and action not in GOING and not subject.missing:
            self._own(project, subject.project, subject.ref, subject.responsible, answer.size)

    def _note_large(self, answer: Decision) -> None:
        if len(self._largest) < MOST_LARGEST or answer.size > self._largest[-1][0]:
            self._largest.append((answer.size, answer.subject.ref, answer.reason))
            self._largest.sort(key=lambda entry: (-entry[0], entry[1]))
            del self._largest[MOST_LARGEST:]

    def _own(self, project: _Project, name: str, ref: str, responsible: str, size: int) -> None:
        loaded = self.policies.get(name)
        if loaded is None:
            return
        people = self._people.get(name)
        if people is None:
            people = self._people[name] = people_of(loaded.policy)
        if responsible in people:
            return
        project.ownerless[responsible] += 1
        project.ownerless_bytes += size
        if len(project.ownerless_examples) < MOST_EXAMPLES:
            project.ownerless_examples.append(ref)

    @property
    def total_bytes(self) -> int:
        """What would be released."""
        return sum(self.going_bytes().values())

    def going_bytes(self) -> dict[str, int]:
        """What would be released, by project with a deletion."""
        return {
            name: project.size(*GOING)
            for name, project in self._projects.items()
            if any(key[0] in GOING for key in project.seen)
        }

    @property
    def needs_approval(self) -> bool:
        """Whether a person must say yes: above a project's limit."""
        for name, size in self.going_bytes().items():
            loaded = self.policies.get(name)
            retention = loaded.policy.retention if loaded else None
            if retention is None or size > retention.approval_above_bytes:
                return True
        return False

    def to_json(self) -> dict[str, Any]:
        """``projects`` by name, the ``largest`` deletions, and ``unlooked``: those that were not looked at."""
        return {
            "projects": {name: self._project(name, found) for name, found in sorted(self._projects.items())},
            "largest": [{"id": ref, "bytes": size, "reason": why} for size, ref, why in self._largest],
            "unlooked": self.unlooked,
        }

    def _project(self, name: str, found: _Project) -> dict[str, Any]:
        loaded = self.policies.get(name)
        going, held = found.size(*GOING), found.size("keep", "blocked")
        said: dict[str, Any] = {
            "actions": found.count(0),
            "bytes": going,
            "kept_bytes": held,
            "cost_per_month": cost_of(loaded, going),
            "kept_cost_per_month": cost_of(loaded, held),
            "currency": loaded.policy.cost.currency if loaded else None,
            "classes": found.count(0, within=1),
            "kinds": found.count(0, within=2),
            "reasons": found.count(3, within=0),
            "falls": dict(Counter(decision.partition(":")[0] for decision in found.falling)),
            "blocked": found.blocked,
        }
        if found.ownerless:
            said["ownerless"] = {
                "count": found.ownerless.total(),
                "bytes": found.ownerless_bytes,
                "responsible": dict(sorted(found.ownerless.items())),
                "examples": found.ownerless_examples,
            }
        return said


def cost_of(loaded: LoadedPolicy | None, size: int) -> float | None:
    """What keeping ``size`` bytes costs a month by the policy's price; None, unrecorded, without one."""
    price = loaded.policy.cost.per_gigabyte_month if loaded else None
    return None if price is None else round(size / GIGABYTE * price, 6)


def people_of(policy: Policy) -> frozenset[str]:
    """Everybody whom the policy names: who may answer for a checkpoint of the project."""
    people = policy.people
    found = {getattr(people, role) for role in type(people).model_fields}
    for gate in type(policy.approvers).model_fields:
        found.update(getattr(policy.approvers, gate))
    found |= {*policy.gates.user_ids, *policy.gates.user_ids.values()}
    if policy.retention is not None:
        found.update(policy.retention.responsible)
    return frozenset(found - {""})
