"""What must not be deleted, whatever the policy says, and why: asked for the plan and again before each deletion.

A checkpoint is live while something needs its bytes: its run is not closed or a job of it runs, it is the source of
a kept candidate or of a release (or was measured for one), something else is derived from it or uses it, another run
names it as its beginning or derives from its run and is not closed, an evaluation reads it, an open gate asks about
it, a close gate approved it, or a person holds it. All of that is read from the ledger and from nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property

from pretrain_archive.domain.identity import format_time, utc_now
from pretrain_archive.ledger.port import Ledger
from pretrain_archive.retention.facts import KINDS, Facts
from pretrain_archive.retention.subjects import Kept

NEUTRAL = frozenset({"evaluation", "candidate", "release", "package", "decision", "tombstone", "person"})
"""Types that rest on a checkpoint without needing its bytes; kept candidates and releases are seen by payload."""

_FIELDS = {
    "checkpoint.registered": (
        "stream", "recorded_at", "payload.checkpoint_id", "payload.artifact_class", "payload.purpose", "payload.step",
        "payload.attempt", "payload.components", "payload.files[].size", "payload.location", "payload.digest",
        "payload.responsible",
    ),
}  # fmt: skip
"""What :class:`Facts` takes of the kind of which there are very many."""

_NO_LEASES: Mapping[str, str] = {}
_READS = 8
"""Reads until nothing new came in between; a log that grows faster than it is read is judged as of the last."""


class Liveness:
    """The ledger's facts, brought up to date by :meth:`refresh` and asked for reasons to keep."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.facts = Facts()
        self.seen = -1

    @classmethod
    def read(cls, ledger: Ledger) -> Liveness:
        """Everything that the ledger knows now."""
        made = cls(ledger)
        made.refresh()
        return made

    def refresh(self) -> None:
        """Read what is new, again until nothing came in between: records and edges are of one moment.

        The end of the log is looked up first and nothing behind it is taken: while one kind is read, another may grow.
        """
        for _ in range(_READS):
            end = self._end()
            if end == self.seen:
                return
            self.__dict__.pop("_users_of_snapshots", None)
            for position, body in self.ledger.bodies(kinds=KINDS, after=self.seen, fields=_FIELDS):
                if position > end:
                    break
                self.facts.take(position, body)
            for subject, object_, stream in self.ledger.links("checkpoint", after=self.seen):
                self.facts.link(subject, object_, stream)
            self.seen = end

    def _end(self) -> int:
        """The position of the newest record: the port says only whether there is one behind another."""
        low, step = self.seen, 1
        while self._any_after(low + step - 1):
            low, step = low + step, step * 2
        high = low + step - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._any_after(middle - 1) else (low, middle - 1)
        return low

    def _any_after(self, position: int) -> bool:
        return any(True for _ in self.ledger.records(after=position, limit=1))

    @cached_property
    def _users_of_snapshots(self) -> Mapping[str, Sequence[str]]:
        """Runs that used each snapshot and snapshots that derive from it; its checkpoints may be millions."""
        found: dict[str, list[str]] = {}
        for kind in ("run", "snapshot"):
            for subject, object_, _ in self.ledger.links("snapshot", subject_type=kind):
                found.setdefault(object_, []).append(subject)
        return found

    def keepers(self, ref: str, now: str = "") -> list[Kept]:
        """Every reason to keep a checkpoint at ``now`` (a record's time; empty is the present)."""
        return list(_keepers(self.facts, ref, now or utc_now()))

    def keepers_of_other(self, ref: str, run_uid: str) -> list[Kept]:
        """Every reason to keep something that is no checkpoint: ``ref`` may be named in edges or holds."""
        facts = self.facts
        found = [*_held(facts, (ref, f"run:{run_uid}", f"project:{_project(facts, run_uid)}"))]
        kind = ref.partition(":")[0]
        for subject in self._users_of_snapshots.get(ref, ()) if kind == "snapshot" else ():
            found.extend(_needs_snapshot(facts, subject))
        return list(dict.fromkeys(found))


def still_free(ledger: Ledger, refs: Collection[str], *, now: datetime | None = None) -> Mapping[str, str]:
    """Of ``refs``, those that may not be deleted now, each with the reason; one that is left out is free.

    Reads the ledger as it is now; nothing is asked of the policy. A checkpoint that the ledger does not know, or
    that is deleted, is not free. Whoever asks often keeps a :class:`Liveness`, refreshes it and calls :func:`busy`.
    """
    return busy(Liveness.read(ledger), refs, now=now)


