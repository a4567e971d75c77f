"""The policy's rules over the subjects of one run: which of them each condition keeps, and why.

Order and age come from the recorded step and registration, never from file times. Names decide nothing, but a
checkpoint whose folder states no plain step, or another one than its record, is not let go by its order: which of two
statements is true is not guessed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from urllib.parse import unquote

from pretrain_archive.artifacts.pointers import step_of
from pretrain_archive.domain.identity import format_time
from pretrain_archive.domain.policy_retention import Best, RetentionRule
from pretrain_archive.retention.subjects import Kept, Subject

Answers = dict[str, list[Kept]]


def kept_by(rule: RetentionRule, subjects: Sequence[Subject], now: datetime) -> Answers:
    """What ``rule`` keeps of the subjects of one run that it is about: reasons by reference.

    A subject that is missing or replaced does not count among the last or the best: it protects nobody.
    """
    found: Answers = {}
    if rule.keep_last is not None:
        by_class: dict[tuple[str, str], list[Subject]] = {}
        for subject in subjects:
            by_class.setdefault((subject.artifact_class, subject.group), []).append(subject)
        for peers in by_class.values():
            _last(rule, rule.keep_last, peers, found)
    if rule.keep_every is not None:
        for subject in subjects:
            if subject.step % rule.keep_every == 0:
                _keep(found, subject, rule, f"step is a multiple of {rule.keep_every}", "every")
    if rule.keep_best is not None:
        _best(rule, rule.keep_best, subjects, found)
    _by_time(rule, subjects, now, found)
    return found


def _by_time(rule: RetentionRule, subjects: Sequence[Subject], now: datetime, found: Answers) -> None:
    """The young, and those that were used lately."""
    if rule.younger_than_days is not None:
        edge = format_time(now - timedelta(days=rule.younger_than_days))
        for subject in subjects:
            if subject.registered_at > edge:
                day = subject.registered_at[:10]
                reason = f"younger than {rule.younger_than_days:g} days (registered {day})"
                _keep(found, subject, rule, reason, "young")
    if rule.unused_for_days is not None:
        edge = format_time(now - timedelta(days=rule.unused_for_days))
        for subject in subjects:
            used = max(subject.last_used_at, subject.registered_at)
            if used > edge:
                reason = f"used within {rule.unused_for_days:g} days (last {used[:10]})"
                _keep(found, subject, rule, reason, "used")


def _keep(found: Answers, subject: Subject, rule: RetentionRule, reason: str, code: str) -> None:
    found.setdefault(subject.ref, []).append(Kept(reason=reason, by=f"policy: {rule.name}", code=code))


def _last(rule: RetentionRule, count: int, peers: Sequence[Subject], found: Answers) -> None:
    """The ``count`` with the highest attempt and step, those of equal order with them; and what states no step."""
    stepped = peers[0].kind == "checkpoint"
    if stepped:
        for subject in peers:
            if (odd := _odd_name(subject)) is not None:
                _keep(found, subject, rule, odd, "name")
    counted = [subject for subject in peers if not subject.missing and not subject.replaced_by]
    if len(counted) > count:
        orders = sorted((_order(subject) for subject in counted), reverse=True)
        edge = orders[count - 1]
        counted = [subject for subject in counted if _order(subject) >= edge]
    for subject in counted:
        _keep(found, subject, rule, f"one of the last {count}", "last")


def _order(subject: Subject) -> tuple[int, int, str]:
    """By attempt and step; what has no step (and is no checkpoint) by its registration."""
    return (subject.attempt, subject.step, "" if subject.kind == "checkpoint" else subject.registered_at)


@functools.lru_cache(maxsize=1 << 15)
def _stated(name: str) -> int | None:
    """The step in a folder's name as an address has it; runs have the same names."""
    return step_of(unquote(name) if "%" in name else name)


def _odd_name(subject: Subject) -> str | None:
    name = subject.location.rstrip("/").rpartition("/")[2]
    stated = _stated(name)
    if stated is None:
        return f"its name {name[:80]!r} states no plain step: its order is not concluded from it"
    if stated != subject.step:
        return f"its name states step {stated}, its record step {subject.step}"
    return None


def _best(rule: RetentionRule, best: Best, subjects: Sequence[Subject], found: Answers) -> None:
    """The best by each definition of the metric, ties with them; without any value nothing is known of the best."""
    measured: dict[str, list[Subject]] = {}
    for subject in subjects:
        if best.metric in subject.metrics and not subject.missing and not subject.replaced_by:
            measured.setdefault(subject.metrics_of, []).append(subject)
    if not measured:
        reason = f"no checkpoint of its run has a value of {best.metric}: which is the best is unrecorded"
        for subject in subjects:
            _keep(found, subject, rule, reason, "unmeasured")
    for peers in measured.values():
        values = sorted((s.metrics[best.metric] for s in peers), reverse=best.direction == "higher")
        edge = values[min(best.count, len(values)) - 1]
        for subject in peers:
            value = subject.metrics[best.metric]
            if value <= edge if best.direction == "lower" else value >= edge:
                count = "the best" if best.count == 1 else f"one of the best {best.count}"
                _keep(found, subject, rule, f"{count} by {best.metric} ({value:g})", "best")


def order_unclear(subjects: Sequence[Subject]) -> Mapping[str, Kept]:
    """Those whose steps and registrations disagree on what came later: nothing is concluded from either.

    A later step registered before an earlier one, within one run; equal times and equal orders say nothing.
    """
    ordered = sorted(subjects, key=attrgetter("attempt", "step"))
    times = [subject.registered_at for subject in ordered]
    if times == sorted(times):
        return {}
    groups: list[list[Subject]] = []
    for subject in ordered:
        if groups and groups[-1][0].order == subject.order:
            groups[-1].append(subject)
        else:
            groups.append([subject])
    found: dict[str, Kept] = {}
    _compare(groups, found, later=False)
    _compare(groups[::-1], found, later=True)
    return found


def _compare(groups: Sequence[Sequence[Subject]], found: dict[str, Kept], *, later: bool) -> None:
    """Against the extreme registration of all groups before: the latest going up, the earliest going down."""
    extreme: Subject | None = None
    for group in groups:
        for subject in group if extreme is not None else ():
            peer = extreme
            if peer is None or subject.ref in found:
                continue
            if (
                peer.registered_at < subject.registered_at
                if later
                else peer.registered_at > subject.registered_at
            ):
                reason = f"step {subject.step} and step {peer.step} were registered in the other order"
                found[subject.ref] = Kept(reason=reason, by=peer.ref, code="order")
        for subject in group:
            if extreme is None or (
                subject.registered_at < extreme.registered_at
                if later
                else subject.registered_at > extreme.registered_at
            ):
                extreme = subject


def lets_go(rule: RetentionRule) -> str:
    """Why a subject that none of the rule's conditions keeps may go, in words."""
    parts = []
    if rule.younger_than_days is not None:
        parts.append(f"older than {rule.younger_than_days:g} days")
    if rule.unused_for_days is not None:
        parts.append(f"not used for {rule.unused_for_days:g} days")
    if rule.keep_last is not None:
        parts.append(f"not one of the last {rule.keep_last}")
    if rule.keep_every is not None:
        parts.append(f"no multiple of step {rule.keep_every}")
    if rule.keep_best is not None:
        parts.append(f"not one of the best {rule.keep_best.count} by {rule.keep_best.metric}")
    return " and ".join(parts)
