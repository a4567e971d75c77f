"""What goes and what stays, run by run: rules over subjects alone, without clock, disk or ledger.

Only a subject that nothing needs, with all its evidence, for which a rule of its project's policy says so and none
of the rule's conditions keeps it, is deleted. Every subject gets an answer with its reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from pretrain_archive.domain.policy import LoadedPolicy
from pretrain_archive.domain.policy_retention import Retention, RetentionRule
from pretrain_archive.retention.rules import Answers, kept_by, lets_go, order_unclear
from pretrain_archive.retention.subjects import Kept, Subject

Action = Literal["delete", "delete_parts", "keep", "blocked"]
GOING = ("delete", "delete_parts")
"""The actions of a plan that take bytes away."""
_NEEDED = frozenset({"live", "hold", "order", "replaced", "state", "rule"})
"""Reasons to keep that no rule outweighs."""
_RECORDLESS = frozenset({"temporary", "cache", "leftover", "log"})
_OVER = frozenset({"closed"})
_OVER_FOR_GOOD_OR_BAD = frozenset({"closed", "failed", "none"})

__all__ = ["GOING", "Action", "Subject", "decide", "decide_run", "decisions"]


SHARED = (
    "class", "action", "reason", "blocked_by", "run", "project", "policy_digest", "kind", "purpose", "code", "rule",
    "parts", "falls",
)  # fmt: skip
"""What many items of a plan say alike; the last two only where there is something to say."""
OWN = ("id", "bytes", "step", "digest", "location")
"""What each item says for itself."""
Row = tuple[tuple[Any, ...], tuple[Any, ...]]
"""The values of an item, by :data:`SHARED` and :data:`OWN`."""


class Decision(NamedTuple):
    """The answer for one subject. ``size`` are the bytes that would go (or stay), ``by`` what blocks it."""

    subject: Subject
    action: Action
    reason: str
    by: str
    code: str
    size: int
    rule: str = ""
    parts: tuple[str, ...] = ()

    def to_row(self, policy_digest: str | None, falls: Sequence[str] = ()) -> Row:
        """One item of a plan as values alone: a plan has many."""
        subject, action, reason, by, code, size, rule, parts = self
        shared = (
            subject.artifact_class, action, reason, by, subject.run_uid, subject.project, policy_digest, subject.kind,
            subject.purpose, code, rule, parts or None, tuple(falls) or None,
        )  # fmt: skip
        return shared, (subject.ref, size, subject.step, subject.digest, subject.location)

    def to_item(self, policy_digest: str | None, falls: Sequence[str] = ()) -> dict[str, Any]:
        """One item of a plan: id, class, action, reason, bytes, blocked_by, and what a deletion needs."""
        shared, own = self.to_row(policy_digest, falls)
        item = dict(zip(SHARED, shared, strict=True)) | dict(zip(OWN, own, strict=True))
        for name in ("parts", "falls"):
            values = item.pop(name)
            if values:
                item[name] = list(values)
        return item


def decide(
    subjects: Sequence[Subject], policies: Mapping[str, LoadedPolicy], *, now: datetime
) -> list[dict[str, Any]]:
    """One plan item per subject, by run, kind, attempt and step."""
    return [
        decision.to_item(_digest(policies, decision.subject.project))
        for decision in decisions(subjects, policies, now=now)
    ]


def decisions(
    subjects: Iterable[Subject], policies: Mapping[str, LoadedPolicy], *, now: datetime
) -> Iterator[Decision]:
    """The answer for each subject, by run."""
    by_run: dict[str, list[Subject]] = {}
    for subject in subjects:
        by_run.setdefault(subject.run_uid, []).append(subject)
    for _, among in sorted(by_run.items()):
        yield from decide_run(among, policies, now=now)


_place = attrgetter("kind", "attempt", "step", "ref")


def decide_run(
    among: Sequence[Subject], policies: Mapping[str, LoadedPolicy], *, now: datetime
) -> Iterator[Decision]:
    """The answer for each subject of one run, with all of them in view, by kind, attempt and step."""
    ordered = sorted(among, key=_place)
    by_project: dict[str, list[Subject]] = {}
    for subject in ordered:
        by_project.setdefault(subject.project, []).append(subject)
    unclear = order_unclear([subject for subject in ordered if subject.kind == "checkpoint"])
    for project, subjects in by_project.items():
        loaded = policies.get(project)
        retention = loaded.policy.retention if loaded else None
        if retention is None:
            who = repr(project) if project else "an unrecorded project"
            for subject in subjects:
                yield _answer(
                    subject, "blocked", f"no retention policy of {who} is known", "policy", "policy"
                )
        else:
            judged = _Judged(retention, subjects, now)
            for subject in subjects:
                yield judged.decide(subject, unclear.get(subject.ref))


Sort = tuple[str, str, str]
"""Kind, class and purpose: what a rule is about."""
_sort = attrgetter("kind", "artifact_class", "purpose")


class _Judged:
    """The rules of a policy, asked once about all the subjects of a run."""

    def __init__(self, retention: Retention, subjects: Sequence[Subject], now: datetime) -> None:
        self.holds = frozenset(retention.legal_hold)
        self.words: dict[tuple[str, str, str, bool], str] = {}
        self.rules: dict[Sort, list[tuple[RetentionRule, Answers, str]]] = {}
        sorts: dict[Sort, list[Subject]] = {}
        for subject in subjects:
            sorts.setdefault(_sort(subject), []).append(subject)
        for rule in retention.all_rules():
            about = [sort for sort in sorts if rule.is_about(*sort)]
            if about:
                among = subjects if len(about) == len(sorts) else [s for sort in about for s in sorts[sort]]
                answers = kept_by(rule, among, now) if rule.action != "keep" else {}
                for sort in about:
                    self.rules.setdefault(sort, []).append((rule, answers, lets_go(rule)))

    def decide(self, subject: Subject, unclear: Kept | None) -> Decision:
        """The answer for one subject."""
        rules = self.rules.get(_sort(subject), ())
        if len(rules) == 1 and unclear is None and not self.holds and _is_plain(subject):
            rule, answers, words = rules[0]
            # The same as below, for the many of which there is nothing to say.
            if rule.action == "delete" and subject.ref not in answers:
                return _let_go(subject, (), rule, self._reason(subject, rule, words))
        if subject.gaps:
            return _answer(subject, "blocked", "; ".join(subject.gaps), "missing evidence", "evidence")
        told, going = self._ask(subject, rules)
        kept = [*_needed(subject, self.holds), *([unclear] if unclear else []), *told]
        if going is None or any(entry.code in _NEEDED for entry in kept):
            reasons = "; ".join(dict.fromkeys(entry.reason for entry in kept))
            return _answer(subject, "keep", reasons, kept[0].by, kept[0].code)
        return _let_go(subject, kept, going[0], self._reason(subject, *going))

    @staticmethod
    def _ask(
        subject: Subject, rules: Sequence[tuple[RetentionRule, Answers, str]]
    ) -> tuple[list[Kept], tuple[RetentionRule, str] | None]:
        """What the rules keep it for, and the strongest rule that lets it go with its words."""
        kept: list[Kept] = []
        asked: set[str] = set()
        going: tuple[RetentionRule, str] | None = None
        for rule, answers, words in rules:
            if rule.action in asked:
                continue
            if rule.action == "keep":
                kept.append(
                    Kept(reason=f"rule {rule.name!r} keeps it", by=f"policy: {rule.name}", code="rule")
                )
                return kept, None
            asked.add(rule.action)
            conditions = answers.get(subject.ref)
            if conditions:
                kept.extend(conditions if going is None else ())
            elif going is None or rule.action == "delete":
                going = (rule, words)
        if not asked:
            reason = f"no rule is about class {subject.artifact_class}"
            kept.append(Kept(reason=reason, by="policy", code="no_rule"))
        return kept, going

    def _reason(self, subject: Subject, rule: RetentionRule, words: str) -> str:
        """One text for all that go alike: a plan has many."""
        key = (rule.name, subject.artifact_class, subject.run_state, subject.missing)
        if key not in self.words:
            gone = "; its bytes are already missing" if subject.missing else ""
            state = "" if subject.run_state == "none" else f"{subject.run_state} run; "
            self.words[key] = f"{state}{subject.artifact_class}: {words}{gone}"
        return self.words[key]


def _is_plain(subject: Subject) -> bool:
    """Whether nothing is known of a subject that could keep or block it, whatever the rules say."""
    return subject.run_state == "closed" and not subject.live and not subject.gaps and not subject.replaced_by


def _let_go(subject: Subject, kept: Sequence[Kept], rule: RetentionRule, reason: str) -> Decision:
    """The whole or the parts that are left go."""
    if rule.action == "delete":
        return _answer(subject, "delete", reason, "", rule.name, rule=rule.name)
    parts = tuple(part for part in rule.parts if subject.parts.get(part) and part not in subject.gone_parts)
    if not parts or subject.missing:
        text = "; ".join([*(entry.reason for entry in kept), f"none of its {', '.join(rule.parts)} is left"])
        return _answer(subject, "keep", text, f"policy: {rule.name}", "parts")
    size = sum(subject.parts[part] for part in parts)
    return Decision(
        subject=subject, action="delete_parts", reason=f"{reason}; only {', '.join(parts)}", by="",
        code=rule.name, size=size, rule=rule.name, parts=parts,
    )  # fmt: skip


def _needed(subject: Subject, holds: frozenset[str]) -> Iterator[Kept]:
    """What needs the subject, whatever the rules say."""
    over = _OVER_FOR_GOOD_OR_BAD if subject.kind in _RECORDLESS else _OVER
    # What uses a snapshot is told by ``live``: the run that made it may long be over, or go on with a later one.
    if subject.run_state not in over and subject.kind != "snapshot" and not subject.live:
        by = f"run:{subject.run_uid}"
        yield Kept(reason=f"its run is {subject.run_state}, not closed", by=by, code="state")
    yield from subject.live
    if subject.replaced_by:
        reason = f"its location now holds {subject.replaced_by}"
        yield Kept(reason=reason, by=subject.replaced_by, code="replaced")
    if holds:
        own = {subject.ref, subject.ref.partition(":")[2], subject.run_uid, f"run:{subject.run_uid}"}
        held = sorted(holds & {*own, subject.project, f"project:{subject.project}"})
        if held:
            yield Kept(reason=f"legal hold on {', '.join(held)}", by="policy: legal_hold", code="hold")


def _answer(subject: Subject, action: Action, reason: str, by: str, code: str, *, rule: str = "") -> Decision:
    size = subject.size if not subject.missing and not subject.gone_parts else subject.present_size
    return Decision(subject, action, reason, by, code, size, rule)


def _digest(policies: Mapping[str, LoadedPolicy], project: str) -> str | None:
    loaded = policies.get(project)
    return loaded.digest if loaded else None