def busy(liveness: Liveness, refs: Collection[str], *, now: datetime | None = None) -> Mapping[str, str]:
    """:func:`still_free` for a liveness that was just refreshed."""
    facts, found, moment = liveness.facts, dict[str, str](), format_time(now or datetime.now(UTC))
    for ref in refs:
        if not ref.startswith("checkpoint:"):
            kept = liveness.keepers_of_other(ref, "")
        elif ref in facts.tombstones:
            found[ref] = "its tombstone stands"
            continue
        elif ref not in facts.checkpoints:
            found[ref] = "no record names it"
            continue
        else:
            kept = liveness.keepers(ref, moment)
            if (holder := facts.replaced_by(ref)) is not None:
                kept.append(Kept(reason=f"its location now holds {holder}", by=holder))
        if kept:
            found[ref] = "; ".join(entry.reason for entry in kept)
    return found


def _keepers(facts: Facts, ref: str, now: str) -> Iterator[Kept]:
    subject = facts.checkpoints.get(ref)
    if subject is None:
        return
    uid, name = subject.run_uid, ref[len("checkpoint:") :]
    run = facts.run(uid)
    if not run.closed:
        yield Kept(reason=f"its run is {run.state}, not closed", by=f"run:{uid}")
    elif run.jobs or run.attempts:
        yield Kept(reason="a job of its run has no end on record", by=f"run:{uid}")
    if name in facts.of_checkpoint and (selected := facts.selected(ref)):
        yield Kept(reason=f"source of {', '.join(selected)}", by=selected[0])
    users = {*facts.open_children(uid), *facts.named_by(ref, uid)}
    if ref in facts.users:
        users.update(_users(facts, ref, uid))
    if users:
        found = sorted(users)
        yield Kept(reason=f"used by {', '.join(found)}", by=found[0])
    yield from _in_hand(facts, ref, uid, now)
    if facts.held:
        yield from _held(facts, (ref, name, f"run:{uid}", uid, f"project:{run.project}"))


def _in_hand(facts: Facts, ref: str, uid: str, now: str) -> Iterator[Kept]:
    """Somebody reads it, asks about it or has said yes to it."""
    name = ref[len("checkpoint:") :]
    for lease, until in facts.leases.get(name, _NO_LEASES).items():
        if until > now:
            yield Kept(reason=f"an evaluation reads it until {until}", by=f"evaluation try:{lease}")
    if (asker := facts.asked_by(ref)) is not None and asker != uid:
        yield Kept(reason=f"an open gate of {asker} asks about it", by=f"run:{asker}")
    if (decision := facts.approved.get(name)) is not None:
        yield Kept(reason="approved at the close gate", by=decision)


def _held(facts: Facts, names: Collection[str]) -> Iterator[Kept]:
    for name in names:
        for hold_id, why in facts.held.get(name, {}).items():
            yield Kept(reason=f"held: {why}", by=f"hold:{hold_id}")


def _users(facts: Facts, ref: str, uid: str) -> Iterator[str]:
    """Whatever rests on the bytes: not its own run, not evidence about it, nothing that was itself deleted."""
    for user, stream in facts.users.get(ref, ()):
        kind = user.partition(":")[0]
        if user == f"run:{uid}" or user in facts.tombstones:
            continue
        if kind not in NEUTRAL:
            yield user
        elif user in facts.measured:
            yield facts.measured[user]
        elif stream != uid and stream.startswith("run_") and not facts.run(stream).closed:
            yield f"run:{stream}"


def _needs_snapshot(facts: Facts, subject: str) -> Iterator[Kept]:
    kind, _, name = subject.partition(":")
    if kind == "run":
        run = facts.run(name)
        if not run.closed:
            yield Kept(reason=f"run {name} uses it and is {run.state}, not closed", by=subject)
        elif (chosen := facts.choices_of(name)) is not None:
            yield Kept(reason=f"{chosen} rests on it", by=chosen)
    elif kind == "snapshot" and subject not in facts.tombstones:
        yield Kept(reason=f"{subject} is derived from it", by=subject)


def _project(facts: Facts, uid: str) -> str:
    return facts.run(uid).project if uid else ""
